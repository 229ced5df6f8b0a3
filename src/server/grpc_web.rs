//! gRPC-Web: gRPC for browsers, which cannot read trailers. `tonic-web` translates.

use std::convert::Infallible;
use std::future::Future;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, ServiceExt as _};
use tricord_bindings::pipeline::RequestBody;
use tricord_bindings::{Body, media_type};

/// The media types of gRPC-Web. Bodies of those with `text` are in base64.
const TYPES: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
];

/// Returns whether this is a gRPC-Web request. Removes the parameters of its media type, which `tonic-web` does not
/// accept.
pub(super) fn take<B>(request: &mut Request<B>) -> bool {
    let Some(Ok(value)) = request.headers().get(CONTENT_TYPE).map(HeaderValue::to_str) else { return false };
    let Some(media_type) = TYPES.into_iter().find(|expected| media_type::is(value, expected)) else { return false };
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    true
}

/// Answers a gRPC-Web request with a gRPC service.
pub(super) async fn answer<B, F>(request: Request<B>, grpc: impl Fn(Request<tonic::body::Body>) -> F) -> Response<Body>
where
    B: RequestBody,
    F: Future<Output = Response<Body>>,
{
    let service = tower::service_fn(|request| {
        let answer = grpc(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let request = request.map(tonic::body::Body::new);
    match GrpcWebLayer::new().layer(service).oneshot(request).await {
        Ok(response) => response.map(Body::Grpc),
        Err(never) => match never {},
    }
}
