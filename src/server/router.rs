//! The public port as an [`axum::Router`] under tower layers.
//!
//! A2A is the fallback of the router: its paths (`/tasks/{id}:cancel`) cannot be written as routes of axum. Around it are,
//! from the outside in, the id of the request, CORS, the span for logs, and compression.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::middleware::{Next, from_fn};
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode};
use tower::Layer as _;
use tower::layer::util::Identity;
use tower::util::{Either, option_layer};
use tracing::{Instrument as _, Span};
use tricord_bindings::body::discard;
use tricord_bindings::error::kinds;
use tricord_bindings::pipeline::{ACCESS, RequestBody};
use tricord_bindings::{Binding, Peer};

use super::cors::Cors;
use super::dispatch::is_grpc;
use super::request_id::RequestIdLayers;
use super::{Server, client, compression, request_id};
use crate::schema::A2aService;

/// The layers around everything on the port.
type Layers = (RequestIdLayers<axum::body::Body>, Either<Cors, Identity>);

impl<S: A2aService> Server<S> {
    /// Returns everything on the port, for this crate's own accept loop or for another server.
    ///
    /// The address of the client is that of the [`Peer`] among the extensions of a request, or else of the
    /// [`ConnectInfo`]; without either it is unspecified.
    pub fn router(&self) -> Router {
        let server = self.clone();
        let a2a = tower::service_fn(move |request: Request<axum::body::Body>| {
            let server = server.clone();
            async move {
                let peer = peer(request.extensions());
                Ok::<_, Infallible>(server.answer(request, &peer).await)
            }
        });
        self.additional_routes().fallback_service(self.layers().layer(a2a))
    }

    /// Returns the program's own routes, behind authentication.
    fn additional_routes(&self) -> Router {
        let routes = self.0.additional.routes.clone();
        if !routes.has_routes() {
            return routes;
        }
        let server = self.clone();
        let authenticated = from_fn(move |request: Request<axum::body::Body>, next: Next| {
            let server = server.clone();
            async move {
                let peer = peer(request.extensions());
                let span = server.span(request.headers(), &peer);
                server.answer_route(request, peer, next).instrument(span).await
            }
        });
        routes.route_layer(authenticated).layer(self.layers())
    }

    /// Answers a request for a route of the program's own. A path of A2A stays A2A's: a route such as `/tasks/{*rest}` may
    /// match one that was not known at the start.
    async fn answer_route(
        &self,
        request: Request<axum::body::Body>,
        peer: Peer,
        next: Next,
    ) -> Response<axum::body::Body> {
        if is_grpc(&request) || self.is_a2a(request.uri().path()) {
            return self.answer(request, &peer).await;
        }
        let (mut head, body) = request.into_parts();
        let authenticated = match self.check_source(&head) {
            Ok(()) => self.0.pipeline.authenticate(&head, &peer).await,
            Err(error) => Err(error),
        };
        match authenticated {
            Ok(principal) => {
                head.extensions.insert(principal);
                head.extensions.insert(ConnectInfo(peer.address()));
                let mut record = self.0.pipeline.record_additional(Binding::HttpJson);
                let response = next.run(Request::from_parts(head, body)).await;
                match response.status() {
                    status if status.is_server_error() => record.end_with(kinds::INTERNAL.reason),
                    status if status.is_client_error() => record.end_with(kinds::INVALID_REQUEST.reason),
                    _ => record.end(None),
                }
                response
            }
            Err(error) => {
                let refused = self.refuse(&head, &error);
                discard(&head.headers, body);
                refused.map(axum::body::Body::new)
            }
        }
    }

    fn layers(&self) -> Layers {
        (request_id::layers(), option_layer(self.0.cors.clone()))
    }

    /// Answers one request of this peer: what the router does inside its outer layers.
    pub async fn answer(&self, request: Request<impl RequestBody>, peer: &Peer) -> Response<axum::body::Body> {
        let is_head = request.method() == Method::HEAD;
        let span = self.span(request.headers(), peer);
        let answer = compression::compress(request, |request| Box::pin(self.dispatch(request, peer))).instrument(span);
        let response = answer.await;
        if is_head { without_body(response) } else { response }
    }

    /// Returns the span of a request, around that of the call itself, which knows nothing of connections.
    fn span(&self, headers: &HeaderMap, peer: &Peer) -> Span {
        use tracing::field::{Empty, display};
        let span = tracing::info_span!(target: ACCESS, "request", id = Empty, client = Empty);
        if !span.is_disabled() {
            span.record("id", request_id::id(headers));
            span.record("client", display(client::address(peer.address().ip(), headers, &self.0.proxies)));
        }
        span
    }
}

/// Returns who sent a request.
fn peer(extensions: &Extensions) -> Peer {
    if let Some(peer) = extensions.get::<Peer>() {
        return peer.clone();
    }
    let address = extensions.get().map(|ConnectInfo(address): &ConnectInfo<SocketAddr>| *address);
    address.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into()).into()
}

/// Drops the body of the response to a HEAD request and keeps its length.
fn without_body(response: Response<axum::body::Body>) -> Response<axum::body::Body> {
    let (mut head, body) = response.into_parts();
    let has_none = matches!(head.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
    if let Some(length) = http_body::Body::size_hint(&body).exact().filter(|_| !has_none) {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    Response::from_parts(head, axum::body::Body::empty())
}
