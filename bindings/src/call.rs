//! What a request says in addition to its message, the same for every binding.

use std::time::Instant;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::authenticator::Principal;
use crate::budget::BudgetPermit;
use crate::codec::Codec;
use crate::error::{Error, Protocol};
use crate::{Binding, Rpc};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a request says in addition to its message. `A` is what the service resolved the request's scope to, which `authorize`
/// returns; before that it is `()`.
#[derive(Debug)]
pub struct Call<A = ()> {
    /// Who calls.
    pub principal: Principal,
    /// The binding that the request came by.
    pub binding: Binding,
    /// The rpc that is called.
    pub rpc: &'static Rpc,
    /// What the scope of the request names, looked up by the service's `authorize`.
    pub agent: A,
    /// The protocol version asked for, `Major.Minor`.
    pub version: &'static str,
    /// Extension URIs: those that the client named and, after `authorize`, those in use.
    pub extensions: Vec<String>,
    /// When the client stops waiting. The pipeline acts on it; a handler may look how long it has.
    pub deadline: Option<Instant>,
    /// The `traceparent` header, verbatim.
    pub trace: Option<String>,
    /// The `Idempotency-Key` header or metadata, verbatim.
    pub idempotency_key: Option<String>,
    /// The `Last-Event-ID` header or metadata, verbatim.
    pub last_event_id: Option<String>,
    /// The memory that the request message takes. A handler that passes the message on to somebody who accounts for it
    /// drops this.
    pub permit: BudgetPermit,
}

impl Call {
    /// Reads what the headers say about a call of `rpc`.
    pub(crate) fn read(
        protocol: &Protocol,
        headers: &HeaderMap,
        principal: Principal,
        codec: &'static dyn Codec,
        binding: Binding,
        rpc: &'static Rpc,
        permit: BudgetPermit,
    ) -> Self {
        Self {
            principal,
            binding,
            rpc,
            agent: (),
            version: codec.version(),
            extensions: extensions(protocol, headers),
            deadline: None,
            trace: text(headers, &TRACEPARENT),
            idempotency_key: headers.get(&IDEMPOTENCY_KEY).and_then(opaque),
            last_event_id: text(headers, &LAST_EVENT_ID),
            permit,
        }
    }

    /// Returns the same call with what its scope names.
    pub(crate) fn with_agent<A>(self, agent: A) -> Call<A> {
        let Self { principal, binding, rpc, agent: (), version, extensions, deadline, trace, .. } = self;
        let (idempotency_key, last_event_id, permit) = (self.idempotency_key, self.last_event_id, self.permit);
        Call {
            principal,
            binding,
            rpc,
            agent,
            version,
            extensions,
            deadline,
            trace,
            idempotency_key,
            last_event_id,
            permit,
        }
    }
}

impl<A> Call<A> {
    /// Returns the header that tells the client which extensions are in use, if any are.
    pub(crate) fn extensions_header(&self) -> Option<HeaderValue> {
        match self.extensions.as_slice() {
            [] => None,
            [one] => HeaderValue::from_str(one).ok(),
            many => HeaderValue::from_str(&many.join(", ")).ok(),
        }
    }
}

/// Chooses the codec of the version that the request asks for: by header or metadata first, then by the query parameter
/// of the same name.
///
/// # Errors
/// The protocol's error for a version that is not served. Its message names the header and the versions served.
pub(crate) fn choose_codec(
    protocol: &Protocol,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<&'static dyn Codec, Error> {
    let header = headers.get(&protocol.version_header);
    if let Some(value) = header.filter(|value| !value.as_bytes().trim_ascii().is_empty()) {
        let asked = value.to_str().unwrap_or("(not text)");
        return served(protocol, asked).ok_or_else(|| not_served(protocol, asked));
    }
    let mut parameters = crate::query::pairs(query.unwrap_or_default());
    let parameter = parameters.find(|(name, _)| name.eq_ignore_ascii_case(protocol.version_header.as_str()));
    if let Some((_, value)) = parameter.filter(|(_, value)| !value.trim().is_empty()) {
        return served(protocol, &value).ok_or_else(|| not_served(protocol, &value));
    }
    served(protocol, protocol.absent_version).ok_or_else(|| {
        let Protocol { absent_version, version_header_label, .. } = protocol;
        let message = format!(
            "a request without the header {version_header_label} is one of version {absent_version}, which is not served; \
             send {version_header_label} with {}",
            versions(protocol)
        );
        Error::new(protocol.version_not_supported, message)
    })
}

fn served(protocol: &Protocol, asked: &str) -> Option<&'static dyn Codec> {
    let mut numbers = asked.trim().splitn(3, '.');
    let (major, minor, patch) = (numbers.next()?, numbers.next()?, numbers.next());
    if patch.is_some_and(|patch| patch.is_empty() || !patch.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    protocol.codecs.iter().copied().find(|codec| codec.version().split_once('.') == Some((major, minor)))
}

fn not_served(protocol: &Protocol, asked: &str) -> Error {
    let asked: String = asked.trim().chars().take(32).collect();
    let (header, versions) = (protocol.version_header_label, versions(protocol));
    let message = format!("version {asked:?} is not served; send the header {header} with {versions}");
    Error::new(protocol.version_not_supported, message)
}

fn versions(protocol: &Protocol) -> String {
    protocol.codecs.iter().map(|codec| codec.version()).collect::<Vec<_>>().join(" or ")
}

/// Returns the extension URIs that the client named, once each, in its order.
pub(crate) fn extensions(protocol: &Protocol, headers: &HeaderMap) -> Vec<String> {
    let mut named = Vec::new();
    for line in headers.get_all(&protocol.extensions_header) {
        for uri in line.to_str().unwrap_or_default().split(',').map(str::trim) {
            if !uri.is_empty() && !named.iter().any(|known| known == uri) {
                named.push(uri.to_owned());
            }
        }
    }
    named
}

/// Reads a value that is only compared: bytes that are not text count too.
fn opaque(value: &http::HeaderValue) -> Option<String> {
    let value = value.as_bytes().trim_ascii();
    (!value.is_empty()).then(|| value.iter().copied().map(char::from).collect())
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
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
        choose_codec(&PROTOCOL, &head.headers, head.uri.query()).map(Codec::version)
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
