//! Our ProtoJSON beside pbjson's, which is generated from the same schema.
//!
//! Ours is right in every case of the corpus (`corpus.rs`). Where pbjson is not is listed here by the names of the cases,
//! so that a release of it that mends one, or breaks another, is noticed. docs/decisions tell why the product has a codec
//! of its own.

use std::collections::BTreeSet;

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tricord_pbjson as pbjson;

use crate::corpus::{Case, cases, equal};

/// The cases that pbjson answers otherwise than the corpus says.
const DIFFERENT: &[&str] = &[
    "Struct 2^53+1",
    "Timestamp 10 digits",
    "Timestamp Z",
    "Timestamp lower t/z",
    "Timestamp micros",
    "Timestamp ms",
    "Timestamp nanos",
    "Timestamp offset",
    "Timestamp space sep",
    "Timestamp year 0000",
    "Value depth 100 arrays",
    "Value depth 120 objs",
    "Value depth 32 arrays",
    "Value depth 32 objs",
    "Value depth 33 arrays",
    "Value depth 33 objs",
    "Value depth 40 arrays",
    "Value depth 50 objs",
    "Value depth 95 arrays",
    "Value depth 99 arrays",
    "Value nested 31 arrays",
    "Value nested 31 objects",
    "Value null in oneof",
    "int32 1e2",
    "int32 string 1e2",
    "null bool",
    "null enum",
    "null map",
    "null repeated",
    "null string",
    "unknown field",
];

/// Reads a case and prints it again, or says why it cannot be read.
fn again<T: Message + DeserializeOwned + Serialize>(json: &str) -> Result<Value, String> {
    let message: T = serde_json::from_str(json).map_err(|error| error.to_string())?;
    serde_json::to_value(&message).map_err(|error| format!("printing: {error}"))
}

/// What pbjson makes of a case.
fn outcome(case: &Case) -> Result<Value, String> {
    let again = match case.message.as_str() {
        "AgentCard" => again::<pbjson::AgentCard>,
        "ListTasksResponse" => again::<pbjson::ListTasksResponse>,
        "Message" => again::<pbjson::Message>,
        "Part" => again::<pbjson::Part>,
        "SendMessageConfiguration" => again::<pbjson::SendMessageConfiguration>,
        "SendMessageRequest" => again::<pbjson::SendMessageRequest>,
        "StreamResponse" => again::<pbjson::StreamResponse>,
        "Task" => again::<pbjson::Task>,
        "TaskStatus" => again::<pbjson::TaskStatus>,
        other => panic!("give {other} a line here"),
    };
    again(&case.json)
}

#[test]
fn pbjson_differs_in_the_cases_that_are_listed() {
    let mut different = BTreeSet::new();
    let mut report = String::new();
    for case in &cases() {
        let outcome = outcome(case);
        let is_right = match (&outcome, &case.output) {
            (Ok(printed), Some(expected)) => equal(printed, expected),
            (Err(_), None) => true,
            _ => false,
        };
        if !is_right {
            different.insert(case.name.clone());
            report += &format!("{}: {}\n  {outcome:?}\n", case.name, case.json);
        }
    }
    let listed: BTreeSet<String> = DIFFERENT.iter().map(|name| (*name).to_owned()).collect();
    let mended: Vec<_> = listed.difference(&different).collect();
    let new: Vec<_> = different.difference(&listed).collect();
    assert!(mended.is_empty() && new.is_empty(), "mended: {mended:?}\nnew: {new:?}\n{report}");
}
