//! The HTTP+JSON transport: verb and path follow the schema's HTTP rules, and the rest goes into body or query.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::Code;
use super::sse::SseEvent;
use super::transport::{HttpClient, excerpt, json_request, media_type, retry_after, uri};
use super::{CallOptions, ClientError, EventStream, ServerError, Transport, WireMessage, stream};
use crate::error::Protocol;
use crate::proto_json;
use crate::rpc::{HttpRule, Rpc};

/// All characters but the unreserved ones. Escaping them keeps a value in one path segment and hides its colons.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const EVENT_STREAM: &str = "text/event-stream";

/// Calls a server over HTTP+JSON.
#[derive(Debug, Clone)]
pub struct HttpJson {
    http: HttpClient,
    base: String,
    protocol: &'static Protocol,
}

impl HttpJson {
    /// Creates a transport for the server whose paths begin at `base`.
    ///
    /// # Errors
    /// When `base` is not an `http` or `https` URL.
    pub fn new(http: HttpClient, base: &str, protocol: &'static Protocol) -> Result<Self, ClientError> {
        uri(base)?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), protocol })
    }

    fn request<Q: WireMessage>(
        &self,
        rpc: &Rpc,
        request: &Q,
        options: &CallOptions,
        accept: &str,
        verb: Option<&str>,
    ) -> Result<http::Request<bytes::Bytes>, ClientError> {
        let target = Target::new(rpc, fields(request)?, verb)?;
        let mut headers = options.headers(self.protocol)?;
        if let Ok(accept) = HeaderValue::try_from(accept) {
            headers.insert(ACCEPT, accept);
        }
        let body = target.body.map(|fields| (self.protocol.media_type, Value::Object(fields).to_string().into_bytes()));
        let url = format!("{}{}{}", self.base, target.path, target.query);
        json_request(target.verb, &url, headers, body)
    }
}

impl Transport for HttpJson {
    async fn unary<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<A, ClientError> {
        let accept = format!("{}, application/json", self.protocol.media_type);
        let request = self.request(rpc, request, options, &accept, None)?;
        let (parts, body) = self.http.whole(request, options.deadline()).await?;
        match parts.status {
            StatusCode::NO_CONTENT => Ok(A::default()),
            status if status.is_success() => decode(rpc, &body),
            status => Err(server_error(status, &parts.headers, &body)),
        }
    }

    async fn stream<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<EventStream<A>, ClientError> {
        let accept = format!("{EVENT_STREAM}, {}", self.protocol.media_type);
        let deadline = options.deadline();
        // Some servers stream with POST only, others with GET only, and the schema has both: the other one is tried after
        // a refusal of the path or the verb.
        let verbs: &[&str] = if has_verb(rpc, "POST") && has_verb(rpc, "GET") { &["POST", "GET"] } else { &[] };
        let (first, second) = (verbs.first().copied(), verbs.get(1).copied());
        let whole = self.request(rpc, request, options, &accept, first)?;
        let (mut parts, mut body) = self.http.open(whole, deadline).await?.into_parts();
        for verb in [second, None] {
            if parts.status.is_success() {
                break;
            }
            let text = deadline.bound(super::transport::collect(body)).await??;
            let error = server_error(parts.status, &parts.headers, &text);
            if verb.is_none() || !refuses_verb(&error) {
                return Err(error);
            }
            let again = self.request(rpc, request, options, &accept, verb)?;
            (parts, body) = self.http.open(again, deadline).await?.into_parts();
        }
        expect_event_stream(&parts.headers)?;
        Ok(stream::events(body, deadline, move |event| match event.name.as_str() {
            "error" => Err(event_error(event)),
            _ => decode(rpc, event.data.as_bytes()),
        }))
    }
}

fn has_verb(rpc: &Rpc, verb: &str) -> bool {
    rpc.rules.iter().any(|rule| rule.verb == verb)
}

/// Returns whether another verb may be answered: the server does not know this one, rather than what the request names.
fn refuses_verb(error: &ClientError) -> bool {
    error.server().is_some_and(|error| match error.code {
        Code::Http(405) => true,
        Code::Http(404) => error.reason.as_deref().is_none_or(|reason| reason == "METHOD_NOT_FOUND"),
        _ => false,
    })
}

/// Returns the fields of a request as ProtoJSON.
fn fields(request: &impl WireMessage) -> Result<Map<String, Value>, ClientError> {
    match serde_json::to_value(request) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(ClientError::Request("the request is not a JSON object".to_owned())),
        Err(error) => Err(ClientError::Request(format!("cannot write the request as JSON: {error}"))),
    }
}

