//! Converts a JSON request to protobuf, if protobuf can express it. Uses the descriptors and not the server's own
//! reader, so that the two can disagree.

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value as Field};
use serde_json::Value;
use tricord_bindings::wkt::Timestamp;

/// Returns the bytes of a request message, or `None` if protobuf cannot express the JSON: a value of a wrong type, an
/// unknown name, a field given twice.
pub(crate) fn encode(pool: &DescriptorPool, request: &str, json: &Value) -> Option<Vec<u8>> {
    let descriptor = pool.get_message_by_name(&format!("lf.a2a.v1.{request}"))?;
    Some(message(&descriptor, json)?.encode_to_vec())
}

fn message(descriptor: &MessageDescriptor, json: &Value) -> Option<DynamicMessage> {
    match descriptor.full_name() {
        "google.protobuf.Struct" => return object(descriptor, json),
        "google.protobuf.Value" => return any(descriptor, json),
        "google.protobuf.Timestamp" => {
            let at: Timestamp = json.as_str()?.parse().ok()?;
            return DynamicMessage::decode(descriptor.clone(), at.encode_to_vec().as_slice()).ok();
        }
        _ => {}
    }
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, value) in json.as_object()? {
        let named = descriptor.get_field_by_json_name(name).or_else(|| descriptor.get_field_by_name(name));
        let Some(field) = named else { continue };
        let of_any = field.kind().as_message().is_some_and(|m| m.full_name() == "google.protobuf.Value");
        let twice = message.has_field(&field)
            || descriptor.fields().any(|other| {
                other != field
                    && other.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic())
                    && other.containing_oneof() == field.containing_oneof()
                    && message.has_field(&other)
            });
        let both = name == field.json_name() && field.name() != name && json.get(field.name()).is_some();
        if both || (twice && (of_any || !value.is_null())) {
            return None;
        }
        if !value.is_null() || of_any {
            message.set_field(&field, of_field(&field, value)?);
        }
    }
    Some(message)
}

fn of_field(field: &FieldDescriptor, json: &Value) -> Option<Field> {
    if field.is_map() {
        // No request has a field of this type.
        return None;
    }
    if field.is_list() {
        return json.as_array()?.iter().map(|element| single(field, element)).collect::<Option<_>>().map(Field::List);
    }
    single(field, json)
}

fn single(field: &FieldDescriptor, json: &Value) -> Option<Field> {
    Some(match field.kind() {
        Kind::String => Field::String(json.as_str()?.to_owned()),
        Kind::Bool => Field::Bool(json.as_bool()?),
        Kind::Int32 => Field::I32(integer(json)?),
        Kind::Bytes => Field::Bytes(bytes(json.as_str()?)?.into()),
        Kind::Enum(kind) => Field::EnumNumber(match json {
            Value::String(name) => kind.get_value_by_name(name)?.number(),
            number => number.as_i64()?.try_into().ok()?,
        }),
        Kind::Message(inner) => Field::Message(message(&inner, json)?),
        other => panic!("{}: the schema has no {other:?} in requests yet", field.full_name()),
    })
}

/// Reads a whole number in any JSON spelling, also inside a string.
fn integer(json: &Value) -> Option<i32> {
    let number = match json {
        Value::String(text) if text.trim() != text => return None,
        Value::String(text) => serde_json::from_str::<serde_json::Number>(text).ok()?.as_f64()?,
        json => json.as_f64()?,
    };
    let fits = number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
    fits.then_some(number as i32)
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    use base64_simd::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
    [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].iter().find_map(|codec| codec.decode_to_vec(text).ok())
}

fn inner(descriptor: &MessageDescriptor, name: &str) -> Option<MessageDescriptor> {
    descriptor.get_field_by_name(name)?.kind().as_message().cloned()
}

fn object(descriptor: &MessageDescriptor, json: &Value) -> Option<DynamicMessage> {
    let mut message = DynamicMessage::new(descriptor.clone());
    let fields = descriptor.get_field_by_name("fields")?;
    let value = inner(fields.kind().as_message()?, "value")?;
    let entries = json.as_object()?.iter();
    let entries = entries
        .map(|(key, inner)| Some((prost_reflect::MapKey::String(key.clone()), Field::Message(any(&value, inner)?))));
    message.set_field(&fields, Field::Map(entries.collect::<Option<_>>()?));
    Some(message)
}

fn any(descriptor: &MessageDescriptor, json: &Value) -> Option<DynamicMessage> {
    let mut message = DynamicMessage::new(descriptor.clone());
    match json {
        Value::Null => message.set_field_by_name("null_value", Field::EnumNumber(0)),
        Value::Bool(value) => message.set_field_by_name("bool_value", Field::Bool(*value)),
        Value::Number(value) => message.set_field_by_name("number_value", Field::F64(value.as_f64()?)),
        Value::String(value) => message.set_field_by_name("string_value", Field::String(value.clone())),
        Value::Object(_) => {
            let value = object(&inner(descriptor, "struct_value")?, json)?;
            message.set_field_by_name("struct_value", Field::Message(value));
        }
        Value::Array(list) => {
            let mut values = DynamicMessage::new(inner(descriptor, "list_value")?);
            let elements = list.iter().map(|element| any(descriptor, element).map(Field::Message));
            values.set_field_by_name("values", Field::List(elements.collect::<Option<_>>()?));
            message.set_field_by_name("list_value", Field::Message(values));
        }
    }
    Some(message)
}
