//! The routes that are not in the schema, in one table: cards, the OpenAPI document, probes, JSON-RPC endpoints.

use std::sync::Arc;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use tricord_bindings::query::Path;
use tricord_bindings::request::Request as _;
use tricord_bindings::{Binding, Body};

use crate::card::Document;
use crate::protocol::{
    CARD_PATH, KEYS_PATH, LIVE_PATH, OLD_CARD_PATH, OPENAPI_PATH, OPENRPC_PATH, READY_PATH, binding_of,
};
use crate::schema::http_json::{ACTIONS, WORDS};
use crate::schema::{AgentInterface, GetTaskRequest, RPCS};

/// Returns the card of the named agent, or of the default agent; `None` if there is no such agent.
pub(crate) type Cards = Arc<dyn Fn(Option<&str>) -> Option<Arc<Document>> + Send + Sync>;

/// The route of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// The liveness probe: the process runs.
    Live,
    /// The readiness probe: the server accepts calls.
    Ready,
    /// The OpenAPI document of the HTTP+JSON binding.
    OpenApi,
    /// The OpenRPC document of the JSON-RPC binding.
    OpenRpc,
    /// The public keys that verify the cards.
    Keys,
    /// The card of the default agent, or of the named one.
    Card(Option<std::borrow::Cow<'a, str>>),
    /// The JSON-RPC endpoint of all agents, or of the named one.
    JsonRpc(Option<std::borrow::Cow<'a, str>>),
    /// None of these: a path for the schema to resolve.
    Schema,
}

impl<'a> Route<'a> {
    /// Returns the route of a path. `below` is the rest of the path after the base path, if the path is below that.
    pub(super) fn of(path: &'a str, below: Option<&'a str>) -> Self {
        match path.strip_suffix('/').unwrap_or(path) {
            LIVE_PATH => return Route::Live,
            READY_PATH => return Route::Ready,
            // Clients that know only the host look here, whatever the base path is.
            CARD_PATH | OLD_CARD_PATH => return Route::Card(None),
            KEYS_PATH => return Route::Keys,
            _ => {}
        }
        let Some(below) = below else { return Route::Schema };
        if matches!(below, "" | "/") {
            return Route::JsonRpc(None);
        }
        let Some(split) = Path::split(below, ACTIONS).filter(|path| path.action().is_empty()) else {
            return Route::Schema;
        };
        let segments = split.segments();
        match &segments[..split.len()] {
            [document] if OPENAPI_PATH.strip_prefix('/') == Some(document) => Route::OpenApi,
            [document] if OPENRPC_PATH.strip_prefix('/') == Some(document) => Route::OpenRpc,
            [".well-known", "jwks.json"] => Route::Keys,
            [".well-known", "agent-card.json" | "agent.json"] => Route::Card(None),
            [agent, ".well-known", "agent-card.json" | "agent.json"] => Route::Card(Some((*agent).to_owned().into())),
            [agent] if is_name(agent) => Route::JsonRpc(Some((*agent).to_owned().into())),
            _ => Route::Schema,
        }
    }
}

/// Returns every path that a server with these agents answers, with an example value for each variable.
pub(super) fn paths(base_path: &str, agents: &[String]) -> Vec<String> {
    let mut below = vec![String::new(), OPENAPI_PATH.to_owned(), OPENRPC_PATH.to_owned(), KEYS_PATH.to_owned()];
    for agent in agents.iter().map(|agent| format!("/{agent}")).chain([String::new()]) {
        below.extend([CARD_PATH, OLD_CARD_PATH, ""].map(|path| format!("{agent}{path}")));
    }
    let mut paths: Vec<_> = below.iter().map(|path| format!("{base_path}{path}")).collect();
    paths.extend([LIVE_PATH, READY_PATH, CARD_PATH, OLD_CARD_PATH, KEYS_PATH].map(str::to_owned));
    let with_slash: Vec<_> = paths.iter().map(|path| format!("{path}/")).collect();
    paths.extend(with_slash);
    for template in RPCS.iter().flat_map(|rpc| rpc.rules).map(|rule| rule.template) {
        let agent_variable = format!("{{{}}}", GetTaskRequest::SCOPE.name);
        let names: &[String] = if template.contains(&agent_variable) { agents } else { &[String::new()] };
        paths.extend(
            names.iter().map(|name| format!("{base_path}{}", example(&template.replace(&agent_variable, name)))),
        );
    }
    paths.retain(|path| !path.is_empty());
    paths
}

/// Returns a template with an example value for each variable.
fn example(template: &str) -> String {
    let mut pieces = template.split('{');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |path, piece| path + "example" + piece.split_once('}').map_or("", |(_, rest)| rest))
}

/// Returns the rest of a path after the base path, if the path is below that.
pub(super) fn below<'a>(path: &'a str, base_path: &str) -> Option<&'a str> {
    path.strip_prefix(base_path).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether the server answers an interface of a card at the URL in the card. `public_url` is the URL of the
