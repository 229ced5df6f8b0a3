//! The corpus of ProtoJSON cases. `tests/protojson/README.md` says where the expected results come from.

use prost_reflect::{Kind, MessageDescriptor};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::codec::{codec, pool, required};

const CASES: &str = include_str!("../protojson/cases.json");

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) json: String,
    expect: String,
    /// What the message prints; absent where the JSON is refused.
    pub(crate) output: Option<Value>,
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    serde_json::from_str(CASES).expect("the corpus is JSON")
}

#[test]
fn every_case_of_the_corpus_has_the_expected_result() {
    let cases = cases();
    let pool = pool();
    let mut wrong = Vec::new();
    for case in &cases {
        let codec = codec(&case.message);
        let result = (codec.read)(case.json.as_bytes());
        let problem = match (case.expect.as_str(), result) {
            ("error", Err(_)) => None,
            ("error", Ok(bytes)) => Some(format!("read as {}", (codec.print)(&bytes))),
            ("ok", Err(error)) => Some(format!("refused: {error}")),
            ("ok", Ok(bytes)) => {
                let printed = (codec.print)(&bytes);
                let descriptor =
                    pool.get_message_by_name(&format!("lf.a2a.v1.{}", case.message)).expect("the message exists");
                let mut expected = case.output.clone().expect("a case that is ok has an output");
                normalise(&descriptor, &mut expected);
                let ours: Value = serde_json::from_str(&printed).expect("we print JSON");
                (!equal(&ours, &expected)).then(|| format!("printed {printed}\n  expected {expected}"))
            }
            (other, _) => panic!("{}: expect is {other}", case.name),
        };
        wrong.extend(problem.map(|problem| format!("{}: {}\n  {problem}", case.name, case.json)));
    }
    assert!(cases.len() >= 84, "the corpus has fewer cases than it should");
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Converts the expected output to our form: required fields without presence are always written, and timestamps have
/// three fraction digits where none are needed.
fn normalise(message: &MessageDescriptor, json: &mut Value) {
    if message.full_name() == "google.protobuf.Timestamp" {
        let instant: tricord_bindings::wkt::Timestamp =
            json.as_str().expect("a timestamp is text").parse().expect("the corpus has real timestamps");
        *json = json!(instant.to_string());
        return;
    }
    if message.full_name().starts_with("google.protobuf.") {
        return;
    }
    let object = json.as_object_mut().expect("a message is an object");
    for field in message.fields() {
        if let Some(value) = object.get_mut(field.json_name()) {
            let Kind::Message(inner) = field.kind() else { continue };
            match value {
                Value::Array(list) => list.iter_mut().for_each(|element| normalise(&inner, element)),
                value if !field.is_map() => normalise(&inner, value),
                _ => {}
            }
        } else if required(&field) {
            default_of(&field).map(|value| object.insert(field.json_name().to_owned(), value));
        }
    }
}

fn default_of(field: &prost_reflect::FieldDescriptor) -> Option<Value> {
    Some(match field.kind() {
        _ if field.is_map() => Value::Object(Map::new()),
        _ if field.is_list() => json!([]),
        Kind::String | Kind::Bytes => json!(""),
        Kind::Bool => json!(false),
        Kind::Enum(kind) => json!(kind.get_value(0).expect("proto3 enums have a zero").name()),
        Kind::Message(_) => return None,
        _ => json!(0),
    })
}

/// Returns whether two JSON values are equal, comparing numbers by value.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}
