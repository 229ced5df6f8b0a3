//! One table being read: takes keys one by one and reports what does not fit.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::located::{Located, Table, Value};
use super::problem::{Origin, Problem};

/// Looks up an environment variable.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(RefCell<Vec<Problem>>);

impl Diagnostics {
    pub(crate) fn push(&self, origin: Origin, key: impl Into<String>, text: impl Into<String>) {
        self.0.borrow_mut().push(Problem { origin, key: key.into(), text: text.into() });
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.0.into_inner()
    }
}

/// One table being read. Keys that were not read before [`finish`](Section::finish) are reported as unknown.
pub(crate) struct Section<'a> {
    diagnostics: &'a Diagnostics,
    environment: Environment<'a>,
    path: String,
    origin: Origin,
    table: Table,
    /// Where the keys that were read are written, for problems that are found later.
    origins: BTreeMap<&'static str, Origin>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Creates the root section of a configuration. `environment` resolves secrets of the form `env:NAME`.
    pub(crate) fn root(diagnostics: &'a Diagnostics, environment: Environment<'a>, table: Table) -> Self {
        Self {
            diagnostics,
            environment,
            path: String::new(),
            origin: Origin::Nowhere,
            table,
            origins: BTreeMap::new(),
            known: Vec::new(),
        }
    }

    /// Creates a section that no file holds and that reports to the same diagnostics.
    pub(crate) fn inline(&self, path: &str, table: Table) -> Section<'a> {
        self.child(path.to_owned(), Origin::Nowhere, table)
    }

    fn child(&self, path: String, origin: Origin, table: Table) -> Section<'a> {
        Section { path, origin, ..Section::root(self.diagnostics, self.environment, table) }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &'static str) -> Option<Located> {
        self.known.push(key);
        let located = self.table.remove(key)?;
        self.origins.insert(key, located.origin.clone());
        Some(located)
    }

    /// Returns the lookup of environment variables, for secrets.
    pub(crate) fn environment(&self) -> Environment<'a> {
        self.environment
    }

    /// Returns whether the key is present and was not read yet.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Reports a problem with a key, at the line of the key, or of the table if the key is missing.
    pub(crate) fn problem(&self, key: &str, text: impl Into<String>) {
        let origin = self.origins.get(key).unwrap_or(&self.origin).clone();
        self.diagnostics.push(origin, self.path_of(key), text);
    }

    /// Reads a value. Returns `None` if it is missing, or if it is wrong and was reported.
    pub(crate) fn get<T>(&mut self, key: &'static str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        let located = self.take(key)?;
        match read(&located.value) {
            Ok(value) => Some(value),
            Err(text) => {
                self.problem(key, text);
                None
            }
        }
    }

    /// Reads a value and reports it if it is missing.
    pub(crate) fn required<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(key) {
            self.problem(key, "is missing");
        }
        self.get(key, read)
    }

    /// Reads a table. A missing one is empty.
    pub(crate) fn section(&mut self, key: &'static str) -> Section<'a> {
        let path = self.path_of(key);
        let (origin, table) = match self.take(key) {
            None => (self.origin.clone(), Table::new()),
            Some(Located { origin, value: Value::Table(table) }) => (origin, table),
            Some(Located { origin, value }) => {
                self.problem(key, format!("takes a table, not {}", value.type_name()));
                (origin, Table::new())
            }
        };
        self.child(path, origin, table)
    }

    /// Reads a list of tables. Returns `None` if it is missing, or if it is wrong and was reported.
    pub(crate) fn sections(&mut self, key: &'static str) -> Option<Vec<Section<'a>>> {
        let path = self.path_of(key);
        let items = match self.take(key)? {
            Located { value: Value::List(items), .. } => items,
            Located { value, .. } => {
                self.problem(key, format!("takes a list of tables ([[{path}]]), not {}", value.type_name()));
                return None;
            }
        };
        let mut sections = Vec::new();
        for (i, Located { origin, value }) in items.into_iter().enumerate() {
            let path = format!("{path}[{i}]");
            match value {
                Value::Table(table) => sections.push(self.child(path, origin, table)),
                other => self.diagnostics.push(origin, path, format!("takes a table, not {}", other.type_name())),
            }
        }
        Some(sections)
    }

    /// Reads a table whose keys are chosen by the user and checked by `check_key`. A missing one is empty.
    pub(crate) fn entries<T>(
        &mut self,
        key: &'static str,
        check_key: impl Fn(&str) -> Result<(), String>,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> BTreeMap<String, T> {
        let path = self.path_of(key);
        let table = match self.take(key) {
            None => return BTreeMap::new(),
            Some(Located { value: Value::Table(table), .. }) => table,
            Some(Located { value, .. }) => {
                self.problem(key, format!("takes a table, not {}", value.type_name()));
                return BTreeMap::new();
            }
        };
        let mut entries = BTreeMap::new();
        for (name, located) in table {
            match check_key(&name).and_then(|()| read(&located.value)) {
                Ok(value) => {
                    entries.insert(name, value);
                }
                Err(text) => self.diagnostics.push(located.origin, format!("{path}.{name}"), text),
            }
        }
        entries
    }

    /// Adds keys to the known ones, for keys that are only read when they are present.
    pub(crate) fn know(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Reports the keys that were not read, each with the most similar known key.
    pub(crate) fn finish(self) {
        for (key, located) in &self.table {
            let similar = self
                .known
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, key), *known))
                .filter(|(distance, known)| *distance <= known.len().max(key.len()) / 2)
                .min();
            let text = match similar {
                Some((_, known)) => format!("unknown key; did you mean {:?}?", self.path_of(known)),
                None => format!("unknown key; known keys: {}", self.known.join(", ")),
            };
            self.diagnostics.push(located.origin.clone(), self.path_of(key), text);
        }
    }
}
