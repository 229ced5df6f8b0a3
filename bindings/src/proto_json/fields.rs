//! Reads and writes a message field by field. Every generated message uses these two loops.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserializer, Serializer};

use super::depth::skip_value;
use super::format::{As, Format, Read};

/// The generated description of a message. A field is known by its index in the schema's order, from 0 to 63.
pub trait Fields: Default {
    /// The message's name in the schema, used in error messages.
    const NAME: &'static str;

    /// Returns the index of the field with this name, in either spelling.
    fn index(name: &str) -> Option<u8>;

    /// Reads the next value of `map` into the field.
    ///
    /// # Errors
    /// When the value does not fit the field.
    fn read<'de, A: MapAccess<'de>>(&mut self, index: u8, map: &mut A) -> Result<(), A::Error>;

    /// Writes all fields that are set or always written.
    ///
    /// # Errors
    /// When the serializer fails.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Writes a message.
///
/// # Errors
/// When the serializer fails.
pub fn serialize<T: Fields, S: Serializer>(message: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    message.write(&mut map)?;
    map.end()
}

/// Writes one field.
///
/// # Errors
/// When the serializer fails.
pub fn entry<F: Format<T>, T, M: SerializeMap>(map: &mut M, name: &'static str, value: &T) -> Result<(), M::Error> {
    map.serialize_entry(name, &As::<F, T>::new(value))
}

/// Reads a message.
///
/// # Errors
/// When the JSON is not an object, a field has a value of the wrong type, or a field is given twice.
pub fn deserialize<'de, T: Fields, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(Object(PhantomData))
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Fields> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} object", T::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut message = T::default();
        let mut seen = 0_u64;
        while let Some(index) = map.next_key_seed(Key::<T>(PhantomData))? {
            let Some(index) = index else {
                skip_value(&mut map)?;
                continue;
            };
            let bit = 1_u64 << index;
            if seen & bit != 0 {
                // Raising the error while reading the value makes its path name the field.
                return map.next_value_seed(Refuse::because("given twice"));
            }
            seen |= bit;
            message.read(index, &mut map)?;
        }
        Ok(message)
    }
}

/// Reads a key as the index of its field, without keeping the text.
struct Key<T>(PhantomData<T>);

impl<'de, T: Fields> DeserializeSeed<'de> for Key<T> {
    type Value = Option<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<T: Fields> Visitor<'_> for Key<T> {
    type Value = Option<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a field name of {}", T::NAME)
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(T::index(name))
    }
}

/// Refuses the next value, whatever it is, with a reason. An error raised while reading a value has the field in its
/// path.
pub(super) struct Refuse<T>(&'static str, PhantomData<T>);

impl<T> Refuse<T> {
    pub(super) fn because(reason: &'static str) -> Self {
        Self(reason, PhantomData)
    }
}

impl<'de, T> DeserializeSeed<'de> for Refuse<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<T, D::Error> {
        Err(Error::custom(self.0))
    }
}

/// Reads the next value into a field; `null` leaves the field as it is.
///
/// # Errors
/// When the value has the wrong type.
pub fn value<'de, F, T, A>(map: &mut A, into: &mut T) -> Result<(), A::Error>
where
    F: Format<T>,
    A: MapAccess<'de>,
{
    if let Some(value) = map.next_value_seed(Read::<F, T>::new())? {
        *into = value;
    }
    Ok(())
}

/// Reads the next value into a field with presence; `null` leaves it unset.
///
/// # Errors
/// When the value has the wrong type.
pub fn optional<'de, F, T, A>(map: &mut A, into: &mut Option<T>) -> Result<(), A::Error>
where
    F: Format<T>,
    A: MapAccess<'de>,
{
    *into = map.next_value_seed(Read::<F, T>::new())?;
    Ok(())
}

/// Reads the next value into a member of a oneof; `null` sets nothing.
///
/// # Errors
/// When the value has the wrong type, or another member is already set.
pub fn member<'de, F, T, O, A>(map: &mut A, into: &mut Option<O>, wrap: fn(T) -> O) -> Result<(), A::Error>
where
    F: Format<T>,
    A: MapAccess<'de>,
{
    if let Some(value) = map.next_value_seed(Member::<F, T> { taken: into.is_some(), read: Read::new() })? {
        *into = Some(wrap(value));
    }
    Ok(())
}

/// Reads one member of a oneof, unless another one is already set.
struct Member<F, T> {
    taken: bool,
    read: Read<F, T>,
}

impl<'de, F: Format<T>, T> DeserializeSeed<'de> for Member<F, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        match self.read.deserialize(deserializer)? {
            Some(_) if self.taken => Err(Error::custom("another member of the same oneof is set")),
            value => Ok(value),
        }
    }
}
