//! Reads single values: each function takes a value and returns what it means, or what is wrong with it.

use super::located::Value;
use super::value;

/// Reads a string that is not empty.
pub(crate) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(text) | Value::Loose(text) if text.trim().is_empty() => Err("must not be empty".to_owned()),
        Value::Text(text) | Value::Loose(text) => Ok(text.clone()),
        other => Err(format!("takes a string, not {}", other.type_name())),
    }
}

/// Reads a string that is not empty with a function that parses it.
pub(crate) fn parsed<T>(parse: impl Fn(&str) -> Result<T, String>) -> impl Fn(&Value) -> Result<T, String> {
    move |value| text(value).and_then(|text| parse(&text))
}

/// Reads one of a few words.
pub(crate) fn choice<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Value) -> Result<T, String> {
    move |value| {
        let text = text(value)?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("takes one of {}, not {text:?}", words.join(", "))
        })
    }
}

/// Reads `true` or `false`.
pub(crate) fn boolean(value: &Value) -> Result<bool, String> {
    match value {
        Value::Boolean(value) => Ok(*value),
        Value::Loose(text) => text.parse().map_err(|_| format!("takes true or false, not {text:?}")),
        other => Err(format!("takes true or false, not {}", other.type_name())),
    }
}

/// Reads a whole number from 1 to 2^32-1.
pub(crate) fn count(value: &Value) -> Result<u32, String> {
    let wrong = |found: &str| format!("takes a whole number from 1 to {}, not {found}", u32::MAX);
    let number = match value {
        Value::Integer(number) => u32::try_from(*number).map_err(|_| wrong(&number.to_string()))?,
        Value::Loose(text) => text.parse().map_err(|_| wrong(text))?,
        other => return Err(wrong(other.type_name())),
    };
    if number == 0 { Err(wrong("0")) } else { Ok(number) }
}

/// Reads a size in bytes, above 0.
pub(crate) fn size(value: &Value) -> Result<u64, String> {
    let size = match value {
        Value::Integer(number) => u64::try_from(*number).map_err(|_| format!("takes a size above 0, not {number}"))?,
        Value::Text(text) | Value::Loose(text) => value::size(text)?,
        other => return Err(format!("takes a size such as \"64MiB\", not {}", other.type_name())),
    };
    if size == 0 { Err("takes a size above 0, not 0".to_owned()) } else { Ok(size) }
}

/// Reads a list of strings that are not empty. In the environment it is written as a TOML list.
pub(crate) fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::List(items) => items.iter().map(|item| text(&item.value)).collect(),
        Value::Loose(list) => {
            #[derive(serde::Deserialize)]
            struct Line {
                list: Vec<String>,
            }
            let line: Line = toml::from_str(&format!("list = {list}"))
                .map_err(|_| format!("takes a list such as [\"a\", \"b\"], not {list:?}"))?;
            Ok(line.list)
        }
        other => Err(format!("takes a list of strings, not {}", other.type_name())),
    }
}

/// Reads a list of media types. Parameters are allowed and not checked.
pub(crate) fn media_types(value: &Value) -> Result<Vec<String>, String> {
    let modes = texts(value)?;
    for mode in &modes {
        if tricord_bindings::media_type::parse(mode).is_none() {
            return Err(format!("{mode:?} is not a media type: write it like \"text/plain\""));
        }
    }
    Ok(modes)
}
