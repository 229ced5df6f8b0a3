//! The envelope of a request, read without copying.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, kinds};

/// The longest id that is echoed, in bytes.
const MAX_ID: usize = 4096;

/// A request's envelope. What is borrowed points into the body.
pub(crate) struct Envelope<'a> {
    /// As the client wrote it; `None` for a notification.
    pub(crate) id: Option<&'a str>,
    /// The method's name.
    pub(crate) method: Cow<'a, str>,
    /// The parameters; `None` where there are none, or `null`.
    pub(crate) params: Option<&'a str>,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Keeps a `null` apart from nothing at all.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(reader).map(Some)
}

impl<'a> Envelope<'a> {
    /// Reads an envelope; an error comes with the id, where one could be read.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, (Option<&'a [u8]>, Error)> {
        // Of the whole body, because the text of unknown members is skipped without being checked.
        let text = std::str::from_utf8(body)
            .map_err(|_| (None, Error::new(&kinds::PARSE_ERROR, "not JSON: the text is not UTF-8")))?;
        let members: Members<'a> = match body.trim_ascii_start().first() {
            Some(b'{') => serde_json::from_str(text).map_err(|error| (None, not_an_envelope(&error)))?,
            _ => return Err((None, not_an_object(text))),
        };
        let id = match members.id.map(RawValue::get) {
            Some(id) if !is_id(id) => {
                return Err((None, invalid("id must be a string or a number, of at most 4096 bytes")));
            }
            id => id,
        };
        let refuse = |problem| Err((id.map(str::as_bytes), invalid(problem)));
        if members.jsonrpc.and_then(string).as_deref() != Some("2.0") {
            return refuse("jsonrpc must be \"2.0\"");
        }
        match members.method.and_then(string) {
            Some(method) => Ok(Self { id, method, params: members.params.map(RawValue::get) }),
            None => refuse("method must be a string"),
        }
    }
}

fn is_id(raw: &str) -> bool {
    raw.len() <= MAX_ID && (raw == "null" || raw.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit()))
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(raw.get()).ok().map(Cow::Owned) } else { Some(inner.into()) }
}

fn invalid(problem: &'static str) -> Error {
    Error::new(&kinds::INVALID_REQUEST, problem)
}

fn not_an_envelope(error: &serde_json::Error) -> Error {
    if error.is_data() {
        Error::new(&kinds::INVALID_REQUEST, format!("not a JSON-RPC request: {error}"))
    } else {
        Error::new(&kinds::PARSE_ERROR, format!("not JSON: {error}"))
    }
}

fn not_an_object(text: &str) -> Error {
    match serde_json::from_str::<&RawValue>(text) {
        Err(error) => Error::new(&kinds::PARSE_ERROR, format!("not JSON: {error}")),
        Ok(raw) if raw.get().starts_with('[') => invalid("batches are not supported; send one request at a time"),
        Ok(_) => invalid("a request must be an object"),
    }
}
