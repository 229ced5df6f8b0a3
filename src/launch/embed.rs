//! A server inside a larger program: the program's own services beside A2A, or A2A inside the program's own server.

use axum::Router;
use axum::response::IntoResponse;
use jsonrpsee::RpcModule;
use tonic::server::NamedService;

use super::start::Started;
use super::{Launch, LaunchError};

impl Launch {
    /// Serves these routes beside A2A, behind the same authentication, CORS and request ids. A handler finds its caller
    /// as `Extension<Principal>` and its peer as `ConnectInfo<SocketAddr>`.
    ///
    /// A2A has precedence: a route that matches one of its paths is an error at the start. A fallback of the router is not
    /// used; a path that is nobody's gets A2A's error. gRPC goes by [`Launch::grpc`] alone.
    ///
    /// # Panics
    /// If a route overlaps with one given before, like [`Router::merge`].
    #[must_use]
    pub fn routes(mut self, routes: Router) -> Self {
        self.additional.add_routes(routes);
        self
    }

    /// Serves these JSON-RPC methods on the endpoints of A2A, behind the same authentication: an A2A extension may define
    /// methods. A method finds its caller, a `Principal`, in its extensions, and its parameters are `{}` if the client
    /// sends none.
    ///
    /// A name of A2A, a name given twice and a subscription are errors at the start.
    #[must_use]
    pub fn methods<C>(mut self, module: RpcModule<C>) -> Self {
        self.additional.add_methods(module);
        self
    }

    /// Serves this gRPC service beside A2A, also by gRPC-Web, behind the same authentication. A method finds its caller, a
    /// `Principal`, in the extensions of its request.
    ///
    /// A service that the server has itself, or that was given twice, is an error at the start.
    #[must_use]
    pub fn grpc<S>(mut self, service: S) -> Self
    where
        S: tower::Service<http::Request<tonic::body::Body>, Error = std::convert::Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        self.additional.add_service(service);
        self
    }

    /// Opens the store, recovers tasks that an earlier process left unfinished, and returns the server as an
    /// [`axum::Router`] for the program's own server. The admin port is bound if one is configured.
    ///
    /// Nothing listens on `server.listen` and `server.tls` is not used; set `server.public_url` to the URL of the
    /// program's own server, which cards advertise. Limits on connections and their times, HTTP/2 pings, and the check of
    /// `Host` are the program's own, and `tricord_connections` stays 0.
    ///
    /// # Errors
    /// The reason why the server cannot start.
    pub async fn router(self) -> Result<Embedded, LaunchError> {
        let prepared = self.prepare()?;
        let started = prepared.start(None).await?;
        Ok(Embedded { started })
    }
}

/// A server without a port of its own, to be served by another. Shut it down with [`Embedded::shut_down`].
///
/// ```no_run
/// use std::net::SocketAddr;
///
/// use tricord::Launch;
/// use tricord::agents::{TaskContext, from_fn};
/// use tricord::axum::routing::get;
/// use tricord::axum::{self, Router};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let echo = from_fn(|task: TaskContext| async move { task.reply(task.text()).await });
/// let a2a = Launch::new().agent("echo", echo).router().await?;
/// let app = Router::new().route("/hello", get(|| async { "hello" })).merge(a2a.router());
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())
///     .with_graceful_shutdown(async move {
///         tricord::shutdown_signal().await;
///         a2a.shut_down().await;
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "tasks run until `shut_down`"]
pub struct Embedded {
    started: Started,
}

impl Embedded {
    /// Returns the router. Its fallback is A2A, so it is merged into a router without a fallback, or is itself the
    /// fallback of another; a prefix is set as `server.base_path`, not by nesting.
    ///
    /// The addresses of clients are known where the router is served with `into_make_service_with_connect_info`.
    pub fn router(&self) -> Router {
        self.started.server.router()
    }

    /// Returns the URL that cards advertise, without the base path.
    pub fn public_url(&self) -> &str {
        &self.started.public_url
    }

    /// Returns the configuration.
    pub fn config(&self) -> &crate::config::Config {
        &self.started.config
    }

    /// Returns the address of the admin port, if there is one.
    pub fn admin_address(&self) -> Option<std::net::SocketAddr> {
        self.started.admin_address
    }

    /// Refuses new work, gives runs the configured grace while streams stay open, ends the streams, and leaves runs that
    /// have not ended to the next start. The program's own server stops accepting connections after that.
    pub async fn shut_down(self) {
        self.started.shut_down().await;
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("public_url", &self.started.public_url).finish_non_exhaustive()
    }
}
