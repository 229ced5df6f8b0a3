//! One error type for every binding: a kind, a message, details. Each binding writes it in its own file.

#[macro_use]
mod table;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::HeaderName;

use crate::codec::Codec;
use crate::pipeline::Subject;

/// A kind of error: one row of a protocol's error table.
///
/// Kinds are `static`s, compared by [`Kind::reason`]. Those that every protocol needs are in [`kinds`]; a protocol adds
/// its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The machine-readable name, `UPPER_SNAKE_CASE`: `reason` of `google.rpc.ErrorInfo` in every binding.
    pub reason: &'static str,
    /// The JSON-RPC error code.
    pub jsonrpc: i32,
    /// The gRPC status.
    pub grpc: tonic::Code,
    /// The HTTP status in HTTP+JSON.
    pub http: u16,
    /// Whether JSON-RPC uses the HTTP status too, instead of 200: for what proxies and clients act on by status.
    pub jsonrpc_keeps_http_status: bool,
}

impl Kind {
    /// Makes a kind. JSON-RPC uses the HTTP statuses that proxies and clients act on, 401, 403, 413, 429 and 503, too.
    pub const fn new(reason: &'static str, jsonrpc: i32, grpc: tonic::Code, http: u16) -> Self {
        let jsonrpc_keeps_http_status = matches!(http, 401 | 403 | 413 | 429 | 503);
        Self { reason, jsonrpc, grpc, http, jsonrpc_keeps_http_status }
    }
}

/// The kinds that every protocol needs.
pub mod kinds {
    use super::Kind;
    use tonic::Code;

    macro_rules! define {
        ($(#[doc = $about:literal] $name:ident $reason:literal $jsonrpc:literal $grpc:ident $http:literal)*) => {
            $(#[doc = $about] pub static $name: Kind = Kind::new($reason, $jsonrpc, Code::$grpc, $http);)*
        };
    }

    standard_errors!(define);
}

/// The names that a protocol gives to what all bindings have: values, so that this crate need not know them.
#[derive(Debug)]
pub struct Protocol {
    /// `domain` of `google.rpc.ErrorInfo`.
    pub error_domain: &'static str,
    /// The header, metadata key and query parameter that names the protocol version.
    pub version_header: HeaderName,
    /// The same name as people write it, for messages: `X-Version`.
    pub version_header_label: &'static str,
    /// The versions served, the newest first; at least one.
    pub codecs: &'static [&'static dyn Codec],
    /// The version that a request without one means.
    pub absent_version: &'static str,
    /// The header and metadata key that lists extension URIs.
    pub extensions_header: HeaderName,
    /// The protocol's own JSON media type in HTTP+JSON, in addition to `application/json`.
    pub media_type: &'static str,
    /// What a request for a version that is not served gets.
    pub version_not_supported: &'static Kind,
    /// What a body of another media type gets.
    pub content_type_not_supported: &'static Kind,
    /// Notes for the log what a request, an answer or an event is about.
    pub describe: fn(&dyn Any, &mut Subject),
}

impl Protocol {
    /// Returns the newest version, in which errors are written if the request asks for a version that is not served.
    ///
    /// # Panics
    /// If no version is served at all.
    pub fn newest(&self) -> &'static dyn Codec {
        self.codecs[0]
    }
}

// An error quotes what the client sent, and on gRPC it goes out in headers: peers break off a connection over more than 8 KiB
// of them, with every call that it carries. So everything in an error has a limit, the same in every binding.

/// The longest message, in bytes.
const MAX_MESSAGE: usize = 512;
/// The longest path of a field, or value of metadata, in bytes.
const MAX_QUOTE: usize = 256;
/// The longest description of what is wrong with a field, in bytes.
const MAX_DESCRIPTION: usize = 400;
/// The most that all violations together may hold, in bytes; those that do not fit are left out.
const MAX_VIOLATIONS: usize = 2400;

/// Shortens a text that is too long.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit - '…'.len_utf8()).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// One field that is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path from the request's root in JSON names: `message.parts[1].text`.
    pub field: String,
    /// What is wrong with it, for people.
    pub description: String,
}

/// An error as a client will see it, whatever the binding.
///
/// It contains nothing internal, because the message is sent to the client. Details for operators are logged where the error
/// occurs.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: &'static Kind,
    message: Cow<'static, str>,
    metadata: Vec<(&'static str, String)>,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
    challenge: Option<String>,
    allow: Option<String>,
    ends_stream: bool,
}

impl Error {
    /// Makes an error of this kind with a message for the client.
    pub fn new(kind: &'static Kind, message: impl Into<Cow<'static, str>>) -> Self {
        let message = match message.into() {
            Cow::Owned(text) => Cow::Owned(cut(text, MAX_MESSAGE)),
            fixed => fixed,
        };
        Self(Box::new(Inner {
            kind,
            message,
            metadata: Vec::new(),
            violations: Vec::new(),
            retry_after: None,
            challenge: None,
            allow: None,
            ends_stream: false,
        }))
    }

