//! The outcome of a request in a form that is the same for every binding, and the rules for comparing two of them.

use std::collections::HashMap;

use serde_json::{Value, json};
use tricord_bindings::details::Detail;

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// The request was accepted: the answer, or the events of a stream, and the extensions in use.
    Accepted { events: Vec<Value>, extensions: String },
    /// The request was refused, with a message and the violations of its fields.
    Refused { reason: String, metadata: Value, fields: Vec<String>, texts: Vec<String> },
}

/// The rows of the protocol's error table: JSON-RPC code, gRPC status, HTTP status, reason.
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

/// The column of the error table that a binding uses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Code {
    JsonRpc(i64),
    Grpc(i64),
    Http(u16),
}

impl Answer {
    /// Reads an error from its details.
    ///
    /// A reason that is not in the table, or that has another reason's code, is a fault of the binding.
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

    /// Returns a short name for counting.
    pub(crate) fn name(&self) -> &str {
        match self {
            Answer::Accepted { .. } => "accepted",
            Answer::Refused { reason, .. } => reason,
        }
    }

    /// Returns the outcome with every id and time of the server replaced by the order in which it first appears.
    pub(crate) fn normal(mut self) -> Self {
        let mut seen = HashMap::new();
        match &mut self {
            Answer::Accepted { events, .. } => events.iter_mut().for_each(|event| replace(event, "", &mut seen)),
            Answer::Refused { metadata, .. } => replace(metadata, "", &mut seen),
        }
        self
    }

    /// Returns the outcome without the parts that depend on a run in progress.
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

    /// Returns the outcome without texts.
    pub(crate) fn without_texts(mut self) -> Self {
        if let Answer::Refused { texts, .. } = &mut self {
            texts.clear();
        }
        self
    }

    /// Returns the outcome reduced to whether the request was accepted.
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
            assert!(at.is_ok(), "{text} is not a timestamp");
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
