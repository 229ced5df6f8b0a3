//! Reading one table: typed values with defaults, and a problem for whatever does not fit.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::located::{Located, Table, Value};
use super::problem::{Origin, Problem};

/// What went wrong so far.
#[derive(Debug, Default)]
pub(super) struct Diagnostics(RefCell<Vec<Problem>>);

impl Diagnostics {
    pub(super) fn push(&self, origin: Origin, key: impl Into<String>, text: impl Into<String>) {
        self.0.borrow_mut().push(Problem { origin, key: key.into(), text: text.into() });
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.0.into_inner()
    }
}

/// One table being read. What was not asked for when it is [finished](Section::finish) is unknown.
pub(super) struct Section<'a> {
    diagnostics: &'a Diagnostics,
    path: String,
    origin: Origin,
    table: Table,
    /// Where each key that was read stood, for problems found later.
    origins: BTreeMap<&'static str, Origin>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn new(diagnostics: &'a Diagnostics, path: String, origin: Origin, table: Table) -> Self {
        Self { diagnostics, path, origin, table, origins: BTreeMap::new(), known: Vec::new() }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &'static str) -> Option<Located> {
        self.known.push(key);
        let node = self.table.remove(key)?;
        self.origins.insert(key, node.origin.clone());
        Some(node)
    }

    /// Whether the key is there; before it is read.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Reports a problem with a key: at the line where it stands, or at the table's if it is missing.
    pub(super) fn problem(&self, key: &str, text: impl Into<String>) {
        let origin = self.origins.get(key).unwrap_or(&self.origin).clone();
        self.diagnostics.push(origin, self.path_of(key), text);
    }

    /// Reads a value. `None` if it is missing or wrong; the latter is reported.
    pub(super) fn get<T>(&mut self, key: &'static str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        let node = self.take(key)?;
        match read(&node.value) {
            Ok(value) => Some(value),
            Err(text) => {
                self.problem(key, text);
                None
            }
        }
    }

    /// Reads a table within; an absent one is empty.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'a> {
        let path = self.path_of(key);
        let (origin, table) = match self.take(key) {
            None => (self.origin.clone(), Table::new()),
            Some(Located { origin, value: Value::Table(table) }) => (origin, table),
            Some(Located { origin, value }) => {
                self.problem(key, format!("takes a table, not {}", value.kind()));
                (origin, Table::new())
            }
        };
        Section::new(self.diagnostics, path, origin, table)
    }

    /// Reads a list of tables. `None` if it is missing or wrong; the latter is reported.
    pub(super) fn sections(&mut self, key: &'static str) -> Option<Vec<Section<'a>>> {
        let path = self.path_of(key);
        let items = match self.take(key) {
            None => return None,
            Some(Located { value: Value::List(items), .. }) => items,
            Some(Located { value, .. }) => {
                self.problem(key, format!("takes a list of tables ([[{path}]]), not {}", value.kind()));
                return None;
            }
        };
        let mut sections = Vec::new();
        for (i, Located { origin, value }) in items.into_iter().enumerate() {
            let path = format!("{path}[{i}]");
            match value {
                Value::Table(table) => sections.push(Section::new(self.diagnostics, path, origin, table)),
                other => self.diagnostics.push(origin, path, format!("takes a table, not {}", other.kind())),
            }
        }
        Some(sections)
    }

    /// Reads a table of values whose keys are free within what `is_name` says; an absent one is empty.
    pub(super) fn entries<T>(
        &mut self,
        key: &'static str,
        is_name: impl Fn(&str) -> Result<(), String>,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> BTreeMap<String, T> {
        let path = self.path_of(key);
        let table = match self.take(key) {
            None => return BTreeMap::new(),
            Some(Located { value: Value::Table(table), .. }) => table,
            Some(Located { value, .. }) => {
                self.problem(key, format!("takes a table, not {}", value.kind()));
                return BTreeMap::new();
            }
        };
        let mut entries = BTreeMap::new();
        for (name, node) in table {
            match is_name(&name).and_then(|()| read(&node.value)) {
                Ok(value) => {
                    entries.insert(name, value);
                }
                Err(text) => self.diagnostics.push(node.origin, format!("{path}.{name}"), text),
            }
        }
        entries
    }

    /// Reads a value that must be there.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(key) {
            self.problem(key, "is missing");
        }
        self.get(key, read)
    }

    /// A table that no file holds, under the same diagnostics.
    pub(super) fn inline(&self, path: &str, table: Table) -> Section<'a> {
        Section::new(self.diagnostics, path.to_owned(), Origin::Nowhere, table)
    }

    /// Names keys that are known even when nothing asked for them.
    pub(super) fn know(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Reports the keys that nothing asked for, with the nearest that something did.
    pub(super) fn finish(self) {
        for (key, node) in &self.table {
            let near = self
                .known
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, key), *known))
                .filter(|(distance, known)| *distance <= known.len().max(key.len()) / 2)
                .min();
            let text = match near {
                Some((_, known)) => format!("unknown key; did you mean {:?}?", self.path_of(known)),
                None => format!("unknown key; known here: {}", self.known.join(", ")),
            };
            self.diagnostics.push(node.origin.clone(), self.path_of(key), text);
        }
    }
}

/// Reads a string that is not empty.
pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(text) | Value::Loose(text) if text.trim().is_empty() => Err("must not be empty".to_owned()),
        Value::Text(text) | Value::Loose(text) => Ok(text.clone()),
        other => Err(format!("takes a string, not {}", other.kind())),
    }
}

/// Reads a string by a function that says what is wrong with it.
pub(super) fn parsed<T>(parse: impl Fn(&str) -> Result<T, String>) -> impl Fn(&Value) -> Result<T, String> {
    move |value| text(value).and_then(|text| parse(&text))
}

/// Reads one of a few words.
pub(super) fn choice<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Value) -> Result<T, String> {
    move |value| {
        let text = text(value)?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("{text:?} is none of {}", words.join(", "))
        })
    }
}

/// Reads `true` or `false`.
pub(super) fn boolean(value: &Value) -> Result<bool, String> {
    match value {
        Value::Boolean(value) => Ok(*value),
        Value::Loose(text) => text.parse().map_err(|_| format!("takes true or false, not {text:?}")),
        other => Err(format!("takes true or false, not {}", other.kind())),
    }
}

/// Reads a whole number from 1 to 2^32-1.
pub(super) fn count(value: &Value) -> Result<u32, String> {
    let wrong = |what: &str| format!("takes a whole number from 1 to {}, not {what}", u32::MAX);
    let number = match value {
        Value::Integer(number) => u32::try_from(*number).map_err(|_| wrong(&number.to_string()))?,
        Value::Loose(text) => text.parse().map_err(|_| wrong(text))?,
        other => return Err(wrong(other.kind())),
    };
    if number == 0 { Err(wrong("0")) } else { Ok(number) }
}

/// Reads a size in bytes, above 0.
pub(super) fn size(value: &Value) -> Result<u64, String> {
    let size = match value {
        Value::Integer(number) => u64::try_from(*number).map_err(|_| format!("{number} is no size"))?,
        Value::Text(text) | Value::Loose(text) => super::value::size(text)?,
        other => return Err(format!("takes a size such as \"64MiB\", not {}", other.kind())),
    };
    if size == 0 { Err("must be above 0".to_owned()) } else { Ok(size) }
}

/// Reads a list of strings that are not empty. From the environment: a TOML list.
pub(super) fn texts(value: &Value) -> Result<Vec<String>, String> {
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
        other => Err(format!("takes a list of strings, not {}", other.kind())),
    }
}