    /// Makes an error of one wrong field: [`kinds::INVALID_PARAMS`] with a violation.
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::violations(vec![Violation { field: field.into(), description: description.into() }])
    }

    /// Makes an error of several wrong fields: [`kinds::INVALID_PARAMS`] with as many of them as an answer can hold. The
    /// message names the first.
    pub fn violations(mut violations: Vec<Violation>) -> Self {
        let mut held = 0;
        for (index, violation) in violations.iter_mut().enumerate() {
            violation.field = cut(std::mem::take(&mut violation.field), MAX_QUOTE);
            violation.description = cut(std::mem::take(&mut violation.description), MAX_DESCRIPTION);
            held += violation.field.len() + violation.description.len();
            if held > MAX_VIOLATIONS {
                violations.truncate(index);
                break;
            }
        }
        let message = match violations.first() {
            Some(v) if v.field.is_empty() => v.description.clone(),
            Some(v) => format!("{}: {}", v.field, v.description),
            None => "invalid parameters".to_owned(),
        };
        let mut error = Self::new(&kinds::INVALID_PARAMS, message);
        error.0.violations = violations;
        error
    }

    /// Makes an internal error. The client reads a fixed text; the cause is logged where it occurs.
    pub fn internal() -> Self {
        Self::new(&kinds::INTERNAL, "internal error")
    }

    /// Makes an error of a server that cannot do it now. The client may try again after `retry_after`.
    pub fn unavailable(message: impl Into<Cow<'static, str>>, retry_after: Duration) -> Self {
        Self::new(&kinds::UNAVAILABLE, message).with_retry_after(retry_after)
    }

    /// Adds a key and value to `google.rpc.ErrorInfo`'s metadata.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.metadata.push((key, cut(value.into(), MAX_QUOTE)));
        self
    }

    /// Says when to try again; sent as whole seconds, rounded up.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.0.retry_after = Some(after);
        self
    }

    /// Sets the `WWW-Authenticate` challenge.
    #[must_use]
    pub fn with_challenge(mut self, challenge: impl Into<String>) -> Self {
        self.0.challenge = Some(challenge.into());
        self
    }

    /// Sets the `Allow` list of a 405.
    #[must_use]
    pub fn with_allow(mut self, allow: impl Into<String>) -> Self {
        self.0.allow = Some(allow.into());
        self
    }

    /// Marks the error of a request to go on with a stream that has nothing more: an `EventSource` is told not to ask again.
    #[must_use]
    pub fn ending_stream(mut self) -> Self {
        self.0.ends_stream = true;
        self
    }

    /// Returns whether the stream that the client wants to go on with has nothing more.
    pub(crate) fn ends_stream(&self) -> bool {
        self.0.ends_stream
    }

    /// Puts `prefix` in front of every violation's field path.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        for v in &mut self.0.violations {
            v.field = if v.field.is_empty() { prefix.to_owned() } else { format!("{prefix}.{}", v.field) };
        }
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> &'static Kind {
        self.0.kind
    }

    /// Returns the message for the client.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the key-value pairs of `google.rpc.ErrorInfo`.
    pub fn metadata(&self) -> &[(&'static str, String)] {
        &self.0.metadata
    }

    /// Returns the wrong fields; empty unless the kind is [`kinds::INVALID_PARAMS`].
    pub fn field_violations(&self) -> &[Violation] {
        &self.0.violations
    }

    /// Returns when to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the `WWW-Authenticate` challenge.
    pub fn challenge(&self) -> Option<&str> {
        self.0.challenge.as_deref()
    }

    /// Returns the `Allow` list.
    pub fn allow(&self) -> Option<&str> {
        self.0.allow.as_deref()
    }
}

impl Error {
    /// Adds the headers that an HTTP answer with this error carries.
    pub(crate) fn add_headers(&self, headers: &mut http::HeaderMap) {
        use http::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

        let mut add = |name, value: Option<&str>| {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        };
        add(ALLOW, self.allow());
        add(WWW_AUTHENTICATE, self.challenge());
        if let Some(after) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(crate::details::retry_seconds(after)));
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {})", self.0.kind.reason, self.0.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::testing::PROTOCOL;

    #[test]
    fn an_error_that_quotes_its_client_fits_in_headers() {
        let long = "é\u{1f600}".repeat(10_000);
        let violation = Violation { field: long.clone(), description: long.clone() };
        let errors = [
            Error::new(&kinds::INVALID_PARAMS, long.clone()).with("key", long.clone()),
            Error::violations(vec![violation; 1000]).under("message"),
            Error::violations(
                (0..1000).map(|n| Violation { field: format!("a[{n}]"), description: "no".into() }).collect(),
            ),
        ];
        for error in errors {
            let details = crate::details::status(&error, &PROTOCOL).encode_to_vec();
            // Base64 makes four bytes of three, percent-encoding three of one.
            let headers = details.len() * 4 / 3 + error.message().len() * 3;
            assert!(headers < 7_000, "{headers} bytes for {error:.60}");
        }
    }

    #[test]
    fn what_is_cut_is_still_text_and_the_first_violation_is_kept() {
        assert_eq!(cut("abc".to_owned(), 3), "abc");
        assert_eq!(cut("éééé".to_owned(), 6), "é…");
        let error = Error::invalid("x".repeat(1000), "y".repeat(1000));
        let [violation] = error.field_violations() else { panic!("one violation") };
        assert!(violation.field.starts_with("xx") && violation.field.ends_with('…'));
        assert!(error.message().starts_with("xx"));
    }
}
