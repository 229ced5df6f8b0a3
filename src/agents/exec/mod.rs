//! Agents of kind `exec`: run a command for every turn, in any language.
//!
//! The command reads the message from its standard input. What it prints becomes the text of one artifact, piece by
//! piece. Exit code 0 completes the task; any other fails it with the end of what was printed to standard error.
//!
//! The command runs in a process group of its own, and no process of the group outlives the turn. A cancelled command
//! gets SIGTERM and, if it still runs after a grace time, SIGKILL. If the server itself is killed, the command only
//! notices that its pipes are closed. The environment variables `TRICORD_TASK_ID`, `TRICORD_CONTEXT_ID`,
//! `TRICORD_MESSAGE_ID`, `TRICORD_AGENT`, `TRICORD_OWNER` and `TRICORD_ATTEMPT` describe the task.

mod output;
mod process;
mod settings;
#[cfg(test)]
mod tests;

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

use crate::schema::part::Content;

pub use self::settings::ExecSettings;
pub(crate) use self::settings::KIND;

use self::output::Tail;
use self::process::Process;
use super::{Agent, AgentError, TaskContext};

/// Environment variables that a command inherits, besides `LC_*`. All others may hold secrets of the server.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LOGNAME"];

/// The longest value of a variable that describes the task, in bytes. Clients choose some of these values; a longer one
/// is left out.
const MAX_VALUE: usize = 4096;

/// Why a command cannot be an agent, checked before the first task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// The command is empty.
    #[error("the command is empty: name a program")]
    Empty,
    /// The program does not exist.
    #[error("program {0:?} not found: give its path, or a name that is in PATH")]
    NotFound(String),
    /// The program is not an executable file.
    #[error("program {} exists but is not an executable file: set its execute permission", .0.display())]
    NotExecutable(PathBuf),
}

/// An agent that runs a command for every turn.
#[derive(Debug)]
pub struct Exec {
    settings: ExecSettings,
    program: PathBuf,
    /// How long a cancelled command may run after SIGTERM.
    grace: Duration,
    environment: Vec<(OsString, OsString)>,
    permits: Semaphore,
}

impl Exec {
    /// Finds the program and takes a snapshot of the server's environment. A cancelled command gets SIGKILL when it still
    /// runs `grace` after SIGTERM.
    ///
    /// # Errors
    /// [`ExecError`] if the program cannot be run.
    pub fn new(settings: ExecSettings, grace: Duration) -> Result<Self, ExecError> {
        let inherited = |name: &str| INHERITED.contains(&name) || name.starts_with("LC_");
        let mut environment: Vec<_> =
            std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(inherited)).collect();
        let configured = settings.environment.iter().map(|(name, value)| (name.into(), value.reveal().into()));
        environment.extend(configured);
        let path = environment.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let name = settings.command.first().ok_or(ExecError::Empty)?;
        let program = find(name, settings.directory.as_deref(), &path.unwrap_or_default())?;
        let permits = Semaphore::new((settings.concurrency.max(1) as usize).min(Semaphore::MAX_PERMITS));
        Ok(Self { settings, program, grace, environment, permits })
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
        let started = Process::start_when_possible(&mut self.command(task), self.grace).await;
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

/// Returns what the command reads: the parts of the message, separated by line ends. Data is written as JSON, bytes as
/// they are, and a URL as its text.
fn input(task: &TaskContext) -> Vec<u8> {
    let mut input = Vec::new();
    for (at, part) in task.message().parts.iter().enumerate() {
        if at > 0 {
            input.push(b'\n');
        }
        match &part.content {
            Some(Content::Text(text) | Content::Url(text)) => input.extend_from_slice(text.as_bytes()),
            Some(Content::Raw(bytes)) => input.extend_from_slice(bytes),
            // Writing to memory a value that was read from JSON cannot fail.
            Some(Content::Data(value)) => drop(serde_json::to_writer(&mut input, value)),
            None => {}
        }
    }
    input
}

async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    // A command may end without reading its input.
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

/// Finds a program like a shell does, but relative to the directory in which it will run.
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
