//! Checks the field names and value types of a card against the JSON schema in the OpenAPI document.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Findings, kind, member};
use crate::schema::OPENAPI;

/// The schemas of all messages, by name.
static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    document["components"]["schemas"].as_object().cloned().unwrap_or_default()
});

/// Fields of A2A 0.3 cards that 1.0 no longer has.
const OLD_KEYS: [&str; 7] = [
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "protocolVersion",
    "supportsAuthenticatedExtendedCard",
    "security",
    "stateTransitionHistory",
];

pub(super) fn check(card: &Value, findings: &mut Findings) {
    by_name("AgentCard", "", card, findings);
}

fn by_name(name: &str, path: &str, value: &Value, findings: &mut Findings) {
    let Some(schema) = SCHEMAS.get(name) else { return };
    match value {
        Value::Object(members) if schema["properties"].is_object() => {
            message(name, schema, path, members, findings);
        }
        _ => by_schema(schema, path, value, findings),
    }
}

fn by_schema(schema: &Value, path: &str, value: &Value, findings: &mut Findings) {
    if let Some(reference) = schema["$ref"].as_str() {
        return by_name(reference.rsplit('/').next().unwrap_or_default(), path, value, findings);
    }
    let wanted = match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(members)) => {
            let each = &schema["additionalProperties"];
            for (name, value) in members.iter().filter(|_| each.is_object()) {
                by_schema(each, &member(path, name), value, findings);
            }
            return;
        }
        (Some("array"), Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                by_schema(&schema["items"], &format!("{path}[{at}]"), item, findings);
            }
            return;
        }
        (Some("string"), Value::String(_))
        | (Some("boolean"), Value::Bool(_))
        | (Some("integer"), Value::Number(_)) => {
            return;
        }
        (Some("object"), _) => "an object",
        (Some("array"), _) => "a list",
        (Some("string"), _) => "a string",
        (Some("boolean"), _) => "true or false",
        (Some("integer"), _) => "a number",
        _ => return,
    };
    findings.error(path, format!("must be {wanted}, not {}", kind(value)));
}

fn message(name: &str, schema: &Value, path: &str, members: &Map<String, Value>, findings: &mut Findings) {
    let properties = schema["properties"].as_object();
    let known = || properties.iter().flat_map(|properties| properties.keys()).map(String::as_str);
    // In ProtoJSON, null means that the field is absent.
    let present = |key: &str| members.get(key).is_some_and(|value| !value.is_null());
    for key in schema["required"].as_array().iter().flat_map(|keys| keys.iter()).filter_map(Value::as_str) {
        if !present(key) && !present(&snake_case(key)) {
            findings.error(member(path, key), "is missing");
        } else if members.get(key).is_some_and(|value| value.as_str() == Some("")) {
            findings.error(member(path, key), "is empty");
        } else if schema["properties"][key]["type"] == "array"
            && members.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty)
        {
            findings.error(member(path, key), "is empty; at least one is required");
        }
    }
    for (key, value) in members {
        let here = member(path, key);
        if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
            if !value.is_null() {
                by_schema(schema, &here, value, findings);
            }
        } else if let Some(camel) = known().find(|known| snake_case(known) == *key) {
            findings.warning(&here, format!("is not read by all clients; write `{camel}`"));
        } else if OLD_KEYS.contains(&key.as_str()) {
            findings.warning(&here, "is a field of A2A 0.3");
        } else {
            // Comparing long names costs much, and a name that long is not a typing mistake.
            let known = known().filter(|_| key.len() <= 64);
            let near = known.map(|known| (strsim::damerau_levenshtein(known, key), known)).min();
            let near = near.filter(|(distance, known)| *distance * 3 <= known.len().max(key.len()));
            let hint = near.map(|(_, known)| format!("; did you mean `{known}`?")).unwrap_or_default();
            findings.warning(&here, format!("is not a field of {}{hint}", called(name)));
        }
    }
    for choice in schema["allOf"].as_array().iter().flat_map(|rules| rules.iter()) {
        one_of(&choice["oneOf"], path, &present, findings);
    }
}

/// Checks that exactly one member of a oneof is set.
fn one_of(ways: &Value, path: &str, present: &dyn Fn(&str) -> bool, findings: &mut Findings) {
    let names: Vec<_> =
        ways.as_array().iter().flat_map(|ways| ways.iter()).filter_map(|way| way["required"][0].as_str()).collect();
    let set: Vec<_> = names.iter().filter(|name| present(name)).collect();
    match set.as_slice() {
        [] => findings.error(path, format!("needs one of {}", names.join(", "))),
        [_] => {}
        [first, second, ..] => findings.error(path, format!("has both {first} and {second}; set only one of them")),
    }
}

fn snake_case(key: &str) -> String {
    let mut snake = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Returns a phrase that names a message.
fn called(name: &str) -> &str {
    match name {
        "AgentCard" => "a card",
        "AgentInterface" => "an interface",
        "AgentSkill" => "a skill",
        "AgentCapabilities" => "the capabilities",
        "AgentExtension" => "an extension",
        "AgentProvider" => "a provider",
        "AgentCardSignature" => "a signature",
        other => other,
    }
}
