//! Query strings and path segments: split, decoded, and read into fields of a request.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde::de::{DeserializeOwned, IntoDeserializer, value::StrDeserializer};

use crate::Rpc;
use crate::error::{Error, Violation};
use crate::proto_json::{EnumNames, Format};

/// The parameters of a query string, decoded: `+` is a space, broken UTF-8 is replaced.
pub fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unquote(name), unquote(value))
    })
}

fn unquote(text: &str) -> Cow<'_, str> {
    if !text.contains(['+', '%']) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

/// A request whose fields can be set from text. Generated.
pub trait FromQuery {
    /// Sets the field of this name, in camelCase or as the schema has it. Requests that no query string can hold have no
    /// such field.
    ///
    /// # Errors
    /// A violation if the value is not one of the field.
    fn set(&mut self, name: &str, value: &str) -> Result<Set, Violation> {
        let _ = (name, value);
        Ok(Set::Unknown)
    }
}

/// What happened to a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// No field has this name.
    Unknown,
    /// The field with this index was set; it takes one value only.
    Once(u32),
    /// A value was added to a list.
    Added,
}

/// Reads a query string into a request. Unknown parameters are ignored.
///
/// # Errors
/// A violation for the first value that is not one of its field, or that is given twice, under the client's own spelling of
/// the name: the same as for a body that cannot be read.
pub fn read<R: FromQuery>(request: &mut R, query: &str) -> Result<(), Error> {
    if query.is_empty() {
        return Ok(());
    }
    let mut seen = 0_u128;
    for (name, value) in pairs(query) {
        match request.set(&name, &value) {
            Ok(Set::Once(index)) => {
                let bit = 1_u128.checked_shl(index).unwrap_or(0);
                if seen & bit != 0 {
                    return Err(Error::invalid(name, "given twice"));
                }
                seen |= bit;
            }
            Ok(Set::Added | Set::Unknown) => {}
            Err(violation) => return Err(Error::invalid(name, violation.description)),
        }
    }
    Ok(())
}

fn violation(field: impl Into<String>, description: impl Into<String>) -> Violation {
    Violation { field: field.into(), description: description.into() }
}

/// Reads a whole number in any spelling that JSON has for it, so that every binding accepts the same ones.
///
/// # Errors
/// A violation of `field` that says what was expected.
pub fn parse_whole<F: Format<T>, T>(field: &str, value: &str) -> Result<T, Violation> {
    let reader: StrDeserializer<'_, serde::de::value::Error> = value.into_deserializer();
    F::read(reader).map_err(|error| violation(field, error.to_string()))
}

/// Reads anything that Rust reads from text.
///
/// # Errors
/// A violation of `field` that says what was `expected`.
pub fn parse<T: std::str::FromStr>(field: &str, value: &str, expected: &str) -> Result<T, Violation> {
    value.parse().map_err(|_| violation(field, format!("expected {expected}, found {}", shown(value))))
}

/// Reads an enum's name or number, out of those that the schema knows. A number is written as in JSON: no sign `+`, no
/// zeros in front.
///
/// # Errors
/// A violation of `field` that lists the names.
pub fn parse_enum<E: EnumNames>(field: &str, value: &str) -> Result<i32, Violation> {
    let number = serde_json::from_str::<i32>(value).ok().filter(|_| value.trim() == value);
    let known = E::number(value).or(number.filter(|number| E::name(*number).is_some()));
    known.ok_or_else(|| violation(field, E::unknown(shown(value))))
}

/// Reads what JSON writes as a string, such as a timestamp.
///
/// # Errors
/// A violation of `field` with what the type's own reader said.
pub fn parse_json_string<T: DeserializeOwned>(field: &str, value: &str) -> Result<T, Violation> {
    let reader: StrDeserializer<'_, serde::de::value::Error> = value.into_deserializer();
    T::deserialize(reader).map_err(|error| violation(field, error.to_string()))
}

fn shown(value: &str) -> String {
    let start: String = value.chars().take(64).collect();
    format!("{start:?}")
}

/// The most segments that a path of a rule can have.
pub const MAX_SEGMENTS: usize = 8;

/// The path of a request, split as the HTTP rules need it.
#[derive(Debug)]
pub struct Path<'a> {
    segments: [Cow<'a, str>; MAX_SEGMENTS],
    len: usize,
    action: &'static str,
}

impl<'a> Path<'a> {
    /// Splits a raw path at `/`, cuts a known action after the last `:`, then decodes every segment: in this order, so that
    /// an encoded `/` or `:` is part of a value. One slash at the end is forgiven. `None` when no rule can match.
    pub fn split(raw: &'a str, actions: &[&'static str]) -> Option<Self> {
        let raw = raw.strip_prefix('/')?;
        let raw = raw.strip_suffix('/').unwrap_or(raw);
        let (raw, action) = match raw.rsplit_once(':') {
            Some((rest, last)) => match actions.iter().find(|action| **action == last) {
                Some(action) => (rest, *action),
                None => (raw, ""),
            },
            None => (raw, ""),
        };
        let mut path = Self { segments: Default::default(), len: 0, action };
        for segment in raw.split('/') {
            let slot = path.segments.get_mut(path.len)?;
            if segment.is_empty() {
                return None;
            }
            *slot = if segment.contains('%') {
                percent_decode_str(segment).decode_utf8().ok()?
            } else {
                Cow::Borrowed(segment)
            };
            path.len += 1;
        }
        Some(path)
    }

    /// The decoded segments, in an array of which the first [`Path::len`] count.
    pub fn segments(&self) -> [&str; MAX_SEGMENTS] {
        std::array::from_fn(|i| &*self.segments[i])
    }

    /// Returns the segments at these places under these names, decoded.
    pub fn into_variables<const N: usize>(mut self, named: [(&'static str, usize); N]) -> PathVariables<'a> {
        const { assert!(N <= MAX_VARIABLES, "a path has more variables than a route can hold") };
        let mut variables = PathVariables::default();
        for (variable, (name, at)) in variables.0.iter_mut().zip(named) {
            *variable = (name, std::mem::take(&mut self.segments[at]));
        }
        variables
    }

    /// How many segments there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The action, or nothing.
    pub fn action(&self) -> &'static str {
        self.action
    }
}

/// The most variables that a path can have.
pub const MAX_VARIABLES: usize = 4;

/// The variables of a path: names in the schema, and decoded values.
#[derive(Debug, Default)]
pub struct PathVariables<'a>([(&'static str, Cow<'a, str>); MAX_VARIABLES]);

impl PathVariables<'_> {
    /// Returns the variables in the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().take_while(|(name, _)| !name.is_empty()).map(|(name, value)| (*name, &**value))
    }

    /// Returns the value of the variable of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// What a verb and a path mean to a service.
