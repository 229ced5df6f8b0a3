//! The routes that are not in the schema, in one table: cards, the OpenAPI document, probes, JSON-RPC endpoints.

use std::sync::Arc;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LAST_MODIFIED};
use http::{Method, Response, StatusCode};
use tricord_bindings::Body;
use tricord_bindings::query::Path;

use crate::card::CardDocument;
use crate::protocol::CARD_PATH;
use crate::schema::http_json::{ACTIONS, WORDS};

/// Gives the card of an agent, or of the default one; `None` when there is no such agent.
pub type Cards = Arc<dyn Fn(Option<&str>) -> Option<Arc<CardDocument>> + Send + Sync>;

/// For how long a card may be kept by who read it.
const CARD_MAX_AGE: &str = "public, max-age=300";

/// What a path outside the schema means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// The process runs.
    Live,
    /// The server takes work.
    Ready,
    /// The HTTP+JSON wire, described.
    OpenApi,
    /// A card: of the default agent, or of this one.
    Card(Option<std::borrow::Cow<'a, str>>),
    /// JSON-RPC, if it is a POST: of any agent, or of this one.
    JsonRpc(Option<std::borrow::Cow<'a, str>>),
    /// None of them.
    Schema,
}

impl<'a> Place<'a> {
    /// Finds the place of a path. `below` is what follows the base path, where the path is below it.
    pub(super) fn of(path: &'a str, below: Option<&'a str>) -> Self {
        match path.strip_suffix('/').unwrap_or(path) {
            "/livez" => return Place::Live,
            "/readyz" => return Place::Ready,
            // Clients that know only the host look here, whatever the base path is.
            CARD_PATH => return Place::Card(None),
            _ => {}
        }
        let Some(below) = below else { return Place::Schema };
        if matches!(below, "" | "/") {
            return Place::JsonRpc(None);
        }
        let Some(split) = Path::split(below, ACTIONS).filter(|path| path.action().is_empty()) else {
            return Place::Schema;
        };
        let segments = split.segments();
        match &segments[..split.len()] {
            ["openapi.json"] => Place::OpenApi,
            [".well-known", "agent-card.json"] => Place::Card(None),
            [agent, ".well-known", "agent-card.json"] => Place::Card(Some((*agent).to_owned().into())),
            [agent] if is_name(agent) => Place::JsonRpc(Some((*agent).to_owned().into())),
            _ => Place::Schema,
        }
    }
}

/// Whether an agent could be called so: a word of the schema's own paths, or a mistyped action, is no agent.
fn is_name(segment: &str) -> bool {
    let is_plain = segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    is_plain && !WORDS.contains(&segment)
}

/// Answers a probe.
pub(super) fn probe(method: &Method, well: bool) -> Response<Body> {
    let (status, text) = if well { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") };
    let mut response = read_only(method, || Response::new(Body::from(text)));
    if response.status() == StatusCode::OK {
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Answers with the OpenAPI document.
pub(super) fn openapi(method: &Method) -> Response<Body> {
    read_only(method, || {
        let mut response = Response::new(Body::from(crate::schema::OPENAPI));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    })
}

/// Answers with a card, or with the news that it has not changed.
pub(super) fn card(method: &Method, headers: &HeaderMap, card: &CardDocument) -> Response<Body> {
    read_only(method, || {
        let mut response = Response::new(Body::empty());
        if is_known(headers, &card.etag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            *response.body_mut() = Body::from(card.json.clone());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(CARD_MAX_AGE));
        let modified = httpdate::fmt_http_date(card.last_modified);
        for (name, value) in [(ETAG, card.etag.as_str()), (LAST_MODIFIED, modified.as_str())] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        response
    })
}

/// Whether the client has this version already.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

fn read_only(method: &Method, answer: impl FnOnce() -> Response<Body>) -> Response<Body> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return answer();
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place<'_> {
        Place::of(path, path.strip_prefix("/base"))
    }

    #[test]
    fn every_place_is_found_with_and_without_a_slash_at_the_end() {
        let agent = |name: &str| Some(name.to_owned().into());
        assert_eq!(place("/livez"), Place::Live);
        assert_eq!(place("/readyz/"), Place::Ready);
        assert_eq!(place("/base/openapi.json"), Place::OpenApi);
        assert_eq!(place("/.well-known/agent-card.json"), Place::Card(None));
        assert_eq!(place("/base/.well-known/agent-card.json"), Place::Card(None));
        assert_eq!(place("/base/a/.well-known/agent-card.json"), Place::Card(agent("a")));
        for root in ["/base", "/base/"] {
            assert_eq!(place(root), Place::JsonRpc(None));
        }
        for one in ["/base/a", "/base/a/", "/base/%61"] {
            assert_eq!(place(one), Place::JsonRpc(agent("a")));
        }
    }

    #[test]
    fn paths_of_the_schema_are_left_to_it() {
        for path in [
            "/base/tasks",
            "/base/message:send",
            "/base/extendedAgentCard",
            "/base/message:nope",
            "/base/a/tasks",
            "/base/a/b",
            "/other",
        ] {
            assert_eq!(place(path), Place::Schema, "{path}");
        }
    }

    #[test]
    fn a_known_card_is_not_sent_again() {
        let mut headers = HeaderMap::new();
        assert!(!is_known(&headers, "\"a\""));
        for known in ["\"a\"", "\"b\", W/\"a\"", "*"] {
            headers.insert(IF_NONE_MATCH, known.parse().unwrap());
            assert!(is_known(&headers, "\"a\""), "{known}");
        }
    }
}
