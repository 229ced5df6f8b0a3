//! The media types of HTTP+JSON, in requests and answers.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::error::Protocol;
use crate::media_type::{essence, is};

/// Returns whether a `Content-Type` is one of the protocol's JSON types, whatever its parameters.
pub(crate) fn is_json(protocol: &Protocol, content_type: &HeaderValue) -> bool {
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
    let only_streams = || {
        let mut accepted = headers.get_all(ACCEPT).iter().peekable();
        accepted.peek().is_some()
            && accepted.all(|line| {
                let mut types = line.to_str().unwrap_or_default().split(',');
                types.all(|media_type| is(media_type, "text/event-stream"))
            })
    };
    if !named(protocol.media_type) && (named("application/json") || only_streams()) {
        HeaderValue::from_static("application/json")
    } else {
        HeaderValue::from_static(protocol.media_type)
    }
}
