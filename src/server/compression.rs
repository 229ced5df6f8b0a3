//! Compression of responses: documents and answers in JSON from 16 KiB on, with gzip, for clients that accept it.
//!
//! Streams and gRPC are never compressed: their bodies have no known length.

use std::convert::Infallible;
use std::future::Future;

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, VARY};
use http::{Request, Response};
use tower::{Layer as _, ServiceExt as _};
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};
use tricord_bindings::Body;

/// The smallest body that is compressed, in bytes.
pub(super) const SMALLEST: u64 = 16 << 10;

/// Answers a request with `answer`, and compresses the response where that is worth it.
pub(super) async fn compress<B, F>(
    mut request: Request<B>,
    mut answer: impl FnMut(Request<B>) -> F,
) -> Response<axum::body::Body>
where
    F: Future<Output = Response<Body>>,
{
    if !narrow(request.headers_mut()) {
        return uncompressed(answer(request).await);
    }
    let service = tower::service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let layer = CompressionLayer::new().gzip(true).quality(CompressionLevel::Fastest).compress_when(IsLargeJson);
    let Ok(mut response) = layer.layer(service).oneshot(request).await;
    if response.headers().contains_key(CONTENT_ENCODING) {
        weaken_etag(response.headers_mut());
    }
    response.map(axum::body::Body::new)
}

/// Returns a response to a client that does not accept gzip. Most clients are such: they do not pay for the layer.
fn uncompressed(mut response: Response<Body>) -> Response<axum::body::Body> {
    if IsLargeJson.should_compress(&response) {
        response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    }
    response.map(axum::body::Body::new)
}

/// Which responses are compressed.
#[derive(Debug, Clone, Copy)]
struct IsLargeJson;

impl Predicate for IsLargeJson {
    fn should_compress<B: http_body::Body>(&self, response: &Response<B>) -> bool {
        let is_json = |value: &HeaderValue| {
            let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            essence.trim_ascii_end().ends_with(b"json")
        };
        let length = response.body().size_hint().exact();
        length.is_some_and(|length| length >= SMALLEST) && response.headers().get(CONTENT_TYPE).is_some_and(is_json)
    }
}

/// Reduces `Accept-Encoding` to `gzip` and returns whether the client accepts that. The layer would answer 406 to a client
/// that accepts neither gzip nor an uncompressed response, after the call has run; such a client gets an uncompressed
/// response instead.
fn narrow(headers: &mut HeaderMap) -> bool {
    let accepted = headers.contains_key(ACCEPT_ENCODING) && accepts_gzip(headers);
    if accepted {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    accepted
}

/// Returns whether a client accepts gzip by name, or else by `*` (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut any = false;
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    for coding in lines.flat_map(|line| line.split(',')) {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().trim_start_matches(['q', 'Q']).trim_start_matches('=');
        let accepted = weight.parse::<f32>().is_ok_and(|weight| weight > 0.0);
        match name.trim() {
            "*" => any = accepted,
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => return accepted,
            _ => {}
        }
    }
    any
}

/// Makes a strong `ETag` weak: the compressed bytes are not the ones that it names (RFC 9110, section 8.8.1).
fn weaken_etag(headers: &mut HeaderMap) {
    let strong = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).filter(|tag| !tag.starts_with("W/"));
    if let Some(weak) = strong.and_then(|tag| HeaderValue::from_str(&format!("W/{tag}")).ok()) {
        headers.insert(ETAG, weak);
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_LENGTH;

    use super::*;

    /// Answers with a body of this media type and length, to a client that accepts these encodings.
    async fn answer(accepted: &str, media_type: &'static str, length: u64) -> Response<axum::body::Body> {
        let request = Request::builder().header(ACCEPT_ENCODING, accepted).body(()).unwrap();
        compress(request, |_| async {
            let mut response = Response::new(Body::from(" ".repeat(usize::try_from(length).unwrap())));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            response.headers_mut().insert(ETAG, HeaderValue::from_static("\"a\""));
            response
        })
        .await
    }

    #[tokio::test]
    async fn only_large_json_is_compressed() {
        for (media_type, length, expected) in [
            ("application/json", SMALLEST, true),
            ("application/a2a+json; charset=utf-8", SMALLEST, true),
            ("application/json", SMALLEST - 1, false),
            ("text/event-stream", SMALLEST, false),
            ("application/grpc-web+proto", SMALLEST, false),
            ("text/plain", SMALLEST, false),
        ] {
            let response = answer("gzip", media_type, length).await;
            let headers = response.headers();
            assert_eq!(headers.contains_key(CONTENT_ENCODING), expected, "{media_type} {length}");
            assert_eq!(headers.contains_key(VARY), expected, "{media_type} {length}");
            assert!(!headers.contains_key(CONTENT_LENGTH));
            assert_eq!(headers[ETAG], if expected { "W/\"a\"" } else { "\"a\"" }, "{media_type} {length}");
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_accept_gzip_gets_the_plain_response() {
        for (accepted, expected) in [
            ("gzip, br", true),
            ("br;q=1.0, GZIP;q=0.2", true),
            ("*", true),
            ("identity;q=0, gzip", true),
            ("", false),
            ("br", false),
            ("gzip;q=0, *", false),
            ("identity;q=0", false),
            ("*;q=0", false),
            ("gzip;q=high", false),
        ] {
            let response = answer(accepted, "application/json", SMALLEST).await;
            assert_eq!(response.status(), 200, "{accepted}");
            assert_eq!(response.headers().contains_key(CONTENT_ENCODING), expected, "{accepted}");
            assert_eq!(response.headers()[VARY], "accept-encoding", "{accepted}");
        }
    }
}
