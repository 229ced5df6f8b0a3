//! Values before they are interpreted: tables, lists and scalars, each with the place where it was written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Origin, Problem};

/// A value and the place where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) origin: Origin,
    pub(crate) value: Value,
}

/// A TOML value, or text from outside the file.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Located>),
    Table(Table),
    /// A float, a date or an integer out of range. No key accepts these; the text names the type for messages.
    Other(&'static str),
    /// Text from the environment or a flag. The key decides which type it is parsed as.
    Loose(String),
}

/// The values of a table by key.
pub(crate) type Table = BTreeMap<String, Located>;

impl Value {
    /// Returns the type's name for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) | Value::Loose(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Boolean(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(name) => name,
        }
    }
}

/// Parses TOML. Continues after a syntax error, so that all of them are reported at once.
pub(crate) fn parse(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Table {
    let source = TomlText { path: path.into(), lines: line_starts(text) };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let origin = source.origin(error.span().unwrap_or(0..0));
        problems.push(Problem { origin, key: String::new(), text: format!("invalid TOML: {}", error.message()) });
    }
    source.table(table.into_inner())
}

/// Sets a value from outside the file at a path of keys, replacing the file's.
///
/// # Errors
/// The key on the path whose value is not a table.
pub(crate) fn overlay(table: &mut Table, path: &[&str], value: Located) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else { return Ok(()) };
    if rest.is_empty() {
        table.insert((*key).to_owned(), value);
        return Ok(());
    }
    let origin = value.origin.clone();
    let child = table.entry((*key).to_owned()).or_insert(Located { origin, value: Value::Table(Table::new()) });
    match &mut child.value {
        Value::Table(table) => overlay(table, rest, value),
        _ => Err((*key).to_owned()),
    }
}

struct TomlText {
    path: Arc<Path>,
    lines: Vec<usize>,
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

impl TomlText {
    fn origin(&self, span: Range<usize>) -> Origin {
        let line = self.lines.partition_point(|start| *start <= span.start);
        Origin::File(Arc::clone(&self.path), line)
    }

    fn table(&self, table: DeTable<'_>) -> Table {
        let located = |(key, value): (Spanned<_>, Spanned<_>)| {
            // The line of the key, not of the value: for `[a.b]` and `key = """` it is the one a reader looks for.
            let origin = self.origin(key.span());
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            (key.into_owned(), Located { origin, value: self.value(value.into_inner()) })
        };
        table.into_iter().map(located).collect()
    }

    fn value(&self, value: DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Boolean(value) => Value::Boolean(value),
            DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
                .map_or(Value::Other("a whole number out of range"), Value::Integer),
            DeValue::Float(_) => Value::Other("a floating-point number"),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Array(items) => Value::List(items.into_iter().map(|item| self.located(item)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
        }
    }

    fn located(&self, item: Spanned<DeValue<'_>>) -> Located {
        Located { origin: self.origin(item.span()), value: self.value(item.into_inner()) }
    }
}
