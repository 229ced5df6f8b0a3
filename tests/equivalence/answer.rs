//! What came of a request, told in the same words for every wire, and when two of them are the same.

use std::collections::HashMap;

use serde_json::{Value, json};
use tricord_bindings::details::Detail;

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// It was accepted: the answer, or the events of a stream, and the extensions that are in use.
    Accepted { events: Vec<Value>, extensions: String },
    /// It was refused; the texts say what is wrong with the fields, and altogether.
    Refused { reason: String, metadata: Value, fields: Vec<String>, texts: Vec<String> },
}

/// An error's row in the protocol's table: JSON-RPC code, gRPC status, HTTP status, and the reason.
const TABLE: &[(i64, i64, u16, &str)] = &[
    (-32001, 5, 404, "TASK_NOT_FOUND"),
    (-32002, 9, 400, "TASK_NOT_CANCELABLE"),
    (-32003, 9, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (-32004, 9, 400, "UNSUPPORTED_OPERATION"),
    (-32005, 3, 400, "CONTENT_TYPE_NOT_SUPPORTED"),
    (-32007, 9, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (-32008, 9, 400, "EXTENSION_SUPPORT_REQUIRED"),
    (-32009, 9, 400, "VERSION_NOT_SUPPORTED"),
    (-32602, 3, 400, "INVALID_PARAMS"),
    (-32600, 8, 413, "TOO_LARGE"),
];

/// Where an error's code stands on a wire.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Code {
    JsonRpc(i64),
    Grpc(i64),
    Http(u16),
}

impl Answer {
    /// Reads an error out of its details.
    ///
    /// A reason without a place in the table, or with the code of another, is a fault of the wire.
    pub(crate) fn refused(code: Code, message: &str, details: &[Detail]) -> Result<Self, String> {
        let Some(Detail::ErrorInfo(info)) = details.first() else {
            return Err(format!("{code:?}: no ErrorInfo comes first: {details:?}"));
        };
        let row = TABLE.iter().find(|(.., reason)| *reason == info.reason);
        let fits = row.is_some_and(|(jsonrpc, grpc, http, _)| match code {
            Code::JsonRpc(code) => code == *jsonrpc,
            Code::Grpc(code) => code == *grpc,
            Code::Http(code) => code == *http,
        });
        if !fits || info.domain != "a2a-protocol.org" {
            return Err(format!("{code:?} is not that of {info:?}"));
        }
        let violations = details.iter().filter_map(|detail| match detail {
            Detail::BadRequest(bad) => Some(&bad.field_violations),
            _ => None,
        });
        let (fields, mut texts): (Vec<_>, Vec<_>) =
            violations.flatten().map(|violation| (violation.field.clone(), violation.description.clone())).unzip();
        texts.push(message.to_owned());
        Ok(Answer::Refused { reason: info.reason.clone(), metadata: json!(info.metadata), fields, texts })
    }

    /// A short name for counting.
    pub(crate) fn name(&self) -> &str {
        match self {
            Answer::Accepted { .. } => "accepted",
            Answer::Refused { reason, .. } => reason,
        }
    }

    /// The same answer with everything that the server makes up replaced by when it was first met.
    pub(crate) fn normal(mut self) -> Self {
        let mut seen = HashMap::new();
        match &mut self {
            Answer::Accepted { events, .. } => events.iter_mut().for_each(|event| replace(event, "", &mut seen)),
            Answer::Refused { metadata, .. } => replace(metadata, "", &mut seen),
        }
        self
    }

    /// The same answer without what a run that goes on meanwhile decides.
    pub(crate) fn without_progress(mut self) -> Self {
        if let Answer::Accepted { events, .. } = &mut self {
            for event in events {
                if let Some(Value::String(state)) = event.pointer_mut("/task/status/state")
                    && ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state.as_str())
                {
                    "under way".clone_into(state);
                }
            }
        }
        self
    }

    /// The same answer without what it says in words.
    pub(crate) fn without_texts(mut self) -> Self {
        if let Answer::Refused { texts, .. } = &mut self {
            texts.clear();
        }
        self
    }

    /// The same answer, of which only matters that it was accepted.
    pub(crate) fn bare(mut self) -> Self {
        if let Answer::Accepted { events, .. } = &mut self {
            events.clear();
        }
        self
    }
}

fn replace(value: &mut Value, name: &str, seen: &mut HashMap<String, usize>) {
    match value {
        Value::String(text) if name == "timestamp" => {
            let at = text.parse::<tricord_bindings::wkt::Timestamp>();
            assert!(at.is_ok(), "{text} is no timestamp");
            "a time".clone_into(text);
        }
        Value::String(text) if text.len() == 36 && uuid::Uuid::try_parse(text).is_ok() => {
            let count = seen.len();
            *text = format!("#{}", seen.entry(text.clone()).or_insert(count));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| replace(value, name, seen)),
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| replace(value, name, seen)),
        _ => {}
    }
}
