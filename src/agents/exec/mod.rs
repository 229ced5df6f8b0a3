//! Agents of kind `exec`: a command for every turn, in any language.
//!
//! The command gets the message on its standard input, and what it prints becomes the text of one artifact while it
//! prints. Exit code 0 completes the task; any other fails it with the end of what was printed to standard error. It
//! runs in a process group of its own, and nothing of the group outlives the turn: a cancelled one gets SIGTERM and,
//! if it is still there after a grace time, SIGKILL. (Where the server itself is killed, a command is left to notice that
//! its pipes are closed.) What it is told about the task stands in `TRICORD_TASK_ID`,
//! `TRICORD_CONTEXT_ID`, `TRICORD_MESSAGE_ID`, `TRICORD_AGENT`, `TRICORD_OWNER` and `TRICORD_ATTEMPT`.

mod output;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::Access;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::config;
use crate::schema::part::Content;

use self::output::Tail;
use self::process::Process;
use super::{Agent, AgentError, TaskContext};

/// Variables of the server that a command sees. Everything else may hold the server's secrets.
const PASSED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LOGNAME"];

/// The longest value that a client chose and a command is told. Beyond it the variable is left out.
const MAX_VALUE: usize = 4096;

/// What is run, and within which bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSettings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs; the server's own directory by default.
    pub directory: Option<PathBuf>,
    /// Variables set beside those of the server that are passed on.
    pub environment: BTreeMap<String, String>,
    /// How long a cancelled command may take after SIGTERM. A little less than the agent's cancel grace lets it end by
    /// itself.
    pub grace: Duration,
    /// How many run at once. Further tasks wait as submitted.
    pub concurrency: usize,
    /// The longest line of output, in bytes. A longer one fails the task.
    pub max_line: usize,
    /// The most output, in bytes. More fails the task.
    pub max_output: u64,
}

impl ExecSettings {
    /// A command with the default bounds: 64 at once, lines up to 1 MiB, output up to 16 MiB, 900 ms of grace.
    pub fn new<W: Into<String>>(command: impl IntoIterator<Item = W>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            directory: None,
            environment: BTreeMap::new(),
            grace: Duration::from_millis(900),
            concurrency: 64,
            max_line: 1 << 20,
            max_output: 16 << 20,
        }
    }
}

/// Why a command cannot be an agent. Known before the first task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// There is no program.
    #[error("the command is empty: name a program")]
    Empty,
    /// The program is not there.
    #[error("the program {0:?} is not found: give a path, or a name that is in PATH")]
    NotFound(String),
    /// The program may not be run.
    #[error("the program {} is there, but is no file that may be run", .0.display())]
    NotExecutable(PathBuf),
}

/// An agent that runs a command for every turn.
#[derive(Debug)]
pub struct Exec {
    settings: ExecSettings,
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    permits: Semaphore,
}

