//! An answer over any binding. Every error is checked against the error table, field by field.

use bytes::BytesMut;
use http::HeaderMap;
use serde_json::{Value, json};
use tricord::client::Binding;

use super::http::Reply;
use super::{grpc, schema};

/// The error table: reason; JSON-RPC code; gRPC code and name; HTTP status.
type Row = (&'static str, i64, i64, &'static str, u16);

const ERRORS: &[Row] = &[
    ("TASK_NOT_FOUND", -32001, 5, "NOT_FOUND", 404),
    ("TASK_NOT_CANCELABLE", -32002, 9, "FAILED_PRECONDITION", 400),
    ("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 9, "FAILED_PRECONDITION", 400),
    ("UNSUPPORTED_OPERATION", -32004, 9, "FAILED_PRECONDITION", 400),
    ("CONTENT_TYPE_NOT_SUPPORTED", -32005, 3, "INVALID_ARGUMENT", 400),
    ("INVALID_AGENT_RESPONSE", -32006, 13, "INTERNAL", 500),
    ("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, 9, "FAILED_PRECONDITION", 400),
    ("EXTENSION_SUPPORT_REQUIRED", -32008, 9, "FAILED_PRECONDITION", 400),
    ("VERSION_NOT_SUPPORTED", -32009, 9, "FAILED_PRECONDITION", 400),
    ("PARSE_ERROR", -32700, 3, "INVALID_ARGUMENT", 400),
    ("INVALID_REQUEST", -32600, 3, "INVALID_ARGUMENT", 400),
    ("METHOD_NOT_FOUND", -32601, 12, "UNIMPLEMENTED", 404),
    ("INVALID_PARAMS", -32602, 3, "INVALID_ARGUMENT", 400),
    ("INTERNAL_ERROR", -32603, 13, "INTERNAL", 500),
    ("TOO_LARGE", -32600, 8, "RESOURCE_EXHAUSTED", 413),
    ("UNAUTHENTICATED", -32000, 16, "UNAUTHENTICATED", 401),
    ("PERMISSION_DENIED", -32000, 7, "PERMISSION_DENIED", 403),
    ("RATE_LIMITED", -32000, 8, "RESOURCE_EXHAUSTED", 429),
    ("UNAVAILABLE", -32000, 14, "UNAVAILABLE", 503),
    ("REQUEST_TIMEOUT", -32600, 4, "DEADLINE_EXCEEDED", 408),
    ("DEADLINE_EXCEEDED", -32000, 4, "DEADLINE_EXCEEDED", 504),
];

/// The answer of a server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) wire: Binding,
    asked: String,
    pub(crate) reply: Reply,
    outcome: Result<Value, Refusal>,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) metadata: Value,
    /// The paths of the invalid fields.
    pub(crate) fields: Vec<String>,
}

impl Answer {
    pub(super) fn read(wire: Binding, method: &str, id: &Option<Value>, asked: String, reply: Reply) -> Self {
        let outcome = match wire {
            Binding::Grpc => of_grpc(method, &asked, &reply),
            Binding::JsonRpc => of_jsonrpc(id, &asked, &reply),
            Binding::HttpJson => of_http(&asked, &reply),
        };
        if let Ok(value) = &outcome
            && wire != Binding::Grpc
            && !value.is_null()
        {
            schema::check(&schema::output(method), value, &asked);
        }
        Self { wire, asked, reply, outcome }
    }

    /// Returns the result or the error, for calls that may have either.
    pub(crate) fn outcome(self) -> Result<Value, Refusal> {
        self.outcome
    }

    /// Returns the result of a call that must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        match self.outcome {
            Ok(value) => value,
            Err(refusal) => panic!("{}: refused: {refusal:?}", self.asked),
        }
    }

    /// Returns the error of a call that must fail for this reason.
    #[track_caller]
    pub(crate) fn refused(self, reason: &str) -> Refusal {
        match self.outcome {
            Ok(value) => panic!("{}: expected {reason}, got {value}", self.asked),
            Err(refusal) => {
                assert_eq!(refusal.reason, reason, "{}: {refusal:?}", self.asked);
                refusal
            }
        }
    }

    /// Returns the error of a call that must fail because of exactly these fields.
    #[track_caller]
    pub(crate) fn refused_fields(self, fields: &[&str]) -> Refusal {
        let asked = self.asked.clone();
        let refusal = self.refused("INVALID_PARAMS");
        assert_eq!(refusal.fields, fields, "{asked}: {}", refusal.message);
        refusal
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.reply.headers
    }
}

fn of_grpc(method: &str, asked: &str, reply: &Reply) -> Result<Value, Refusal> {
    assert_eq!(reply.status, 200, "{asked}: {reply:?}");
    let ending = grpc::ending(&reply.trailers).or_else(|| grpc::ending(&reply.headers));
    let ending = ending.unwrap_or_else(|| panic!("{asked}: no status: {reply:?}"));
    if ending.code == 0 {
        let mut body = BytesMut::from(&reply.body[..]);
        let message = grpc::next_message(&mut body, &schema::output(method));
        assert!(body.is_empty(), "{asked}: more than one message");
        return Ok(message.unwrap_or_else(|| panic!("{asked}: no message")));
    }
    Err(of_ending(ending, asked))
}

/// Reads a gRPC status that is an error.
pub(super) fn of_ending(ending: grpc::Ending, asked: &str) -> Refusal {
    let refusal = refusal(&ending.message, &Value::Array(ending.details), asked);
    let row = row(&refusal.reason, asked);
    assert_eq!(ending.code, row.2, "{asked}: {refusal:?}");
    refusal
}

