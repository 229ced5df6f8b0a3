//! The JSON format of each kind of field.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64_simd::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::depth::skip_value;
use super::fields::Refuse;

/// Writes and reads values of type `T` in one JSON format.
pub trait Format<T> {
    /// Writes a value.
    ///
    /// # Errors
    /// When the serializer fails.
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads a value.
    ///
    /// # Errors
    /// When the JSON is not a value in this format.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;

    /// Reads a value, or `None` where the JSON is `null`.
    ///
    /// # Errors
    /// When the JSON is neither `null` nor a value in this format.
    fn read_nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        Self: Sized,
    {
        deserializer.deserialize_option(Nullable::<Self, T>(PhantomData))
    }
}

/// A value together with the format to write it in.
pub struct As<'a, F, T>(&'a T, PhantomData<F>);

impl<'a, F, T> As<'a, F, T> {
    /// Pairs a value with its format.
    pub fn new(value: &'a T) -> Self {
        Self(value, PhantomData)
    }
}

impl<F: Format<T>, T> Serialize for As<'_, F, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        F::write(self.0, serializer)
    }
}

/// Reads a field's value: `None` where the JSON is `null` and the format has no null value.
pub(super) struct Read<F, T>(PhantomData<(F, T)>);

impl<F, T> Read<F, T> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, F: Format<T>, T> DeserializeSeed<'de> for Read<F, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        F::read_nullable(deserializer)
    }
}

/// Reads an element of a list or map, where `null` is not allowed.
struct Element<F, T>(PhantomData<(F, T)>);

impl<'de, F: Format<T>, T> DeserializeSeed<'de> for Element<F, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        F::read(deserializer)
    }
}

struct Nullable<F, T>(PhantomData<(F, T)>);

impl<'de, F: Format<T>, T> Visitor<'de> for Nullable<F, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        F::read(deserializer).map(Some)
    }
}

/// Skips the next value of a map.
///
/// # Errors
/// When it is not JSON.
pub fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    skip_value(map)
}

/// The format of strings, booleans and messages: what serde writes for the type.
pub struct Plain;

impl<T: Serialize + for<'a> Deserialize<'a>> Format<T> for Plain {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }
}

/// The format of `google.protobuf.Value`, which has `null` as a value.
pub struct Any;

impl Format<crate::wkt::Value> for Any {
    fn write<S: Serializer>(value: &crate::wkt::Value, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<crate::wkt::Value, D::Error> {
        Deserialize::deserialize(deserializer)
    }

    fn read_nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<crate::wkt::Value>, D::Error> {
        Deserialize::deserialize(deserializer).map(Some)
    }
}

/// The format of 32-bit integers: a number.
pub struct Number;

/// The format of 64-bit integers: a string, because many JSON readers hold every number as a double.
pub struct Quoted;

macro_rules! integers {
    ($($format:ident $type:ty: $write:expr;)*) => {$(
        impl Format<$type> for $format {
            fn write<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let write: fn(&$type, S) -> Result<S::Ok, S::Error> = $write;
                write(value, serializer)
            }

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let wide = deserializer.deserialize_any(Integer { quoted: true })?;
                <$type>::try_from(wide).map_err(|_| {
                    D::Error::custom(format_args!("{wide} is not between {} and {}", <$type>::MIN, <$type>::MAX))
                })
            }
        }
    )*};
}

integers! {
    Number i32: |value, serializer| serializer.serialize_i32(*value);
    Number u32: |value, serializer| serializer.serialize_u32(*value);
    Quoted i64: |value, serializer| serializer.collect_str(value);
    Quoted u64: |value, serializer| serializer.collect_str(value);
}

/// Reads a whole number in any JSON spelling (`100`, `1e2`, `100.0`), also inside a string.
struct Integer {
    quoted: bool,
}