/// Reads an answer.
pub(super) fn decode<A: WireMessage>(rpc: &Rpc, body: &[u8]) -> Result<A, ClientError> {
    proto_json::decode(body).map_err(|error| {
        ClientError::BadAnswer(format!("cannot read the answer to {}: {error}: {}", rpc.name, excerpt(body)))
    })
}

/// Checks that an answer is a stream of events.
pub(super) fn expect_event_stream(headers: &HeaderMap) -> Result<(), ClientError> {
    match media_type(headers).as_str() {
        EVENT_STREAM => Ok(()),
        "" => Err(ClientError::BadAnswer(format!("no media type, expected {EVENT_STREAM}"))),
        other => Err(ClientError::BadAnswer(format!("media type {other}, expected {EVENT_STREAM}"))),
    }
}

fn event_error(event: &SseEvent) -> ClientError {
    match serde_json::from_str::<Value>(&event.data) {
        Ok(body) if body["error"].is_object() => read_error(&body["error"], None).into(),
        _ => ClientError::BadAnswer(format!("an error event without an error: {}", excerpt(event.data.as_bytes()))),
    }
}

/// Reads an answer whose status is not a success. The body may come from a proxy; then the error is the status alone.
fn server_error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ClientError {
    let mut error = match serde_json::from_slice::<Value>(body) {
        Ok(body) if body["error"].is_object() => read_error(&body["error"], Some(status)),
        _ => {
            let text = match media_type(headers).as_str() {
                "text/plain" | "application/json" => excerpt(body),
                _ => String::new(),
            };
            let reason = status.canonical_reason().unwrap_or_default();
            ServerError::new(Code::Http(status.as_u16()), if text.is_empty() { reason.to_owned() } else { text })
        }
    };
    error.read_retry_after(retry_after(headers));
    error.into()
}

fn read_error(error: &Value, status: Option<StatusCode>) -> ServerError {
    let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = Code::Http(status.map(|s| s.as_u16()).or(code).unwrap_or(0));
    let mut read = ServerError::new(code, error["message"].as_str().unwrap_or_default());
    read.read_json(&error["details"]);
    read
}

/// The verb, path and body of a request.
#[derive(Debug, PartialEq)]
struct Target {
    verb: Method,
    path: String,
    query: String,
    body: Option<Map<String, Value>>,
}

impl Target {
    /// Chooses the rule that puts the most fields of the request into the path, of those with this verb if one is given;
    /// the first of equals.
    fn new(rpc: &Rpc, mut fields: Map<String, Value>, verb: Option<&str>) -> Result<Self, ClientError> {
        let mut best: Option<(&HttpRule, usize)> = None;
        for rule in rpc.rules.iter().filter(|rule| verb.is_none_or(|verb| rule.verb == verb)) {
            let names = variables(rule.template);
            let all = names.iter().all(|name| fields.get(name).is_some_and(|value| *value != "" && value.is_string()));
            if all && best.is_none_or(|(_, most)| names.len() > most) {
                best = Some((rule, names.len()));
            }
        }
        let Some((rule, _)) = best else {
            let missing: Vec<_> = rpc.rules.first().map(|rule| variables(rule.template)).unwrap_or_default();
            return Err(ClientError::Request(format!("{} needs {}", rpc.name, missing.join(" and "))));
        };
        let mut path = String::new();
        for piece in pieces(rule.template) {
            match piece {
                Piece::Text(text) => path.push_str(text),
                Piece::Variable(name) => {
                    let value = fields.remove(&name);
                    let value = value.as_ref().and_then(Value::as_str).unwrap_or_default();
                    path.extend(utf8_percent_encode(value, SEGMENT));
                }
            }
        }
        let verb = Method::from_bytes(rule.verb.as_bytes())
            .map_err(|_| ClientError::Request(format!("{} has the invalid verb {:?}", rpc.name, rule.verb)))?;
        if rule.body {
            return Ok(Self { verb, path, query: String::new(), body: Some(fields) });
        }
        let mut query = String::new();
        for (name, value) in &fields {
            add_query(&mut query, name, value);
        }
        Ok(Self { verb, path, query, body: None })
    }
}