/// server's root.
pub(crate) fn is_served(interface: &AgentInterface, public_url: &str, base_path: &str) -> bool {
    fn route<'a>(path: &'a str, base_path: &str) -> Route<'a> {
        Route::of(path, below(path, base_path))
    }
    let path = interface.url.strip_prefix(public_url);
    match binding_of(&interface.protocol_binding) {
        // gRPC has its own paths, whatever the base path is.
        Some(Binding::Grpc) => true,
        Some(Binding::JsonRpc) => path.is_some_and(|path| matches!(route(path, base_path), Route::JsonRpc(_))),
        Some(Binding::HttpJson) | None => {
            path.is_some_and(|path| matches!(route(&format!("{path}/message:send"), base_path), Route::Schema))
        }
    }
}

/// Returns whether a segment can be the name of an agent. Words of the schema's paths and mistyped actions cannot.
fn is_name(segment: &str) -> bool {
    let is_plain = segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    is_plain && !WORDS.contains(&segment)
}

/// Answers a probe.
pub(super) fn probe(method: &Method, is_ok: bool) -> Response<Body> {
    let (status, text) =
        if is_ok { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") };
    let mut response = read_only(method, || Response::new(Body::from(text)));
    if response.status() == StatusCode::OK {
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Answers GET and HEAD with `answer`, and other methods with 405.
pub(super) fn read_only(method: &Method, answer: impl FnOnce() -> Response<Body>) -> Response<Body> {
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

    fn route(path: &str) -> Route<'_> {
        Route::of(path, path.strip_prefix("/base"))
    }

    #[test]
    fn every_route_is_found_with_and_without_a_trailing_slash() {
        let agent = |name: &str| Some(name.to_owned().into());
        assert_eq!(route("/livez"), Route::Live);
        assert_eq!(route("/readyz/"), Route::Ready);
        assert_eq!(route("/base/openapi.json"), Route::OpenApi);
        assert_eq!(route("/base/openrpc.json/"), Route::OpenRpc);
        for card in ["/.well-known/agent-card.json", "/.well-known/agent.json/"] {
            assert_eq!(route(card), Route::Card(None));
            assert_eq!(route(&format!("/base{card}")), Route::Card(None));
            assert_eq!(route(&format!("/base/a{card}")), Route::Card(agent("a")));
        }
        for keys in ["/.well-known/jwks.json", "/base/.well-known/jwks.json"] {
            assert_eq!(route(keys), Route::Keys);
        }
        for root in ["/base", "/base/"] {
            assert_eq!(route(root), Route::JsonRpc(None));
        }
        for one in ["/base/a", "/base/a/", "/base/%61"] {
            assert_eq!(route(one), Route::JsonRpc(agent("a")));
        }
    }

    #[test]
    fn a_base_path_that_collides_with_a_route_hides_the_interface() {
        let interface = |binding: &str, base_path: &str| AgentInterface {
            url: format!("https://a.example/x{base_path}"),
            protocol_binding: binding.into(),
            tenant: "kit".into(),
            protocol_version: "1.0".into(),
        };
        let served = |binding, base_path| is_served(&interface(binding, base_path), "https://a.example/x", base_path);
        for base_path in ["", "/v1/a2a", "/tasks", "/livez/x"] {
            for binding in ["JSONRPC", "GRPC", "HTTP+JSON"] {
                assert!(served(binding, base_path), "{binding} at {base_path:?}");
            }
        }
        for base_path in ["/livez", "/readyz", "/.well-known/agent.json", "/.well-known/jwks.json"] {
            assert!(!served("JSONRPC", base_path), "{base_path}");
        }
        let elsewhere = interface("HTTP+JSON", "/v1");
        assert!(!is_served(&elsewhere, "https://a.example/y", "/v1"));
    }

    #[test]
    fn the_list_of_paths_has_every_route_and_rule() {
        let paths = paths("/v1", &["kit".to_owned()]);
        for path in
            ["/livez", "/readyz/", "/v1", "/v1/", "/v1/kit", "/v1/kit/.well-known/agent.json", "/v1/openapi.json"]
        {
            assert!(paths.iter().any(|known| known == path), "{path}");
        }
        for path in
            ["/v1/message:send", "/v1/kit/message:send", "/v1/tasks/example:cancel", "/v1/kit/extendedAgentCard"]
        {
            assert!(paths.iter().any(|known| known == path), "{path}");
        }
    }

    #[test]
    fn paths_of_the_schema_are_not_routes() {
        for path in [
            "/base/tasks",
            "/base/message:send",
            "/base/extendedAgentCard",
            "/base/message:nope",
            "/base/a/tasks",
            "/base/a/b",
            "/other",
        ] {
            assert_eq!(route(path), Route::Schema, "{path}");
        }
    }
}
