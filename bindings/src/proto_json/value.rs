//! The JSON of `Struct`, `Value`, `ListValue` and `Empty`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::MAX_VALUE_DEPTH;
use super::depth::skip_value;
use super::fields::Refuse;
use crate::wkt::value::Kind;
use crate::wkt::{Empty, ListValue, Struct, Value};

/// Whole doubles below this are written as integers, which is the shortest form and has no `.0`.
const WHOLE_BELOW: f64 = 1e16;

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (key, value) in &self.fields {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Serialize for ListValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.values.len()))?;
        for value in &self.values {
            list.serialize_element(value)?;
        }
        list.end()
    }
}

impl Serialize for Value {
    /// Writes `null` for an unset value and for a number that JSON cannot represent.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.kind {
            None | Some(Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(Kind::BoolValue(value)) => serializer.serialize_bool(*value),
            Some(Kind::NumberValue(value)) => write_number(*value, serializer),
            Some(Kind::StringValue(value)) => serializer.serialize_str(value),
            Some(Kind::StructValue(value)) => value.serialize(serializer),
            Some(Kind::ListValue(value)) => value.serialize(serializer),
        }
    }
}

fn write_number<S: Serializer>(value: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value == 0.0 && value.is_sign_negative() {
        // Negative zero is the only whole number that no integer represents.
        if let Ok(text) = serde_json::from_str::<&serde_json::value::RawValue>("-0") {
            return text.serialize(serializer);
        }
    }
    if value.fract() == 0.0 && value.abs() < WHOLE_BELOW {
        serializer.serialize_i64(value as i64)
    } else if value.is_finite() {
        serializer.serialize_f64(value)
    } else {
        serializer.serialize_unit()
    }
}

impl Serialize for Empty {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_map(Some(0))?.end()
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members { level: 1 })
    }
}

impl<'de> Deserialize<'de> for ListValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements { level: 1 })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any { level: 1 }.deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Empty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nothing;

        impl<'de> Visitor<'de> for Nothing {
            type Value = Empty;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Empty, A::Error> {
                while map.next_key::<IgnoredAny>()?.is_some() {
                    skip_value(&mut map)?;
                }
                Ok(Empty {})
            }
        }

        deserializer.deserialize_map(Nothing)
    }
}

/// Reads any value. If it is an object or array, it is at `level`; the outermost is at 1.
#[derive(Clone, Copy)]
struct Any {
    level: usize,
}

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Kind::NullValue(0).into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Kind::BoolValue(value).into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Kind::NumberValue(value as f64).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Kind::NumberValue(value as f64).into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Kind::NumberValue(value).into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Kind::StringValue(value.to_owned()).into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Kind::StringValue(value).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        Members { level: self.level }.visit_map(map).map(|object| Kind::StructValue(object).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Value, A::Error> {
        Elements { level: self.level }.visit_seq(list).map(|list| Kind::ListValue(list).into())
    }
}

/// Reads an object at `level`.
struct Members {
    level: usize,
}

impl<'de> Visitor<'de> for Members {
    type Value = Struct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Struct, A::Error> {
        refuse_deeper(self.level)?;
        let mut fields = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if fields.contains_key(&key) {
                return map.next_value_seed(Refuse::because("given twice"));
            }
            let value = map.next_value_seed(Any { level: self.level + 1 })?;
            fields.insert(key, value);
        }
        Ok(Struct { fields })
    }
}

/// Reads an array at `level`.
struct Elements {
    level: usize,
}

impl<'de> Visitor<'de> for Elements {
    type Value = ListValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ListValue, A::Error> {
        refuse_deeper(self.level)?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Any { level: self.level + 1 })? {
            values.push(value);
        }
        Ok(ListValue { values })
    }
}

fn refuse_deeper<E: Error>(level: usize) -> Result<(), E> {
    if level > MAX_VALUE_DEPTH { Err(E::custom(TOO_DEEP)) } else { Ok(()) }
}

/// The error message for an object or array that is too deep.
pub(super) const TOO_DEEP: &str = "nested deeper than 30 levels";
