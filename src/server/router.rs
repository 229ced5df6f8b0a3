//! The public port as an [`axum::Router`] under tower layers.
//!
//! A2A is the fallback of the router: its paths (`/tasks/{id}:cancel`) cannot be written as routes of axum. Around it are,
//! from the outside in, the id of the request, CORS, the span for logs, and compression.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::ConnectInfo;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode};
use tower::Layer as _;
use tower_http::compression::CompressionBody;
use tracing::{Instrument as _, Span};
use tricord_bindings::pipeline::{ACCESS, RequestBody};
use tricord_bindings::{Body, Peer};

use super::cors::Cors;
use super::request_id::RequestIdLayers;
use super::{Server, client, compression, request_id};
use crate::schema::A2aService;

/// The layers around everything on the port.
type Layers = (RequestIdLayers<axum::body::Body>, Cors);

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
        Router::new().fallback_service(self.layers().layer(a2a))
    }

    fn layers(&self) -> Layers {
        (request_id::layers(), self.0.cors.clone())
    }

    /// Answers one request of this peer: what the router does inside its outer layers.
    pub async fn answer(&self, request: Request<impl RequestBody>, peer: &Peer) -> Response<CompressionBody<Body>> {
        let is_head = request.method() == Method::HEAD;
        let span = self.span(request.headers(), peer);
        let answer = compression::compress(request, |request| self.dispatch(request, peer)).instrument(span);
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
fn without_body(response: Response<CompressionBody<Body>>) -> Response<CompressionBody<Body>> {
    let (mut head, body) = response.into_parts();
    let has_none = matches!(head.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
    if let Some(length) = http_body::Body::size_hint(&body).exact().filter(|_| !has_none) {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    Response::from_parts(head, CompressionBody::default())
}
