//! How much memory a request will take once it is decoded, judged before that.
//!
//! Two bytes of protobuf can be an empty message that takes hundreds, and so can two bytes of JSON. So a request is
//! scanned first: its values are counted against a limit, and their size is charged to the budget of requests.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// What a value takes at most, in bytes, in addition to its text: a slot in a list or map with room to grow, and a key.
const VALUE: usize = 128;

/// What an object or message takes at most, in bytes, in addition to its values.
const OBJECT: usize = 512;

/// The most levels that are looked into. Decoders stop before.
const MAX_DEPTH: usize = 128;

/// What a request holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    /// Members of objects, elements of lists, entries of maps: in JSON, what stands between commas; in protobuf, fields.
    pub values: usize,
    /// Objects and messages, lists too in JSON.
    pub objects: usize,
}

impl Weight {
    /// Returns what the values take when they are decoded, in bytes, without the bytes of texts and blobs.
    pub fn bytes(self) -> usize {
        self.values * VALUE + self.objects * OBJECT
    }

    /// Weighs JSON. That it is JSON is not checked.
    pub fn of_json(json: &[u8]) -> Self {
        let mut weight = Self::default();
        let mut at = 0;
        while let Some(byte) = json.get(at) {
            match byte {
                b'{' | b'[' => {
                    weight.values += 1;
                    weight.objects += 1;
                }
                b',' => weight.values += 1,
                b'"' => at = crate::proto_json::end_of_string(json, at + 1),
                _ => {}
            }
            at += 1;
        }
        weight
    }

    /// Weighs a message of this shape, up to where it cannot be read.
    pub fn of_protobuf(message: &[u8], shape: &'static Shape) -> Self {
        let mut weight = Self::default();
        weight.add(message, shape, 0);
        weight
    }

    fn add(&mut self, mut message: &[u8], shape: &'static Shape, depth: usize) {
        self.objects += usize::from(shape.is_counted);
        while let Ok((number, wire_type)) = decode_key(&mut message) {
            self.values += usize::from(shape.is_counted);
            let inner = shape.fields.iter().find(|(field, _)| *field == number).map(|(_, inner)| *inner);
            let Some(inner) = inner.filter(|_| wire_type == WireType::LengthDelimited && depth < MAX_DEPTH) else {
                if skip_field(wire_type, number, &mut message, DecodeContext::default()).is_err() {
                    return;
                }
                continue;
            };
            let length = decode_varint(&mut message).ok().and_then(|length| usize::try_from(length).ok());
            let Some((content, rest)) = length.and_then(|length| message.split_at_checked(length)) else { return };
            self.add(content, inner, depth + 1);
            message = rest;
        }
    }
}

/// Which fields of a message are messages. Generated, but for the well-known types.
#[derive(Debug)]
pub struct Shape {
    /// The fields that hold messages, by number.
    pub fields: &'static [(u32, &'static Shape)],
    /// Whether the message is an object of JSON. `Value` and the entries of maps are not: what they hold counts as part of
    /// what holds them.
    pub is_counted: bool,
}

impl Shape {
    /// The shape of a message without messages in it.
    pub const LEAF: Self = Self { fields: &[], is_counted: true };
}

/// `google.protobuf.Struct`.
pub static STRUCT: Shape = Shape { fields: &[(1, &ENTRY)], is_counted: true };
/// `google.protobuf.ListValue`.
pub static LIST_VALUE: Shape = Shape { fields: &[(1, &VALUE_SHAPE)], is_counted: true };
/// `google.protobuf.Value`.
pub static VALUE_SHAPE: Shape = Shape { fields: &[(5, &STRUCT), (6, &LIST_VALUE)], is_counted: false };
static ENTRY: Shape = Shape { fields: &[(2, &VALUE_SHAPE)], is_counted: false };

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::wkt::Value;

    /// Weighs a JSON value in both encodings.
    fn both(json: &str) -> (Weight, Weight) {
        let value: Value = serde_json::from_str(json).unwrap();
        (Weight::of_json(json.as_bytes()), Weight::of_protobuf(&value.encode_to_vec(), &VALUE_SHAPE))
    }

    #[test]
    fn json_and_protobuf_weigh_the_same() {
        for (json, values, objects) in [
            (r#"{"a":1}"#, 1, 1),
            (r#"{"a":"[,{","b":{"c":true}}"#, 3, 2),
            (r#"[1,"\"],",[2,3],{"a":null}]"#, 7, 3),
            (r#""text""#, 0, 0),
        ] {
            let expected = Weight { values, objects };
            assert_eq!(both(json), (expected, expected), "{json}");
        }
    }

    #[test]
    fn a_message_that_breaks_off_is_weighed_up_to_there() {
        let value: Value = serde_json::from_str(r#"{"a":1,"b":[1,2]}"#).unwrap();
        let bytes = value.encode_to_vec();
        for end in 0..bytes.len() {
            let weight = Weight::of_protobuf(&bytes[..end], &VALUE_SHAPE);
            assert!(weight.values <= 4, "{weight:?}");
        }
        // A length beyond the end.
        assert_eq!(Weight::of_protobuf(&[0x2a, 0xff, 0x7f], &VALUE_SHAPE), Weight::default());
    }

    #[test]
    fn what_a_value_takes_is_within_what_is_charged() {
        // A map of one entry has a node with room for eleven.
        let slot = size_of::<String>() + size_of::<Value>();
        assert!(11 * slot + 24 <= OBJECT + VALUE, "{slot}");
        assert!(2 * slot <= VALUE, "{slot}");
    }
}
