//! Checks answers against the schema with prost-reflect, which shares no code with the server's JSON.

use std::sync::LazyLock;

use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde_json::Value;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(tricord::schema::DESCRIPTORS).expect("descriptors"));

/// The method of this name.
pub(crate) fn method(name: &str) -> MethodDescriptor {
    let service = POOL.get_service_by_name("lf.a2a.v1.A2AService").expect("the service");
    service.methods().find(|method| method.name() == name).unwrap_or_else(|| panic!("no method {name}"))
}

/// What a method answers with, or streams.
pub(crate) fn output(name: &str) -> MessageDescriptor {
    method(name).output()
}

/// A message from JSON; unknown keys are refused.
pub(crate) fn message(descriptor: &MessageDescriptor, json: &Value) -> Result<DynamicMessage, String> {
    DynamicMessage::deserialize(descriptor.clone(), json).map_err(|error| error.to_string())
}

/// A message as JSON, without what has its default.
pub(crate) fn json(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new().skip_default_fields(true);
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
}

/// JSON as every wire's answer can be compared: without what has its default.
pub(crate) fn normal(descriptor: &MessageDescriptor, value: &Value) -> Value {
    json(&message(descriptor, value).unwrap_or_else(|error| panic!("{error}: {value}")))
}

/// Checks an answer in JSON against the schema: no unknown field, every name in camelCase, every REQUIRED field
/// present, enums by name, timestamps in UTC.
#[track_caller]
pub(crate) fn check(descriptor: &MessageDescriptor, value: &Value, context: &str) {
    if let Err(error) = message(descriptor, value) {
        panic!("{context}: not a {}: {error}: {value}", descriptor.name());
    }
    if let Some(problem) = walk(descriptor, value) {
        panic!("{context}: {problem}: {value}");
    }
}

fn walk(descriptor: &MessageDescriptor, value: &Value) -> Option<String> {
    match descriptor.full_name() {
        "google.protobuf.Timestamp" => return (!is_utc(value)).then(|| format!("{value} is not a time in UTC")),
        name if name.starts_with("google.protobuf.") => return None,
        _ => {}
    }
    let Some(object) = value.as_object() else { return Some(format!("{} is not an object", descriptor.name())) };
    for (key, value) in object {
        let field = descriptor.fields().find(|field| field.json_name() == key);
        let Some(field) = field else {
            return Some(format!("{}.{key} is not a field of the schema", descriptor.name()));
        };
        if value.is_null() && !holds_null(&field) {
            return Some(format!("{}.{key} is null", descriptor.name()));
        }
        let items: Vec<&Value> = match value {
            Value::Array(items) if field.is_list() => items.iter().collect(),
            Value::Object(entries) if field.is_map() => entries.values().collect(),
            value => vec![value],
        };
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        for item in items {
            let problem = match &kind {
                Kind::Message(inner) => walk(inner, item),
                Kind::Enum(_) if !item.is_string() => Some(format!("{key} is {item}, not a name")),
                _ => None,
            };
            if problem.is_some() {
                return problem;
            }
        }
    }
    if let Some(problem) = unfit(descriptor.name(), value) {
        return Some(problem);
    }
    let missing = descriptor.fields().find(|field| is_required(field) && !object.contains_key(field.json_name()));
    missing.map(|field| format!("{}.{} is missing", descriptor.name(), field.json_name()))
}

/// Checks rules of the protocol that are not in the schema: every artifact has parts, every part content, and every
/// message of the agent an id, a context and parts.
fn unfit(name: &str, value: &Value) -> Option<String> {
    let has = |key: &str| match &value[key] {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        other => !other.is_null(),
    };
    let needed: &[&str] = match name {
        "Artifact" => &["artifactId", "parts"],
        "Message" if value["role"] == "ROLE_AGENT" => &["messageId", "contextId", "parts"],
        "Task" => &["id", "contextId", "status"],
        "TaskStatus" => &["state", "timestamp"],
        _ => &[],
    };
    if name == "Part"
        && ["text", "raw", "url"].iter().all(|key| value.get(key).is_none())
        && value.get("data").is_none()
    {
        return Some("a part without a content".to_owned());
    }
    if value.get("history").is_some_and(|history| *history == serde_json::json!([])) {
        return Some("an empty history must be absent".to_owned());
    }
    needed.iter().find(|key| !has(key)).map(|key| format!("{name}.{key} is empty"))
}

fn holds_null(field: &FieldDescriptor) -> bool {
    matches!(field.kind(), Kind::Message(message) if message.full_name() == "google.protobuf.Value")
}

/// Whether `google.api.field_behavior` says REQUIRED (2).
fn is_required(field: &FieldDescriptor) -> bool {
    let options = field.options();
    let behavior = POOL.get_extension_by_name("google.api.field_behavior").expect("the option");
    let values = options.get_extension(&behavior);
    values.as_list().is_some_and(|list| list.iter().any(|value| value.as_enum_number() == Some(2)))
}

fn is_utc(value: &Value) -> bool {
    let Some(text) = value.as_str().and_then(|text| text.strip_suffix('Z')) else { return false };
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    text.len() >= 19 && matches!(fraction.len(), 0 | 3 | 6 | 9)
}
