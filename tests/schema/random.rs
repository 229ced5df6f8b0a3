//! Generates random messages of any type from its descriptor. The same seed gives the same message.

use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value};

use crate::codec::required;
pub(crate) use crate::numbers::Random;

/// Returns a message that every binding can carry: known enum values, timestamps in range, set values, finite numbers.
pub(crate) fn message(descriptor: &MessageDescriptor, random: &mut Random) -> DynamicMessage {
    made(descriptor, random, false)
}

/// Returns such a message in which every required message is set and every oneof has a member.
pub(crate) fn complete(descriptor: &MessageDescriptor, random: &mut Random) -> DynamicMessage {
    made(descriptor, random, true)
}

fn made(descriptor: &MessageDescriptor, random: &mut Random, complete: bool) -> DynamicMessage {
    let message = any(descriptor, random, complete);
    // In protobuf, a field with its default value and an unset field are the same.
    DynamicMessage::decode(descriptor.clone(), message.encode_to_vec().as_slice()).expect("it is protobuf")
}

fn any(descriptor: &MessageDescriptor, random: &mut Random, complete: bool) -> DynamicMessage {
    match descriptor.full_name() {
        "google.protobuf.Timestamp" => timestamp(descriptor, random),
        "google.protobuf.Struct" => object(descriptor, random, 3),
        "google.protobuf.Value" => value(descriptor, random, 3),
        _ => plain(descriptor, random, complete),
    }
}

fn plain(descriptor: &MessageDescriptor, random: &mut Random, complete: bool) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let needed = complete && (required(&field) || field.containing_oneof().is_some());
        // Setting a member of a oneof replaces the one that was set before.
        if needed || random.below(3) > 0 {
            message.set_field(&field, field_value(&field, random, complete));
        }
    }
    message
}

fn field_value(field: &FieldDescriptor, random: &mut Random, complete: bool) -> Value {
    if field.is_map() {
        let entry = field.kind().as_message().expect("a map has entries").map_entry_value_field();
        let entries = (0..random.below(3)).map(|_| (MapKey::String(text(random)), single(&entry, random, complete)));
        return Value::Map(entries.collect());
    }
    if field.is_list() {
        return Value::List((0..random.below(3)).map(|_| single(field, random, complete)).collect());
    }
    single(field, random, complete)
}

fn single(field: &FieldDescriptor, random: &mut Random, complete: bool) -> Value {
    match field.kind() {
        Kind::String => Value::String(text(random)),
        Kind::Bool => Value::Bool(random.below(2) == 0),
        Kind::Int32 => Value::I32(random.pick(&[0, 1, -1, 50, i32::MAX, i32::MIN])),
        Kind::Bytes => {
            let length = random.below(9);
            Value::Bytes((0..length).map(|_| random.next() as u8).collect::<Vec<u8>>().into())
        }
        Kind::Enum(kind) => Value::EnumNumber(random.pick(&kind.values().map(|v| v.number()).collect::<Vec<_>>())),
        Kind::Message(inner) => Value::Message(any(&inner, random, complete)),
        other => panic!("{}: the schema has no {other:?} yet", field.full_name()),
    }
}

fn text(random: &mut Random) -> String {
    let pieces =
        ["", "a", "hello", "\"", "\\", "/", "\n\r\t", "\0\u{1f}", "é", "漢字", "🦀", "\u{2028}", "</script>", " "];
    (0..random.below(4)).map(|_| random.pick(&pieces)).collect()
}

fn timestamp(descriptor: &MessageDescriptor, random: &mut Random) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    let seconds = random.pick(&[-62_135_596_800, -1, 0, 951_782_400, 1_761_647_400, 253_402_300_799]);
    let nanos = random.pick(&[0, 1, 1_000, 142_857_000, 5_000_000, 999_999_999]);
    message.set_field_by_name("seconds", Value::I64(seconds));
    message.set_field_by_name("nanos", Value::I32(nanos));
    message
}

fn object(descriptor: &MessageDescriptor, random: &mut Random, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    let entry = descriptor.get_field_by_name("fields").expect("a Struct has fields");
    let kind = entry.kind().as_message().expect("a map has entries").map_entry_value_field().kind();
    let kind = kind.as_message().expect("the fields are Values");
    let members = (0..random.below(4))
        .map(|_| (MapKey::String(text(random)), Value::Message(value(kind, random, depth))))
        .collect();
    message.set_field(&entry, Value::Map(members));
    message
}

fn value(descriptor: &MessageDescriptor, random: &mut Random, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    let inner = |name: &str| {
        let field = message.descriptor().get_field_by_name(name).expect("a Value has this member");
        field.kind().as_message().expect("it is a message").clone()
    };
    let (object_type, list_type) = (inner("struct_value"), inner("list_value"));
    match random.below(if depth == 0 { 4 } else { 6 }) {
        0 => message.set_field_by_name("null_value", Value::EnumNumber(0)),
        1 => message.set_field_by_name("bool_value", Value::Bool(random.below(2) == 0)),
        2 => message.set_field_by_name("string_value", Value::String(text(random))),
        3 => message.set_field_by_name("number_value", Value::F64(number(random))),
        4 => {
            let object = object(&object_type, random, depth - 1);
            message.set_field_by_name("struct_value", Value::Message(object));
        }
        _ => {
            let mut list = DynamicMessage::new(list_type);
            let values = (0..random.below(4)).map(|_| Value::Message(value(descriptor, random, depth - 1))).collect();
            list.set_field_by_name("values", Value::List(values));
            message.set_field_by_name("list_value", Value::Message(list));
        }
    }
    message
}

fn number(random: &mut Random) -> f64 {
    let known = [0.0, 3.0, 0.1, -1.5, 1e15, 1e16, 1e21, 9_007_199_254_740_992.0, f64::MAX, f64::MIN_POSITIVE, 5e-324];
    if random.below(2) == 0 {
        return random.pick(&known);
    }
    let any = f64::from_bits(random.next());
    if any.is_finite() { any } else { 1.0 }
}
