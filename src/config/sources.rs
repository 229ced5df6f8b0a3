//! Merges the file, the environment and the flags into one checked [`Config`].
//!
//! A flag overrides an environment variable, which overrides the file, which overrides the default. The variable of a
//! key is `TRICORD_`, the section, two underscores and the key: `TRICORD_SERVER__LISTEN`, `TRICORD_SERVER__TLS__CERT`.
//! Agents are configured in the file or by a flag only.

use std::path::{Path, PathBuf};

use super::Config;
use crate::settings::located::{self, Located, Table, Value};
use crate::settings::problem::{Origin, Problem, Problems};
use crate::settings::{Diagnostics, Section};

/// The prefix of environment variables.
const PREFIX: &str = "TRICORD_";

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    file: Option<(PathBuf, String)>,
    environment: Vec<(String, String)>,
    flags: Vec<(&'static str, &'static [&'static str], String)>,
    agent: Option<(&'static str, Table)>,
}

impl Sources {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read as UTF-8 text.
    pub fn file(mut self, path: &Path) -> Result<Self, Problems> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let text = format!("cannot read {}: {error}", path.display());
            Problems(vec![Problem { origin: Origin::Nowhere, key: String::new(), text }])
        })?;
        self.file = Some((path.to_owned(), text));
        Ok(self)
    }

    /// Sets the text of the file. The path is only used in messages.
    #[must_use]
    pub fn text(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.file = Some((path.into(), text.into()));
        self
    }

    /// Adds environment variables. Those without the prefix are only used for secrets (`env:NAME`).
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Adds the environment of the process, without variables that are not UTF-8.
    #[must_use]
    pub fn process_environment(self) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.environment(std::env::vars_os().filter_map(text))
    }

    /// Adds a flag: its name for messages, the path of its key and its text.
    #[must_use]
    pub fn flag(mut self, flag: &'static str, path: &'static [&'static str], text: impl Into<String>) -> Self {
        self.flags.push((flag, path, text.into()));
        self
    }

    /// Sets a flag that configures the only agent: its kind and, for `exec`, the command.
    #[must_use]
    pub fn agent(mut self, flag: &'static str, kind: &str, command: Option<Vec<String>>) -> Self {
        let located = |value| Located { origin: Origin::Flag(flag), value };
        let mut table = Table::from([("kind".to_owned(), located(Value::Loose(kind.to_owned())))]);
        if let Some(command) = command {
            let items = command.into_iter().map(|word| located(Value::Text(word))).collect();
            table.insert("command".to_owned(), located(Value::List(items)));
        }
        self.agent = Some((flag, table));
        self
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// All problems that were found.
    pub fn load(self) -> Result<Config, Problems> {
        let mut broken = Vec::new();
        let mut table = match &self.file {
            Some((path, text)) => located::parse(path, text, &mut broken),
            None => Table::new(),
        };
        if !broken.is_empty() {
            // The meaning of a broken line is a guess, so only the syntax errors are reported.
            return Err(Problems(broken));
        }
        let diagnostics = Diagnostics::default();
        self.overlay(&mut table, &diagnostics);
        let env = |name: &str| self.environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        let config = Config::read(Section::root(&diagnostics, &env, table));
        let mut problems = diagnostics.into_problems();
        if problems.is_empty() {
            return Ok(config);
        }
        problems.sort_by_key(|p| p.line().unwrap_or(usize::MAX));
        Err(Problems(problems))
    }

    fn overlay(&self, table: &mut Table, diagnostics: &Diagnostics) {
        for (name, value) in &self.environment {
            // Variables without two underscores, such as TRICORD_URL, belong to flags.
            let Some(path) = name.strip_prefix(PREFIX).filter(|rest| rest.contains("__")) else { continue };
            let origin = Origin::Environment(name.clone());
            let path = path.to_ascii_lowercase();
            let path: Vec<&str> = path.split("__").collect();
            if path[0] == "agents" {
                diagnostics.push(origin, "", "agents cannot be configured in the environment: use the file or a flag");
                continue;
            }
            let located = Located { origin: origin.clone(), value: Value::Loose(value.clone()) };
            if let Err(key) = located::overlay(table, &path, located) {
                diagnostics.push(origin, path.join("."), format!("{key} is not a table"));
            }
        }
        for (flag, path, value) in &self.flags {
            let located = Located { origin: Origin::Flag(flag), value: Value::Loose(value.clone()) };
            // Fails only where the file has no table, which is reported when the section is read.
            let _ = located::overlay(table, path, located);
        }
        if let Some((flag, agent)) = &self.agent {
            let origin = Origin::Flag(flag);
            let item = Located { origin: origin.clone(), value: Value::Table(agent.clone()) };
            let list = Located { origin: origin.clone(), value: Value::List(vec![item]) };
            if let Some(old) = table.insert("agents".to_owned(), list) {
                let at = old.origin.to_string();
                let at = at.trim_end_matches(": ");
                diagnostics.push(
                    origin,
                    "agents",
                    format!("agents are also configured at {at}: use the file or the flag, not both"),
                );
            }
        }
    }
}
