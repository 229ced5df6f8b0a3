//! The media types of HTTP+JSON, in requests and answers.

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::error::{Error, Protocol};
use crate::media_type::{essence, is};

/// Checks what the head of a request says of its body's form: JSON, and not compressed. A body of no type is for the caller
/// to judge.
///
/// # Errors
/// The protocol's error for media types, which names what was found.
pub(crate) fn check(protocol: &Protocol, headers: &HeaderMap) -> Result<(), Error> {
    if let Some(found) = headers.get(CONTENT_TYPE).filter(|found| !is_json(protocol, found)) {
        let found = found.to_str().unwrap_or("not text");
        let message = format!("the Content-Type is {found}: the request must be {}", expected(protocol));
        return Err(Error::new(protocol.content_type_not_supported, message));
    }
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if let Some(found) = codings.find(|found| !found.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity")) {
        let found = found.to_str().unwrap_or("not text");
        let message = format!("the Content-Encoding is {found}: the request must not be compressed");
        return Err(Error::new(protocol.content_type_not_supported, message));
    }
    Ok(())
}

/// Returns the error of a body of no type. Browsers let any page send such a body without asking the server first.
pub(crate) fn missing(protocol: &Protocol) -> Error {
    let message = format!("there is no Content-Type: the request must be {}", expected(protocol));
    Error::new(protocol.content_type_not_supported, message)
}

fn expected(protocol: &Protocol) -> String {
    format!("application/json or {}", protocol.media_type)
}

/// Returns whether a `Content-Type` is one of the protocol's JSON types, whatever its parameters.
fn is_json(protocol: &Protocol, content_type: &HeaderValue) -> bool {
    let found = essence(content_type.to_str().unwrap_or_default());
    found.eq_ignore_ascii_case("application/json") || found.eq_ignore_ascii_case(protocol.media_type)
}

/// Returns the JSON type that this client reads: the protocol's own, unless it names only plain JSON or only streams.
pub(super) fn answer_type(protocol: &'static Protocol, headers: &HeaderMap) -> HeaderValue {
    let lines = || headers.get_all(ACCEPT).iter().chain(headers.get(CONTENT_TYPE)).filter_map(|v| v.to_str().ok());
    let named = |media_type: &str| {
        let mut types = lines().flat_map(|line| line.split(',')).map(essence);
        types.any(|t| t.eq_ignore_ascii_case(media_type))
    };
    if !named(protocol.media_type) && (named("application/json") || accepts_only_streams(headers)) {
        HeaderValue::from_static("application/json")
    } else {
        HeaderValue::from_static(protocol.media_type)
    }
}

/// Returns whether a client names no other media type than that of event streams, as `EventSource` does.
pub(super) fn accepts_only_streams(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().peekable();
    accepted.peek().is_some()
        && accepted.all(|line| {
            let mut types = line.to_str().unwrap_or_default().split(',');
            types.all(|media_type| is(media_type, "text/event-stream"))
        })
}
