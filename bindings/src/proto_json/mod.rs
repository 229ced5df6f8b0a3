//! ProtoJSON: reads JSON into messages with field paths in its errors, and supports the generated serde impls.
//!
//! Every generated message implements serde's `Serialize` and `Deserialize` through [`Fields`], with one [`Format`] for
//! each kind of field. `serde_json::to_writer` is enough to write one. Requests are read by [`decode`], which adds what
//! serde alone does not have: a limit on depth, and errors that name the field.
//!
//! Input is lenient where ProtoJSON says so (two spellings of a field, enum numbers, numbers in strings, `null` for an
//! absent field, unknown fields ignored). It is strict where two readers could understand different things: a key given
//! twice, two members of a oneof, unknown enum values. Output has one spelling: camelCase names, enum names, and
//! required fields always present.

mod depth;
mod fields;
mod format;
mod path;
mod timestamp;
mod validate;
mod value;

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::{Error, kinds};

pub(crate) use depth::end_of_string;
pub use fields::{Fields, deserialize, entry, member, optional, serialize, value};
pub use format::{Any, As, Base64, Enum, EnumNames, Format, List, Map, Number, Plain, Quoted, skip};
pub use path::At;
pub use timestamp::NotATimestamp;
pub use validate::{Findings, Validate, rules};

/// The most levels of nesting in the JSON of a request. The outermost object is the first level.
pub const MAX_JSON_DEPTH: usize = 64;

/// The most levels of nesting in a `Struct` or `Value`. Each object or array in it is a level. Protobuf needs three
/// messages for each level and its readers stop at a hundred, so deeper values could be stored but not read back.
pub const MAX_VALUE_DEPTH: usize = 30;

/// Reads a message from JSON.
///
/// # Errors
/// [`kinds::PARSE_ERROR`] when the bytes are not JSON in UTF-8. [`kinds::INVALID_PARAMS`] when the JSON does not fit
/// the message or nests deeper than [`MAX_JSON_DEPTH`]. The violation's path names the field in the client's own
/// spelling.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::new(&kinds::PARSE_ERROR, "the JSON is not UTF-8"))?;
    let (decoded, skipped) = depth::note_skipped(|| serde_json::from_str(text));
    // What is decoded nests less than the limit: messages do not contain themselves, and a `Value` has a limit of its own. So
    // the text is scanned for its depth only if decoding skipped a value, or failed.
    if (skipped || decoded.is_err()) && depth::nests_deeper_than(bytes, MAX_JSON_DEPTH) {
        // Without a violation: what is too deep may be in a field that is skipped, which has no path.
        let message = format!("the JSON is nested deeper than {MAX_JSON_DEPTH} levels");
        return Err(Error::new(&kinds::INVALID_PARAMS, message));
    }
    // Tracking the path is slow, so only a request that fails is read a second time, to find the field.
    decoded.map_err(|error| explain::<T>(text, &error))
}

fn explain<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> Error {
    if let Err(syntax) = serde_json::from_str::<IgnoredAny>(text) {
        return Error::new(&kinds::PARSE_ERROR, format!("not JSON: {syntax}"));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(found) => Error::invalid(path::render(found.path()), description(found.inner())),
        // Both passes follow the same rules, so this does not happen. If it did, the first error would still be
        // correct.
        Ok(_) => Error::invalid("", description(error)),
    }
}

/// Returns the error's text without the line and column, which mean nothing inside an envelope.
fn description(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    if text.ends_with(&place) {
        text.truncate(text.len() - place.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::depth::nests_deeper_than;
    use super::*;
    use crate::wkt::{Struct, Value};

    fn fails(json: &[u8]) -> Error {
        decode::<Struct>(json).expect_err("is refused")
    }

    #[test]
    fn text_that_is_not_json_is_a_parse_error() {
        for json in [&b""[..], b"{", b"{\"a\":1,}", b"{\"a\":1} x", b"\xff", b"{\"a\": nope}", b"5 x"] {
            assert_eq!(fails(json).kind().reason, "PARSE_ERROR", "{}", String::from_utf8_lossy(json));
        }
    }

    #[test]
    fn json_of_the_wrong_shape_is_invalid_params_even_before_a_syntax_error() {
        assert_eq!(fails(b"[1]").kind().reason, "INVALID_PARAMS");
        assert_eq!(fails(b"[1").kind().reason, "PARSE_ERROR");
    }

    #[test]
    fn a_number_beyond_the_range_of_doubles_is_refused_with_its_path() {
        let error = fails(br#"{"a":{"b c":[0,1e999]}}"#);
        assert_eq!(error.kind().reason, "INVALID_PARAMS");
        assert_eq!(error.field_violations()[0].field, r#"a["b c"][1]"#);
    }

    #[test]
    fn brackets_inside_strings_do_not_count_as_depth() {
        let quoted = format!(r#"{{"a":"{}\"{}"}}"#, "[".repeat(100), "{".repeat(100));
        assert!(decode::<Struct>(quoted.as_bytes()).is_ok());
        let wide = format!("[{}]", vec!["[]"; 100].join(","));
        assert!(decode::<Value>(wide.as_bytes()).is_ok());
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        assert!(nests_deeper_than(deep.as_bytes(), 64));
        assert!(!nests_deeper_than(deep.as_bytes(), 65));
        assert!(decode::<Value>(deep.as_bytes()).unwrap_err().message().contains("64"));
        // What is skipped counts too; an unknown field of a message is.
        let unknown = |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(decode::<crate::wkt::Empty>(unknown(63).as_bytes()).is_ok());
        let error = decode::<crate::wkt::Empty>(unknown(64).as_bytes()).unwrap_err();
        assert!(error.message().contains("64"), "{error}");
    }

    #[test]
    fn a_long_value_is_shortened_in_the_error() {
        let long = format!("\"{}\"", "ü".repeat(5000));
        let error = fails(long.as_bytes());
        assert!(error.field_violations()[0].description.len() <= 400);
    }
}
