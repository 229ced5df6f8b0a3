//! Texts from other programs: envelopes, headers, paths, queries, tokens, event streams.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderValue};
use serde::de::IgnoredAny;
use serde_json::Value;
use tricord::internals::store::{ListQuery, PageKey, PageToken, TokenError};
use tricord::internals::task::cursor::{self, Start};
use tricord::protocol::PROTOCOL;
use tricord::schema::http_json::ACTIONS;
use tricord::schema::{GetTaskRequest, ListTasksRequest};
use tricord_bindings::client::sse::{SseError, SseEvent, SseReader};
use tricord_bindings::query::{self, FromQuery, Path};
use tricord_bindings::{EventId, fuzz};
use uuid::Uuid;

/// Reads a JSON-RPC envelope.
pub fn envelope(data: &[u8]) -> bool {
    let (id, method, params) = match fuzz::envelope(data) {
        Ok(read) => read,
        Err((id, error)) => {
            assert!(["PARSE_ERROR", "INVALID_REQUEST"].contains(&error.kind().reason), "{error}");
            if let Some(id) = id {
                serde_json::from_slice::<IgnoredAny>(id).expect("an id that is echoed is JSON");
            }
            return false;
        }
    };
    serde_json::from_slice::<IgnoredAny>(data).expect("an envelope is JSON");
    let mut again = String::from(r#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        assert!(serde_json::from_str::<IgnoredAny>(id).is_ok_and(|_| !id.starts_with(['{', '['])), "{id}");
        let _ = write!(again, r#","id":{id}"#);
    }
    let _ = write!(again, r#","method":{}"#, serde_json::to_string(&method).unwrap());
    if let Some(params) = params {
        let _ = write!(again, r#","params":{params}"#);
    }
    again.push('}');
    let read = fuzz::envelope(again.as_bytes()).unwrap_or_else(|(_, error)| panic!("{error}: {again}"));
    assert_eq!(read, (id, method, params), "{again}");
    true
}

/// Reads the headers `A2A-Version` and `A2A-Extensions`, one a line. The first line is the version.
pub fn headers(data: &[u8]) -> bool {
    let mut headers = HeaderMap::new();
    for (index, line) in data.split(|byte| *byte == b'\n').enumerate() {
        let name = if index == 0 { &PROTOCOL.version_header } else { &PROTOCOL.extensions_header };
        let Ok(value) = HeaderValue::from_bytes(line) else { return false };
        headers.append(name, value);
    }
    let extensions = fuzz::extensions(&PROTOCOL, &headers);
    for (index, uri) in extensions.iter().enumerate() {
        assert!(!uri.is_empty() && uri.trim() == uri && !uri.contains(','), "{uri:?}");
        assert!(!extensions[..index].contains(uri), "{uri:?} twice");
    }
    // The list in one line has the same meaning.
    let joined = HeaderMap::from_iter([(
        PROTOCOL.extensions_header.clone(),
        HeaderValue::from_str(&extensions.join(",")).expect("URIs of headers are a header"),
    )]);
    assert_eq!(fuzz::extensions(&PROTOCOL, &joined), extensions);
    match fuzz::version(&PROTOCOL, &headers, None) {
        Ok(version) => {
            let asked = headers[&PROTOCOL.version_header].to_str().expect("a version is text").trim();
            assert!(
                asked == version || asked.strip_prefix(version).is_some_and(|rest| rest.starts_with('.')),
                "{asked}"
            );
            true
        }
        Err(error) => {
            assert_eq!(error.kind().reason, "VERSION_NOT_SUPPORTED");
            !extensions.is_empty()
        }
    }
}

/// Reads a `Last-Event-ID`.
pub fn last_event_id(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    for head in [0, 1, 7, u64::MAX] {
        match cursor::start(Some(text), 7, head) {
            Start::Head => {}
            Start::At(seq) => {
                assert!((1..head).contains(&seq), "{seq} of {head}");
                assert_eq!(text.trim().parse(), Ok(EventId { generation: 7, seq }));
            }
        }
    }
    let Ok(id) = text.parse::<EventId>() else { return false };
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!(text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{text:?}");
    true
}

/// Reads page tokens: the bytes as a token, as the content of a token, and as a change to a valid one.
pub fn page_token(data: &[u8]) -> bool {
    let key = PageKey::new(&[1; 32]);
    let query = |context: &str| ListQuery {
        agent: "kit".into(),
        owner: "ann".into(),
        context: Some(context.into()),
        state: None,
        after_us: None,
        limit: 50,
        cursor: None,
    };
    let text = String::from_utf8_lossy(data);
    let mut accepted = false;
    if let Ok(page) = key.decode(&query("c"), &text) {
        assert_eq!(key.encode(&query("c"), &page), text, "one page, one token");
        accepted = true;
    }
    let bytes = |from: usize| -> [u8; 8] { std::array::from_fn(|i| data.get(from + i).copied().unwrap_or(0)) };
    let page = PageToken {
        status_us: i64::from_be_bytes(bytes(0)),
        id: Uuid::from_u64_pair(u64::from_be_bytes(bytes(8)), u64::from_be_bytes(bytes(16))),
        total: u64::from_be_bytes(bytes(24)),
    };
    let token = key.encode(&query("c"), &page);
    assert_eq!(key.decode(&query("c"), &token), Ok(page));
    if text != "c" {
        assert_eq!(key.decode(&query(&text), &token), Err(TokenError::OtherQuery));
    }
    let mut changed = token.clone().into_bytes();
    let at = usize::from(data.first().copied().unwrap_or(0)) % changed.len();
    changed[at] = data.get(1).copied().unwrap_or(b'!');
    let changed = String::from_utf8_lossy(&changed);
    if changed != token {
        assert_eq!(key.decode(&query("c"), &changed), Err(TokenError::Malformed), "{token} became {changed}");
    }
    accepted
}

/// Splits the path of an HTTP+JSON request.
pub fn path(data: &[u8]) -> bool {
    let Ok(raw) = std::str::from_utf8(data) else { return false };
    let Some(path) = Path::split(raw, ACTIONS) else { return false };
    let segments = &path.segments()[..path.len()];
    assert!(!segments.is_empty() && segments.iter().all(|segment| !segment.is_empty()));
    let mut again: String = segments.iter().map(|segment| format!("/{}", quote(segment))).collect();
    if !path.action().is_empty() {
        let _ = write!(again, ":{}", path.action());
    }
    let read = Path::split(&again, ACTIONS).unwrap_or_else(|| panic!("{again} is not split"));
    assert_eq!((&read.segments()[..read.len()], read.action()), (segments, path.action()), "{again}");
    true
}

/// Reads the query of an HTTP+JSON request.
pub fn query(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    fn again<R: FromQuery + Default + PartialEq + std::fmt::Debug + serde::Serialize>(text: &str) -> bool {
        let mut request = R::default();
        if let Err(error) = query::read(&mut request, text) {
            assert_eq!((error.kind().reason, error.field_violations().len()), ("INVALID_PARAMS", 1), "{error}");
            return false;
        }
        let json = serde_json::to_value(&request).expect("a request prints");
        let members = json.as_object().expect("a request is an object");
        let pairs = members.iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name}={}", quote(text)),
            other => format!("{name}={other}"),
        });
        let written = pairs.collect::<Vec<_>>().join("&");
        let mut read = R::default();
        query::read(&mut read, &written).unwrap_or_else(|error| panic!("{error}: {written}"));
        assert_eq!(read, request, "{text:?} was written {written}");
        true
    }
    again::<ListTasksRequest>(text) | again::<GetTaskRequest>(text)
}

fn quote(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// Reads an event stream as the client does. The first byte says how the rest is cut into pieces.
pub fn sse(data: &[u8]) -> bool {
    const LIMIT: usize = 256;
    fn read(pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> Result<(Vec<SseEvent>, bool), SseError> {
        let mut reader = SseReader::new(LIMIT);
        let mut events = Vec::new();
        for piece in pieces {
            reader.push(piece.as_ref())?;
            events.extend(std::iter::from_fn(|| reader.next()));
        }
        Ok((events, reader.inside_event()))
    }
    let Some((cut, body)) = data.split_first() else { return false };
    let whole = read([body].into_iter());
    let pieces = read(body.chunks(1 + usize::from(*cut) % 16));
    assert_eq!(whole, pieces, "the result depends on how the body is cut");
    let Ok((events, _)) = whole else { return false };
    // Events that were read can be written as a server writes them, and read again.
    let mut written = String::new();
    for event in &events {
        assert!(event.data.len() <= LIMIT, "{} bytes", event.data.len());
        let _ = writeln!(written, "event: {}\nid: {}", event.name, event.id.as_deref().unwrap_or_default());
        for line in event.data.split('\n') {
            let _ = writeln!(written, "data: {line}");
        }
        written.push('\n');
    }
    if let Ok((again, false)) = read([written.as_bytes()].into_iter()) {
        assert_eq!(again, events, "{written:?}");
    }
    !events.is_empty()
}