#[derive(Debug)]
pub enum Route<'a> {
    /// An rpc.
    Rpc(HttpRoute<'a>),
    /// The path exists with other verbs: the value of `Allow`.
    OtherVerbs(&'static str),
    /// Nothing.
    NotFound,
}

/// How a request calls an rpc.
#[derive(Debug)]
pub struct HttpRoute<'a> {
    /// The rpc.
    pub rpc: &'static Rpc,
    /// Whether the request is read from the body; otherwise it is read from the query string.
    pub body: bool,
    /// What the path says.
    pub variables: PathVariables<'a>,
}

impl<'a> Route<'a> {
    /// Makes the route of an rpc. Generated code calls it.
    pub fn rpc(rpc: &'static Rpc, body: bool, variables: PathVariables<'a>) -> Self {
        Self::Rpc(HttpRoute { rpc, body, variables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto_json::Number;

    #[derive(Default)]
    struct Page {
        size: i32,
        state: i32,
        words: Vec<String>,
    }

    struct Switch;

    impl EnumNames for Switch {
        const NAME: &'static str = "Switch";
        const VALUES: &'static [(&'static str, i32)] = &[("OFF", 0), ("ON", 1)];
    }

    impl FromQuery for Page {
        fn set(&mut self, name: &str, value: &str) -> Result<Set, Violation> {
            Ok(match name {
                "pageSize" | "page_size" => {
                    self.size = parse_whole::<Number, i32>("pageSize", value)?;
                    Set::Once(0)
                }
                "state" => {
                    self.state = parse_enum::<Switch>("state", value)?;
                    Set::Once(1)
                }
                "words" => {
                    self.words.push(value.to_owned());
                    Set::Added
                }
                _ => Set::Unknown,
            })
        }
    }

    fn page(query: &str) -> Result<Page, Error> {
        let mut page = Page::default();
        read(&mut page, query)?;
        Ok(page)
    }

    #[test]
    fn both_spellings_are_read_and_unknown_names_ignored() {
        assert_eq!(page("pageSize=3&x=y&").unwrap().size, 3);
        assert_eq!(page("page_size=3").unwrap().size, 3);
        assert_eq!(page("state=ON").unwrap().state, 1);
        assert_eq!(page("state=1").unwrap().state, 1);
        assert_eq!(page("pageSize=1e2").unwrap().size, 100);
        assert_eq!(page("words=a+b&words=%2B%26").unwrap().words, ["a b", "+&"]);
    }

    #[test]
    fn the_first_bad_value_is_named_as_the_client_spelled_it() {
        for (query, field, text) in [
            ("page_size=x&state=FOO", "page_size", "whole number"),
            ("pageSize=+5", "pageSize", "whole number"),
            ("state=FOO", "state", "OFF, ON"),
            ("state=7", "state", "OFF, ON"),
            ("state=%2B1", "state", "OFF, ON"),
            ("state=1.0", "state", "OFF, ON"),
            ("pageSize=1&page_size=2", "page_size", "twice"),
        ] {
            let error = page(query).err().unwrap();
            let [violation] = error.field_violations() else { panic!("{query}: {error}") };
            assert_eq!(violation.field, field, "{query}");
            assert!(violation.description.contains(text), "{query}: {error}");
        }
    }

    fn split(raw: &str) -> Option<(Vec<String>, &'static str)> {
        let path = Path::split(raw, &["send", "cancel"])?;
        Some((path.segments()[..path.len()].iter().map(|s| (*s).to_owned()).collect(), path.action()))
    }

    #[test]
    fn a_path_is_split_before_it_is_decoded() {
        let owned = |segments: &[&str]| segments.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(split("/tasks/a:cancel"), Some((owned(&["tasks", "a"]), "cancel")));
        assert_eq!(split("/tasks/a%3Acancel"), Some((owned(&["tasks", "a:cancel"]), "")));
        assert_eq!(split("/tasks/a:b"), Some((owned(&["tasks", "a:b"]), "")));
        assert_eq!(split("/tasks/a%2Fb"), Some((owned(&["tasks", "a/b"]), "")));
        assert_eq!(split("/tasks/a+b%20c"), Some((owned(&["tasks", "a+b c"]), "")));
        assert_eq!(split("/tasks/"), Some((owned(&["tasks"]), "")));
        for none in ["/", "", "tasks", "//tasks", "/tasks//x", "/tasks/:cancel", "/1/2/3/4/5/6/7/8/9", "/%ff"] {
            assert_eq!(split(none), None, "{none}");
        }
    }
}