fn add_query(query: &mut String, name: &str, value: &Value) {
    let text = match value {
        Value::Null => return,
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => return items.iter().for_each(|item| add_query(query, name, item)),
        Value::Object(fields) => {
            return fields.iter().for_each(|(key, value)| add_query(query, &format!("{name}.{key}"), value));
        }
    };
    query.push(if query.is_empty() { '?' } else { '&' });
    query.extend(utf8_percent_encode(name, SEGMENT));
    query.push('=');
    query.extend(utf8_percent_encode(&text, SEGMENT));
}

/// Splits a path template into its text and its variables, which have their JSON names.
enum Piece<'a> {
    Text(&'a str),
    Variable(String),
}

fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((text, tail)) = rest.split_once('{') {
        let (variable, tail) = tail.split_once('}').unwrap_or((tail, ""));
        pieces.push(Piece::Text(text));
        pieces.push(Piece::Variable(json_name(variable.split('=').next().unwrap_or(variable))));
        rest = tail;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn variables(template: &str) -> Vec<String> {
    let name = |piece| match piece {
        Piece::Variable(name) => Some(name),
        Piece::Text(_) => None,
    };
    pieces(template).into_iter().filter_map(name).collect()
}

/// Converts `task_id` to `taskId`.
fn json_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        match c {
            '_' => upper = true,
            c if std::mem::take(&mut upper) => out.push(c.to_ascii_uppercase()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rpc;
    use serde_json::json;

    const fn rule(verb: &'static str, template: &'static str, body: bool) -> HttpRule {
        HttpRule { verb, template, body }
    }

    static WATCH: Rpc = rpc(
        "Watch",
        "/p.S/Watch",
        &[
            rule("GET", "/jobs/{job_id=*}:watch", false),
            rule("GET", "/{scope}/jobs/{job_id=*}:watch", false),
            rule("POST", "/jobs/{job_id=*}:watch", true),
        ],
    );
    static MAKE: Rpc = rpc("Make", "/p.S/Make", &[rule("POST", "/jobs", true), rule("POST", "/{scope}/jobs", true)]);

    fn target(rpc: &Rpc, fields: Value) -> Result<(String, Option<Value>), ClientError> {
        let Value::Object(fields) = fields else { panic!("{fields}") };
        let target = Target::new(rpc, fields, None)?;
        Ok((format!("{} {}{}", target.verb, target.path, target.query), target.body.map(Value::Object)))
    }

    #[test]
    fn the_rule_with_the_most_path_fields_is_chosen() {
        let (line, body) = target(&WATCH, json!({"jobId": "a"})).unwrap();
        assert_eq!((line.as_str(), body), ("GET /jobs/a:watch", None));
        let (line, _) = target(&WATCH, json!({"jobId": "a", "scope": "s"})).unwrap();
        assert_eq!(line, "GET /s/jobs/a:watch");
        let (line, body) = target(&MAKE, json!({"scope": "s", "job": {"n": 1}})).unwrap();
        assert_eq!((line.as_str(), body), ("POST /s/jobs", Some(json!({"job": {"n": 1}}))));
    }

    #[test]
    fn a_value_stays_in_its_path_segment() {
        let (line, _) = target(&WATCH, json!({"jobId": "a/b:watch?é"})).unwrap();
        assert_eq!(line, "GET /jobs/a%2Fb%3Awatch%3F%C3%A9:watch");
    }

    #[test]
    fn the_remaining_fields_become_the_query() {
        let (line, _) =
            target(&WATCH, json!({"jobId": "a", "n": 0, "on": true, "at": "1&2", "o": {"x": 1}, "l": ["p", "q"]}))
                .unwrap();
        assert_eq!(line, "GET /jobs/a:watch?at=1%262&l=p&l=q&n=0&o.x=1&on=true");
    }

    #[test]
    fn a_request_without_its_path_fields_is_refused() {
        let error = target(&WATCH, json!({"jobId": ""})).unwrap_err();
        assert_eq!(error, ClientError::Request("Watch needs jobId".into()));
    }

    #[test]
    fn an_error_that_a_proxy_wrote_becomes_its_status() {
        let body = br#"{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[
            {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND"}]}}"#;
        let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, HeaderValue::from_static("7"))]);
        let error = server_error(StatusCode::NOT_FOUND, &headers, body);
        let error = error.server().unwrap();
        assert_eq!((error.reason.as_deref(), error.code), (Some("TASK_NOT_FOUND"), Code::Http(404)));
        assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(7)));
        let error = server_error(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>");
        assert_eq!(error.to_string(), "Bad Gateway (HTTP status 502)");
    }
}