fn of_jsonrpc(id: &Option<Value>, asked: &str, reply: &Reply) -> Result<Value, Refusal> {
    if id.is_none() && reply.status == 204 {
        assert!(reply.body.is_empty(), "{asked}: {reply:?}");
        return Ok(Value::Null);
    }
    assert_eq!(reply.header("content-type"), "application/json", "{asked}: {reply:?}");
    let body = reply.json();
    let outcome = of_response(id, &body, asked);
    let status = match &outcome {
        Err(refusal) => match row(&refusal.reason, asked).4 {
            status @ (401 | 403 | 413 | 429 | 503) => status,
            _ => 200,
        },
        Ok(_) => 200,
    };
    assert_eq!(reply.status, status, "{asked}: {reply:?}");
    if let Err(refusal) = &outcome {
        check_headers(refusal, reply, asked);
    }
    outcome
}

/// Reads a JSON-RPC response, alone or in an event.
pub(super) fn of_response(id: &Option<Value>, body: &Value, asked: &str) -> Result<Value, Refusal> {
    assert_eq!(body["jsonrpc"], "2.0", "{asked}: {body}");
    assert!(body.as_object().unwrap().contains_key("id"), "{asked}: no id: {body}");
    let is_error = body.get("error").is_some();
    let keys: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, if is_error { ["error", "id", "jsonrpc"] } else { ["id", "jsonrpc", "result"] }, "{asked}");
    // There is no id to return if the body was not read.
    let echoed = id.clone().unwrap_or_default();
    assert!(body["id"] == echoed || (is_error && body["id"].is_null()), "{asked}: the id is {}", body["id"]);
    if !is_error {
        return Ok(body["result"].clone());
    }
    let error = body["error"].as_object().unwrap();
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "data", "message"], "{asked}");
    let refusal = refusal(error["message"].as_str().unwrap(), &error["data"], asked);
    assert_eq!(error["code"], row(&refusal.reason, asked).1, "{asked}: {body}");
    Err(refusal)
}

fn of_http(asked: &str, reply: &Reply) -> Result<Value, Refusal> {
    let media_type = reply.header("content-type");
    assert!(matches!(media_type, "application/json" | "application/a2a+json"), "{asked}: {reply:?}");
    let body = reply.json();
    if reply.status == 200 {
        return Ok(body);
    }
    let refusal = of_document(&body, asked);
    let status = body["error"]["code"].as_u64().unwrap();
    assert_eq!(u64::from(reply.status), status, "{asked}: {body}");
    check_headers(&refusal, reply, asked);
    Err(refusal)
}

/// Reads an error of HTTP+JSON, alone or in an event.
pub(super) fn of_document(body: &Value, asked: &str) -> Refusal {
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["error"], "{asked}: {body}");
    let error = body["error"].as_object().unwrap();
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "details", "message", "status"], "{asked}: {body}");
    let refusal = refusal(error["message"].as_str().unwrap(), &error["details"], asked);
    let row = row(&refusal.reason, asked);
    let verb_is_wrong = refusal.reason == "METHOD_NOT_FOUND" && error["code"] == 405;
    assert!(error["code"] == row.4 || verb_is_wrong, "{asked}: {body}");
    assert_eq!(error["status"], row.3, "{asked}: {body}");
    refusal
}

fn check_headers(refusal: &Refusal, reply: &Reply, asked: &str) {
    let needed = match refusal.reason.as_str() {
        "UNAUTHENTICATED" => "www-authenticate",
        "RATE_LIMITED" | "UNAVAILABLE" => "retry-after",
        "METHOD_NOT_FOUND" if reply.status == 405 => "allow",
        _ => return,
    };
    assert!(reply.headers.contains_key(needed), "{asked}: no {needed}: {reply:?}");
}

fn row(reason: &str, asked: &str) -> Row {
    *ERRORS.iter().find(|row| row.0 == reason).unwrap_or_else(|| panic!("{asked}: no such reason: {reason}"))
}

/// Reads the details: ErrorInfo first, then BadRequest for invalid fields, then RetryInfo, and nothing else.
fn refusal(message: &str, details: &Value, asked: &str) -> Refusal {
    let details = details.as_array().unwrap_or_else(|| panic!("{asked}: details are {details} ({message})"));
    let named = |name: &str| json!(format!("type.googleapis.com/google.rpc.{name}"));
    let info = details.first().unwrap_or_else(|| panic!("{asked}: no details: {message}"));
    assert_eq!(info["@type"], named("ErrorInfo"), "{asked}: {details:?}");
    assert_eq!(info["domain"], "a2a-protocol.org", "{asked}: {details:?}");
    let mut rest = details[1..].iter().peekable();
    let bad = rest.next_if(|detail| detail["@type"] == named("BadRequest"));
    let fields = bad.map_or_else(Vec::new, |bad| {
        let violations = bad["fieldViolations"].as_array().unwrap();
        violations.iter().map(|v| v["field"].as_str().unwrap().to_owned()).collect()
    });
    let retry = rest.next_if(|detail| detail["@type"] == named("RetryInfo"));
    assert_eq!(rest.next(), None, "{asked}: {details:?}");
    let reason = info["reason"].as_str().unwrap().to_owned();
    assert_eq!(retry.is_some(), matches!(reason.as_str(), "UNAVAILABLE" | "RATE_LIMITED"), "{asked}: {details:?}");
    assert!(!message.is_empty(), "{asked}: an error without a message");
    for secret in ["panicked", ".rs:", "sqlite", "rusqlite", "SELECT", "/home/", "/tmp/"] {
        assert!(!message.contains(secret), "{asked}: {message:?} tells of {secret}");
    }
    Refusal { reason, message: message.to_owned(), metadata: info["metadata"].clone(), fields }
}
