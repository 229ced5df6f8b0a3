//! Serves documents over HTTP with conditional requests (RFC 9110, section 13).

use std::time::{Duration, SystemTime};

use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, VARY,
};
use http::{Method, Response, StatusCode};
use tricord_bindings::Body;

use super::compression;
use super::routes::read_only;
use crate::card::Document;

/// Answers with a document, or with 304 if the client has this version. Caches may keep it for `max_age`.
pub(super) fn answer(method: &Method, headers: &HeaderMap, document: &Document, max_age: Duration) -> Response<Body> {
    read_only(method, || {
        let mut response = Response::new(Body::empty());
        if is_known(headers, document) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            *response.body_mut() = Body::from(document.json.clone());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let modified = httpdate::fmt_http_date(document.last_modified);
        let cache = match max_age.as_secs() {
            0 => "no-cache".to_owned(),
            seconds => format!("public, max-age={seconds}"),
        };
        // A 304 has it too, because the 200 in its place would (RFC 9110, section 15.4.5).
        if document.json.len() as u64 >= compression::SMALLEST {
            response.headers_mut().insert(VARY, HeaderValue::from(ACCEPT_ENCODING));
        }
        for (name, value) in [(ETAG, &document.etag), (LAST_MODIFIED, &modified), (CACHE_CONTROL, &cache)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    })
}

/// Returns whether the client has this version already. Entity tags take precedence over times.
fn is_known(headers: &HeaderMap, document: &Document) -> bool {
    if headers.contains_key(IF_NONE_MATCH) {
        let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
        return tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == document.etag);
    }
    let since = headers.get(IF_MODIFIED_SINCE).and_then(|value| value.to_str().ok());
    since
        .and_then(|since| httpdate::parse_http_date(since).ok())
        .is_some_and(|since| seconds(document.last_modified) <= seconds(since))
}

/// Returns the whole seconds since the epoch, because dates in HTTP have no fraction.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(headers: &[(http::HeaderName, &str)]) -> bool {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_500);
        let document = Document { json: "{}".into(), etag: "\"a\"".into(), last_modified: modified };
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        is_known(&headers, &document)
    }

    #[test]
    fn a_known_document_is_found_by_its_tag_or_without_one_by_its_time() {
        for tags in ["\"a\"", "\"b\", W/\"a\"", "*"] {
            assert!(known(&[(IF_NONE_MATCH, tags)]), "{tags}");
        }
        assert!(!known(&[]) && !known(&[(IF_NONE_MATCH, "\"b\"")]) && !known(&[(IF_NONE_MATCH, "")]));
        let (before, same) = ("Sun, 09 Sep 2001 01:46:39 GMT", "Sun, 09 Sep 2001 01:46:40 GMT");
        assert!(known(&[(IF_MODIFIED_SINCE, same)]));
        assert!(!known(&[(IF_MODIFIED_SINCE, before)]) && !known(&[(IF_MODIFIED_SINCE, "yesterday")]));
        assert!(!known(&[(IF_MODIFIED_SINCE, same), (IF_NONE_MATCH, "\"b\"")]), "the tag takes precedence");
    }
}
