//! Request messages as the bindings see them: their scope, and the fields that a path sets.

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::proto_json::Validate;
use crate::query::FromQuery;
use crate::weight::Shape;

/// The request message of an rpc. Generated.
pub trait Request: prost::Message + Default + DeserializeOwned + Validate + FromQuery + 'static {
    /// The field that names the scope.
    const SCOPE: Scope;

    /// Which fields are messages.
    const SHAPE: &'static Shape;

    /// Returns the scope that the request names; empty for none.
    fn scope(&self) -> &str;

    /// Returns the field that names the scope, to be set.
    fn scope_mut(&mut self) -> &mut String;

    /// Returns the field of this name in the schema, and its JSON name, if a path of the request's rpcs can hold it.
    fn path_field(&mut self, name: &str) -> Option<(&'static str, &mut String)>;
}

/// The names of the scope field.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// The name in JSON.
    pub json: &'static str,
    /// The name in the schema.
    pub name: &'static str,
    /// The field number.
    pub number: u32,
}

/// Sets a field to what the path says. A request may repeat its path, but not contradict it.
///
/// # Errors
/// A violation of `name` if the field holds something else.
pub(crate) fn set_from_path(field: &mut String, name: &'static str, path: &str) -> Result<(), Error> {
    if field.is_empty() {
        path.clone_into(field);
    } else if field != path {
        return Err(Error::invalid(name, "differs from the path"));
    }
    Ok(())
}

/// Looks for the scope in JSON parameters that could not be read as a whole.
pub(crate) fn scope_in_json(scope: &Scope, json: &[u8]) -> String {
    use std::borrow::Cow;
    use std::collections::HashMap;

    let members: HashMap<Cow<'_, str>, &serde_json::value::RawValue> = serde_json::from_slice(json).unwrap_or_default();
    let found = members.get(scope.json).or_else(|| members.get(scope.name));
    found.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Looks for the scope in a query string that could not be read as a whole.
pub(crate) fn scope_in_query(scope: &Scope, query: &str) -> String {
    let found = crate::query::pairs(query).find(|(name, _)| *name == scope.json || *name == scope.name);
    found.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Looks for the scope in a protobuf message that could not be read as a whole, in the fields before the broken one.
pub(crate) fn scope_in_protobuf(scope: &Scope, mut message: &[u8]) -> String {
    use prost::encoding::{DecodeContext, WireType, decode_key, skip_field, string};

    let mut found = String::new();
    while let Ok((number, wire_type)) = decode_key(&mut message) {
        let read = if number == scope.number && wire_type == WireType::LengthDelimited {
            string::merge(wire_type, &mut found, &mut message, DecodeContext::default())
        } else {
            skip_field(wire_type, number, &mut message, DecodeContext::default())
        };
        if read.is_err() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope = Scope { json: "theScope", name: "the_scope", number: 4 };

    #[test]
    fn the_scope_of_unreadable_json_is_found_where_it_can_be() {
        assert_eq!(scope_in_json(&SCOPE, br#"{"a":5,"theScope":"x"}"#), "x");
        assert_eq!(scope_in_json(&SCOPE, br#"{"the_scope":"x\u0041"}"#), "xA");
        for none in [&br#"{"theScope":5}"#[..], b"[1]", b"\"x\"", b"{", b""] {
            assert_eq!(scope_in_json(&SCOPE, none), "");
        }
    }

    #[test]
    fn the_scope_of_an_unreadable_query_is_found_where_it_is() {
        assert_eq!(scope_in_query(&SCOPE, "a=x&theScope=b%20c&theScope=d"), "b c");
        assert_eq!(scope_in_query(&SCOPE, "the_scope=x"), "x");
        assert_eq!(scope_in_query(&SCOPE, "a=theScope"), "");
    }

    #[test]
    fn the_scope_of_an_unreadable_message_is_found_before_the_break() {
        let message = [8, 1, 34, 2, b'h', b'i', 0x1a, 200];
        assert_eq!(scope_in_protobuf(&SCOPE, &message), "hi");
        assert_eq!(scope_in_protobuf(&SCOPE, &message[..5]), "");
    }
}
