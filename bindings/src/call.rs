//! What a transport says about one request, in the same words for every wire.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use http::HeaderMap;

use crate::error::{Error, Protocol};

/// The wire that a request came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    /// gRPC over HTTP/2.
    Grpc,
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// HTTP verbs and paths with JSON bodies.
    HttpJson,
}

impl Binding {
    /// The name used in spans and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Grpc => "grpc",
            Binding::JsonRpc => "jsonrpc",
            Binding::HttpJson => "http",
        }
    }
}

/// What is empty needs no allocation of its own.
static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

/// Who the door found a caller to be. Plain data; it becomes a [`Principal`] only inside this crate, after a door said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The customer that tasks belong to; empty for everybody, where there is no authentication.
    pub owner: Arc<str>,
}

impl Identity {
    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self { owner: EMPTY.clone() }
    }
}

/// A caller that went through the door. It cannot be made anywhere else, so a handler that has one was called by the
/// server, after authentication.
#[derive(Debug, Clone)]
pub struct Principal(Identity);

impl Principal {
    pub(crate) fn authorized(identity: Identity) -> Self {
        Self(identity)
    }

    /// The customer that this caller acts for.
    pub fn owner(&self) -> &Arc<str> {
        &self.0.owner
    }
}

/// What a transport says about one request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Who calls.
    pub principal: Principal,
    /// The wire it came by.
    pub binding: Binding,
    /// The rpc's name in the schema.
    pub rpc: &'static str,
    /// The agent that is meant: the scope field of the request, resolved by the service (never empty after that).
    pub agent: Arc<str>,
    /// The protocol version asked for, `Major.Minor`.
    pub version: &'static str,
    /// Extension URIs: those that the client named, and after the service's admission those in use.
    pub extensions: Vec<String>,
    /// When the client stops waiting.
    pub deadline: Option<Instant>,
    /// The `traceparent` header, verbatim.
    pub trace: Option<String>,
    /// The `Idempotency-Key` header or metadata, verbatim.
    pub idempotency_key: Option<String>,
    /// The `Last-Event-ID` header or metadata, verbatim.
    pub last_event_id: Option<String>,
}

impl Call {
    /// Reads what the headers say about a call of `rpc` in a version that was found to be served.
    pub(crate) fn read(
        protocol: &Protocol,
        headers: &HeaderMap,
        principal: Principal,
        version: &'static str,
        binding: Binding,
        rpc: &'static str,
    ) -> Self {
        Self {
            principal,
            binding,
            rpc,
            agent: EMPTY.clone(),
            version,
            extensions: extensions(protocol, headers),
            deadline: None,
            trace: text(headers, "traceparent"),
            idempotency_key: headers.get("idempotency-key").and_then(opaque),
            last_event_id: text(headers, "last-event-id"),
        }
    }
}

/// The version that the request is in: header or metadata first, then the query parameter of the same name.
///
/// # Errors
/// The protocol's error, whose message names the header and the versions served.
pub(crate) fn version(protocol: &Protocol, headers: &HeaderMap, query: Option<&str>) -> Result<&'static str, Error> {
    let header = headers.get(protocol.version_header);
    if let Some(value) = header.filter(|value| !value.as_bytes().trim_ascii().is_empty()) {
        let asked = value.to_str().unwrap_or("(not text)");
        return served(protocol, asked).ok_or_else(|| not_served(protocol, asked));
    }
    let mut parameters = crate::query::pairs(query.unwrap_or_default());
    let parameter = parameters.find(|(name, _)| name.eq_ignore_ascii_case(protocol.version_header));
    if let Some((_, value)) = parameter.filter(|(_, value)| !value.trim().is_empty()) {
        return served(protocol, &value).ok_or_else(|| not_served(protocol, &value));
    }
    served(protocol, protocol.absent_version).ok_or_else(|| {
        let Protocol { absent_version, version_header_label, .. } = protocol;
        let message = format!(
            "a request without the header {version_header_label} is one of version {absent_version}, which is not served; \
             send {version_header_label} with {}",
            protocol.versions.join(" or ")
        );
        Error::new(protocol.version_not_supported, message)
    })
}

fn served(protocol: &Protocol, asked: &str) -> Option<&'static str> {
    let mut numbers = asked.trim().splitn(3, '.');
    let (major, minor, patch) = (numbers.next()?, numbers.next()?, numbers.next());
    if patch.is_some_and(|patch| patch.is_empty() || !patch.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    protocol.versions.iter().copied().find(|version| version.split_once('.') == Some((major, minor)))
}

fn not_served(protocol: &Protocol, asked: &str) -> Error {
    let asked: String = asked.trim().chars().take(32).collect();
    let message = format!(
        "version {asked:?} is not served; send the header {} with {}",
        protocol.version_header_label,
        protocol.versions.join(" or ")
    );
    Error::new(protocol.version_not_supported, message)
}

/// The extension URIs that the client named, once each, in its order.
pub(crate) fn extensions(protocol: &Protocol, headers: &HeaderMap) -> Vec<String> {
    let mut named = Vec::new();
    for line in headers.get_all(protocol.extensions_header) {
        for uri in line.to_str().unwrap_or_default().split(',').map(str::trim) {
            if !uri.is_empty() && !named.iter().any(|known| known == uri) {
                named.push(uri.to_owned());
            }
        }
    }
    named
}

/// A value that is only compared: also one that is no text is there, and other bytes are another.
fn opaque(value: &http::HeaderValue) -> Option<String> {
    let value = value.as_bytes().trim_ascii();
    (!value.is_empty()).then(|| value.iter().copied().map(char::from).collect())
}

fn text(headers: &HeaderMap, name: &'static str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PROTOCOL, head};

    fn asked(uri: &str, header: Option<&str>) -> Result<&'static str, Error> {
        let headers: Vec<_> = header.map(|value| ("x-version", value)).into_iter().collect();
        let head = head("GET", uri, &headers);
        version(&PROTOCOL, &head.headers, head.uri.query())
    }

    #[test]
    fn a_version_is_major_and_minor_and_a_patch_is_ignored() {
        for good in ["1.0", " 1.0 ", "1.0.7"] {
            assert_eq!(asked("/", Some(good)).unwrap(), "1.0", "{good}");
        }
        for bad in ["99.0", "abc", "1", "1.", "1.0.", "1.0.x", "01.0", "0.3"] {
            let error = asked("/", Some(bad)).unwrap_err();
            assert_eq!(error.kind().reason, "VERSION_NOT_SUPPORTED", "{bad}");
            assert!(error.message().contains("X-Version") && error.message().contains("1.0"), "{}", error.message());
        }
    }

    #[test]
    fn the_header_wins_over_the_query_parameter_and_an_empty_one_counts_as_absent() {
        assert_eq!(asked("/?X-Version=1.0", None).unwrap(), "1.0");
        assert_eq!(asked("/?X-Version=9.0", Some("1.0")).unwrap(), "1.0");
        assert_eq!(asked("/?x-version=1.0", Some("  ")).unwrap(), "1.0");
        let error = asked("/?X-Version=", None).unwrap_err();
        assert!(error.message().contains("X-Version") && error.message().contains("0.3"), "{}", error.message());
    }

    #[test]
    fn extensions_come_from_several_lines_and_commas_once_each() {
        let head = head("GET", "/", &[("x-extensions", "a, b,,a"), ("x-extensions", " c ")]);
        assert_eq!(extensions(&PROTOCOL, &head.headers), ["a", "b", "c"]);
    }
}