impl Exec {
    /// Takes a command, and the server's environment of now.
    ///
    /// # Errors
    /// [`ExecError`] if the program cannot be run.
    pub fn new(settings: ExecSettings) -> Result<Self, ExecError> {
        let passed = |name: &str| PASSED.contains(&name) || name.starts_with("LC_");
        let mut environment: Vec<_> =
            std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(passed)).collect();
        let configured = settings.environment.iter().map(|(name, value)| (name.into(), value.into()));
        environment.extend(configured);
        let path = environment.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let name = settings.command.first().ok_or(ExecError::Empty)?;
        let program = find(name, settings.directory.as_deref(), &path.unwrap_or_default())?;
        let permits = Semaphore::new(settings.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self { settings, program, environment, permits })
    }

    /// Takes an agent of kind `exec` as it is configured. A cancelled command gets nine tenths of the agent's cancel
    /// grace, so that it ends before the run is cut off.
    ///
    /// # Errors
    /// [`ExecError`] if the program cannot be run.
    pub fn from_config(config: &config::ExecConfig, cancel_grace: Duration) -> Result<Self, ExecError> {
        let environment = config.environment.iter();
        Self::new(ExecSettings {
            command: config.command.clone(),
            directory: config.directory.clone(),
            environment: environment.map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect(),
            grace: cancel_grace.mul_f64(0.9),
            concurrency: config.concurrency as usize,
            max_line: usize::try_from(config.max_line).unwrap_or(usize::MAX),
            max_output: config.max_output,
        })
    }

    fn command(&self, task: &TaskContext) -> Command {
        let turn = task.turn();
        let mut command = Command::new(&self.program);
        command.args(&self.settings.command[1..]).env_clear().envs(self.environment.iter().cloned());
        if let Some(directory) = &self.settings.directory {
            command.current_dir(directory);
        }
        let attempt = turn.attempt.to_string();
        for (name, value) in [
            ("TRICORD_TASK_ID", task.task_id()),
            ("TRICORD_CONTEXT_ID", &*turn.context_id),
            ("TRICORD_MESSAGE_ID", &task.message().message_id),
            ("TRICORD_AGENT", &*turn.agent),
            ("TRICORD_OWNER", &*turn.owner),
            ("TRICORD_ATTEMPT", &attempt),
        ] {
            if value.len() <= MAX_VALUE && !value.contains('\0') {
                command.env(name, value);
            }
        }
        command
    }

    async fn work(&self, task: &TaskContext) -> Result<(), AgentError> {
        let started = Process::start(&mut self.command(task), self.settings.grace);
        let (mut process, pipes) =
            started.map_err(|error| AgentError::new("The command could not be started.").with_source(error))?;
        let mut answer = task.artifact("output");
        let mut tail = Tail::default();
        let status = {
            let exited = CancellationToken::new();
            let feed = feed(pipes.stdin, input(task));
            let print = output::print(pipes.stdout, &mut answer, &self.settings, &exited);
            let complain = output::keep_tail(pipes.stderr, &mut tail, &exited);
            tokio::pin!(feed, print, complain);
            let (mut fed, mut printed, mut complained, mut stopping, mut status) = (false, false, false, false, None);
            while !(printed && complained && status.is_some()) {
                tokio::select! {
                    () = task.cancelled(), if !stopping => {
                        stopping = true;
                        process.stop();
                    }
                    // An error drops the process, and that ends it.
                    result = &mut print, if !printed => {
                        printed = true;
                        result?;
                    }
                    () = &mut complain, if !complained => complained = true,
                    () = &mut feed, if !fed => fed = true,
                    result = process.exit(), if status.is_none() => {
                        status = Some(result);
                        exited.cancel();
                    }
                }
            }
            status
        };
        match status {
            _ if task.is_cancelled() => Ok(()),
            Some(Ok(status)) if status.success() => answer.finish().await,
            Some(Ok(status)) => Err(AgentError::new(failure(status, &tail))),
            Some(Err(error)) => Err(AgentError::new("The command was lost.").with_source(error)),
            None => Err(AgentError::new("The command was lost.")),
        }
    }
}

impl Agent for Exec {
    async fn run(&self, task: TaskContext) -> Result<(), AgentError> {
        let permit = tokio::select! {
            biased;
            () = task.cancelled() => return Ok(()),
            permit = self.permits.acquire() => permit,
        };
        task.working("").await?;
        let result = self.work(&task).await;
        drop(permit);
        result
    }

    fn may_reply(&self) -> bool {
        false
    }
}

/// What the command reads: the parts of the message, a line end between two of them. Data is JSON, bytes are bytes, and
/// of a URL it is the URL.
fn input(task: &TaskContext) -> Vec<u8> {
    let mut input = Vec::new();
    for (at, part) in task.message().parts.iter().enumerate() {
        if at > 0 {
            input.push(b'\n');
        }
        match &part.content {
            Some(Content::Text(text) | Content::Url(text)) => input.extend_from_slice(text.as_bytes()),
            Some(Content::Raw(bytes)) => input.extend_from_slice(bytes),
            // Into memory, and of a value that came as JSON: there is nothing to fail.
            Some(Content::Data(value)) => drop(serde_json::to_writer(&mut input, value)),
            None => {}
        }
    }
    input
}

async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    // A command need not read what it is told.
    let _ = stdin.write_all(&input).await;
}

fn failure(status: ExitStatus, tail: &Tail) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("The command failed with exit code {code}"),
        (None, Some(signal)) => format!("The command was ended by signal {signal}"),
        (None, None) => "The command failed".to_owned(),
    };
    match tail.text() {
        said if said.is_empty() => how + ".",
        said => format!("{how}:\n{said}"),
    }
}

/// The program of a name, as a shell would find it, but relative to the directory in which it will run.
fn find(name: &str, directory: Option<&Path>, path: &OsString) -> Result<PathBuf, ExecError> {
    let may_run = |path: &Path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    if name.contains('/') {
        let program = absolute(directory.unwrap_or(Path::new("")).join(name));
        return match () {
            () if may_run(&program) => Ok(program),
            () if program.exists() => Err(ExecError::NotExecutable(program)),
            () => Err(ExecError::NotFound(name.into())),
        };
    }
    let mut candidates = std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
    candidates.find(|program| !name.is_empty() && may_run(program)).ok_or_else(|| ExecError::NotFound(name.into()))
}
