//! What a program serves beside A2A on the same port: HTTP routes, JSON-RPC methods and gRPC services of its own.
//!
//! A2A has precedence. A name that both have is a [`Conflict`], and the server does not start.

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use http::Extensions;
use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::core::server::{MethodCallback, Methods};
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tower::{Service, ServiceExt as _};
use tricord_bindings::Protocol;

use super::auxiliary;
use crate::schema::grpc;

/// Why something of the program's own cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// A route would match a path of A2A.
    #[error("the route {route} would match {path}, which is a path of A2A: choose another path")]
    Route {
        /// The route.
        route: String,
        /// The path of A2A.
        path: String,
    },
    /// A JSON-RPC method has the name of another, or of one of A2A.
    #[error("the JSON-RPC method {0} exists already: choose another name")]
    Method(String),
    /// A JSON-RPC method is a subscription.
    #[error("the JSON-RPC method {0} is a subscription, which is not supported: register a method instead")]
    Subscription(String),
    /// A gRPC service has the name of another, or of one that the server has.
    #[error("the gRPC service {0} exists already: choose another name")]
    Service(String),
}

/// What a program serves beside A2A.
#[derive(Debug, Clone, Default)]
pub struct Additional {
    pub(super) routes: Router,
    pub(super) methods: Methods,
    services: RoutesBuilder,
    service_names: Vec<&'static str>,
    /// What was found while adding.
    conflict: Option<Conflict>,
}

impl Additional {
    /// Adds routes, without their fallback.
    ///
    /// # Panics
    /// If a route overlaps with one added before, like [`Router::merge`].
    pub fn add_routes(&mut self, routes: Router) {
        let all = std::mem::take(&mut self.routes);
        // With the fallback go those of nested routers, which nothing would authenticate.
        self.routes = all.merge(routes.reset_fallback());
    }

    /// Adds JSON-RPC methods.
    pub fn add_methods(&mut self, methods: impl Into<Methods>) {
        let methods = methods.into();
        let names: Vec<_> = methods.method_names().collect();
        if let Err(error) = self.methods.merge(methods) {
            let name = match error {
                RegisterMethodError::AlreadyRegistered(name) => name,
                _ => names.join(", "),
            };
            self.conflict.get_or_insert(Conflict::Method(name));
        }
    }

    /// Adds a gRPC service.
    pub fn add_service<S>(&mut self, service: S)
    where
        S: Service<http::Request<tonic::body::Body>, Error = std::convert::Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        if self.service_names.contains(&S::NAME) {
            self.conflict.get_or_insert(Conflict::Service(S::NAME.to_owned()));
        } else {
            self.service_names.push(S::NAME);
            self.services.add_service(service);
        }
    }

    /// Checks that nothing has a name of A2A as it is served with this base path and these agents.
    pub(crate) fn check_names(&self, base_path: &str, agents: &[String]) -> Result<(), Conflict> {
        self.check(&crate::protocol::PROTOCOL, &super::routes::paths(base_path, agents))
    }

    /// Checks that nothing has a name of A2A, whose HTTP paths are given.
    pub(super) fn check(&self, protocol: &Protocol, paths: &[String]) -> Result<(), Conflict> {
        if let Some(conflict) = &self.conflict {
            return Err(conflict.clone());
        }
        for name in self.methods.method_names() {
            if protocol.codecs.iter().any(|codec| codec.jsonrpc_rpc(name).is_some()) {
                return Err(Conflict::Method(name.to_owned()));
            }
            if !matches!(self.methods.method(name), Some(MethodCallback::Sync(_) | MethodCallback::Async(_))) {
                return Err(Conflict::Subscription(name.to_owned()));
            }
        }
        let taken = |name: &&&'static str| **name == grpc::NAME || auxiliary::NAMES.contains(*name);
        if let Some(name) = self.service_names.iter().find(taken) {
            return Err(Conflict::Service((*name).to_owned()));
        }
        self.check_routes(paths)
    }

    fn check_routes(&self, paths: &[String]) -> Result<(), Conflict> {
        if !self.routes.has_routes() {
            return Ok(());
        }
        // The layer answers in place of the handlers, so that asking for a path runs none of them.
        let routes = self.routes.clone().route_layer(axum::middleware::from_fn(|request: Request, _| async move {
            let mut response = Response::new(axum::body::Body::empty());
            response.extensions_mut().insert(Matched::of(request.extensions()));
            response
        }));
        for path in paths {
            let Ok(request) = Request::builder().uri(path).body(axum::body::Body::empty()) else { continue };
            let Some(Ok(response)) = routes.clone().oneshot(request).now_or_never() else { continue };
            if let Some(Matched(route)) = response.extensions().get() {
                let route = route.clone().unwrap_or_else(|| path.clone());
                return Err(Conflict::Route { route, path: path.clone() });
            }
        }
        Ok(())
    }

    /// Returns the gRPC services, by name.
    pub(super) fn services(&self) -> Services {
        Services { names: self.service_names.clone(), routes: self.services.clone().routes().prepare() }
    }
}

/// The route that a request matched, where it has a name.
#[derive(Debug, Clone)]
struct Matched(Option<String>);

impl Matched {
    fn of(extensions: &Extensions) -> Self {
        Self(extensions.get().map(|path: &MatchedPath| path.as_str().to_owned()))
    }
}

/// The gRPC services of a program.
#[derive(Debug, Clone)]
pub(super) struct Services {
    names: Vec<&'static str>,
    pub(super) routes: Routes,
}

impl Services {
    /// Returns their names.
    pub(super) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Returns whether a path is of one of them.
    pub(super) fn has(&self, path: &str) -> bool {
        let name = path.strip_prefix('/').and_then(|path| path.split('/').next()).unwrap_or_default();
        self.names.contains(&name)
    }
}
