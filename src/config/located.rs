//! The configuration before it is understood: tables, lists and values, each with where it was written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Origin, Problem};

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(super) struct Located {
    pub(super) origin: Origin,
    pub(super) value: Value,
}

/// What TOML knows, and text from outside of it.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Located>),
    Table(Table),
    /// A float, a date or an integer out of range: nothing that any key takes.
    Other(&'static str),
    /// Text of the environment or of a flag: read as whatever the key takes.
    Loose(String),
}

/// Values by key.
pub(super) type Table = BTreeMap<String, Located>;

impl Value {
    /// What it is, for people.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) | Value::Loose(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Boolean(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }
}

/// Reads TOML. Where the text is broken the rest is still read, so that all problems show at once.
pub(super) fn parse(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Table {
    let source = Source { path: path.into(), lines: line_starts(text) };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let origin = source.origin(error.span().unwrap_or(0..0));
        problems.push(Problem { origin, key: String::new(), text: format!("not TOML: {}", error.message()) });
    }
    source.table(table.into_inner())
}

/// Puts a value from outside the file at a path of keys, over what the file says. Fails with the key that is no table.
pub(super) fn overlay(table: &mut Table, path: &[&str], node: Located) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else { return Ok(()) };
    if rest.is_empty() {
        table.insert((*key).to_owned(), node);
        return Ok(());
    }
    let origin = node.origin.clone();
    let child = table.entry((*key).to_owned()).or_insert(Located { origin, value: Value::Table(Table::new()) });
    match &mut child.value {
        Value::Table(table) => overlay(table, rest, node),
        _ => Err((*key).to_owned()),
    }
}

struct Source {
    path: Arc<Path>,
    lines: Vec<usize>,
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

impl Source {
    fn origin(&self, span: Range<usize>) -> Origin {
        let line = self.lines.partition_point(|start| *start <= span.start);
        Origin::File(Arc::clone(&self.path), line)
    }

    fn table(&self, table: DeTable<'_>) -> Table {
        let node = |(key, value): (Spanned<_>, Spanned<_>)| {
            // The key's line, not the value's: of `[a.b]` and of `key = """` it is the one to look at.
            let origin = self.origin(key.span());
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            (key.into_owned(), Located { origin, value: self.value(value.into_inner()) })
        };
        table.into_iter().map(node).collect()
    }

    fn value(&self, value: DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Boolean(value) => Value::Boolean(value),
            DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
                .map_or(Value::Other("a whole number out of range"), Value::Integer),
            DeValue::Float(_) => Value::Other("a number with a point"),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Array(items) => Value::List(items.into_iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
        }
    }

    fn node(&self, item: Spanned<DeValue<'_>>) -> Located {
        Located { origin: self.origin(item.span()), value: self.value(item.into_inner()) }
    }
}