impl Visitor<'_> for Integer {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E>(self, value: i64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<i128, E> {
        // No integer field can hold a number beyond 2^64. The conversion saturates, and the range check names the
        // limits.
        if value.fract() == 0.0 { Ok(value as i128) } else { Err(E::invalid_value(Unexpected::Float(value), &self)) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i128, E> {
        let number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if !self.quoted || !number || text.ends_with(|c: char| c.is_ascii_whitespace()) {
            return Err(E::invalid_value(Unexpected::Str(text), &self));
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = reader.deserialize_any(Integer { quoted: false }).ok().filter(|_| reader.end().is_ok());
        value.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// The names and numbers of an enum in the schema.
pub trait EnumNames {
    /// The enum's name.
    const NAME: &'static str;
    /// The names and numbers, in the schema's order.
    const VALUES: &'static [(&'static str, i32)];

    /// Returns the name of a number.
    fn name(number: i32) -> Option<&'static str> {
        Self::VALUES.iter().find(|(_, n)| *n == number).map(|(name, _)| *name)
    }

    /// Returns the number of a name.
    fn number(name: &str) -> Option<i32> {
        Self::VALUES.iter().find(|(n, _)| *n == name).map(|(_, number)| *number)
    }

    /// Returns the error message for a value that the schema does not have.
    fn unknown(value: impl fmt::Display) -> String {
        let names: Vec<_> = Self::VALUES.iter().map(|(name, _)| *name).collect();
        format!("{value} is not a {}; expected one of {}", Self::NAME, names.join(", "))
    }
}

/// The format of enums: the name, or the number itself where the schema has no name for it.
pub struct Enum<E>(PhantomData<E>);

impl<E: EnumNames> Format<i32> for Enum<E> {
    fn write<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        match E::name(*value) {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_i32(*value),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        deserializer.deserialize_any(Self(PhantomData))
    }
}

impl<E: EnumNames> Visitor<'_> for Enum<E> {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name or number of a {}", E::NAME)
    }

    fn visit_str<X: Error>(self, name: &str) -> Result<i32, X> {
        E::number(name).ok_or_else(|| X::custom(E::unknown(format_args!("{name:?}"))))
    }

    fn visit_i64<X: Error>(self, number: i64) -> Result<i32, X> {
        let known = i32::try_from(number).ok().filter(|n| E::name(*n).is_some());
        known.ok_or_else(|| X::custom(E::unknown(number)))
    }

    fn visit_u64<X: Error>(self, number: u64) -> Result<i32, X> {
        let known = i32::try_from(number).ok().filter(|n| E::name(*n).is_some());
        known.ok_or_else(|| X::custom(E::unknown(number)))
    }
}

/// The format of bytes: base64, written in the standard alphabet with padding and read in either alphabet, padded or
/// not.
pub struct Base64;

macro_rules! base64 {
    ($($type:ty),*) => {$(
        impl Format<$type> for Base64 {
            fn write<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&STANDARD.encode_to_string(value))
            }

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                deserializer.deserialize_str(Base64).map(<$type>::from)
            }
        }
    )*};
}

base64!(Bytes, Vec<u8>);

impl Visitor<'_> for Base64 {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        let url = memchr::memchr2(b'-', b'_', text.as_bytes()).is_some();
        let codec = match (url, text.ends_with('=')) {
            (false, true) => STANDARD,
            (false, false) => STANDARD_NO_PAD,
            (true, true) => URL_SAFE,
            (true, false) => URL_SAFE_NO_PAD,
        };
        codec.decode_to_vec(text).map_err(|_| E::custom("not base64"))
    }
}

/// The format of lists.
pub struct List<F>(PhantomData<F>);

impl<F: Format<T>, T> Format<Vec<T>> for List<F> {
    fn write<S: Serializer>(value: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(value.len()))?;
        for element in value {
            list.serialize_element(&As::<F, T>::new(element))?;
        }
        list.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(Elements::<F, T>(PhantomData))
    }
}

struct Elements<F, T>(PhantomData<(F, T)>);

impl<'de, F: Format<T>, T> Visitor<'de> for Elements<F, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element_seed(Element::<F, T>(PhantomData))? {
            elements.push(element);
        }
        Ok(elements)
    }
}

/// The format of maps with string keys.
pub struct Map<F>(PhantomData<F>);

impl<F: Format<T>, T> Format<BTreeMap<String, T>> for Map<F> {
    fn write<S: Serializer>(value: &BTreeMap<String, T>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(value.len()))?;
        for (key, value) in value {
            map.serialize_entry(key, &As::<F, T>::new(value))?;
        }
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error> {
        deserializer.deserialize_map(Entries::<F, T>(PhantomData))
    }
}

struct Entries<F, T>(PhantomData<(F, T)>);

impl<'de, F: Format<T>, T> Visitor<'de> for Entries<F, T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if entries.contains_key(&key) {
                return map.next_value_seed(Refuse::because("given twice"));
            }
            let value = map.next_value_seed(Element::<F, T>(PhantomData))?;
            entries.insert(key, value);
        }
        Ok(entries)
    }
}
