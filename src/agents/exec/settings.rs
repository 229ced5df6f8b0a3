//! The settings of an `exec` agent: their reader, their defaults and their checks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Exec;
use crate::agents::BoxAgent;
use crate::agents::kind::{BuiltAgent, CardDefaults, Kind, KindSettings};
use crate::settings::located::Value;
use crate::settings::read::{count, parsed, size, texts};
use crate::settings::section::Environment;
use crate::settings::{Secret, Section};

/// The kind `exec`.
pub(crate) static KIND: Kind = Kind {
    name: "exec",
    card: CardDefaults {
        description: "Runs a command",
        input_modes: &["text/plain", "application/json"],
        output_modes: &["text/plain"],
    },
    read: |section| Some(Arc::new(read(section)?)),
};

/// The command of an `exec` agent and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSettings {
    /// `command`: the program and its arguments.
    pub command: Vec<String>,
    /// `directory`: where the command runs; the server's own directory by default.
    pub directory: Option<PathBuf>,
    /// `environment`: variables that are set in addition to the few that the command inherits from the server.
    pub environment: BTreeMap<String, Secret>,
    /// `concurrency`: how many commands run at once. Further tasks wait in SUBMITTED.
    pub concurrency: u32,
    /// `max_line`: the longest line of output, in bytes. A longer one fails the task.
    pub max_line: u64,
    /// `max_output`: the most output of one run, in bytes. More fails the task.
    pub max_output: u64,
}

impl ExecSettings {
    /// Creates settings with the default limits: 64 commands at once, lines of 1 MiB, output of 16 MiB.
    pub fn new<W: Into<String>>(command: impl IntoIterator<Item = W>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            directory: None,
            environment: BTreeMap::new(),
            concurrency: 64,
            max_line: 1 << 20,
            max_output: 16 << 20,
        }
    }
}

impl KindSettings for ExecSettings {
    /// A cancelled command gets nine tenths of the agent's cancel grace, so that it ends before the run is cut off.
    fn build(&self, cancel_grace: Duration) -> Result<BuiltAgent, String> {
        let exec = Exec::new(self.clone(), cancel_grace.mul_f64(0.9)).map_err(|error| error.to_string())?;
        Ok(BoxAgent::new(exec).into())
    }
}

fn read(section: &mut Section<'_>) -> Option<ExecSettings> {
    if !section.has("command") {
        section.problem("command", "is missing: name a program, such as [\"python3\", \"agent.py\"]");
    }
    let environment = section.environment();
    let words = section.get("command", command);
    let default = ExecSettings::new(Vec::<String>::new());
    let directory = section.get("directory", parsed(directory));
    let environment = section.entries("environment", check_variable, |value| variable(value, environment));
    let concurrency = section.get("concurrency", count).unwrap_or(default.concurrency);
    let max_line = section.get("max_line", size).unwrap_or(default.max_line);
    let max_output = section.get("max_output", size).unwrap_or(default.max_output);
    Some(ExecSettings { command: words?, directory, environment, concurrency, max_line, max_output })
}

fn command(value: &Value) -> Result<Vec<String>, String> {
    if let Value::Text(line) = value {
        return Err(format!("takes a list, not a string: write [\"program\", \"argument\"] for {line:?}"));
    }
    match texts(value)? {
        words if words.is_empty() => Err("is empty: name a program".to_owned()),
        words if words.iter().any(|word| word.contains('\0')) => Err("contains a NUL character: remove it".to_owned()),
        words => Ok(words),
    }
}

fn directory(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if path.is_dir() { Ok(path) } else { Err(format!("{} is not a directory", path.display())) }
}

fn check_variable(name: &str) -> Result<(), String> {
    match name.is_empty() || name.contains(['=', '\0']) {
        true => Err(format!("{name:?} cannot be the name of an environment variable")),
        false => Ok(()),
    }
}

/// Reads the value of a variable, which may be a secret or plain text.
fn variable(value: &Value, environment: Environment<'_>) -> Result<Secret, String> {
    let Value::Text(text) = value else {
        return Err(format!("takes a string, not {}", value.type_name()));
    };
    let secret = Secret::resolve(text, environment).unwrap_or_else(|| Ok(Secret::new(text)))?;
    if secret.reveal().contains('\0') {
        return Err("contains a NUL character: remove it".to_owned());
    }
    Ok(secret)
}
