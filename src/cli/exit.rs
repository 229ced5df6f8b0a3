//! Exit codes, and error messages with advice.

use std::io::{self, Write as _};
use std::process::ExitCode;

use tricord_bindings::client::{ClientError, ServerError};

use super::terminal;
use crate::LaunchError;
use crate::client::ConnectError;
use crate::config::Problems;
use crate::schema::TaskState;
use crate::store::OpenError;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Success.
    Done = 0,
    /// The task failed, was rejected or canceled, or a check failed.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// The server returned an error or an invalid answer.
    Server = 3,
    /// The server could not be reached.
    Unreachable = 4,
    /// The task needs input or authorisation.
    NeedsClient = 5,
}

impl Exit {
    /// Returns the exit code for a task that ended or waits in this state.
    pub(super) fn of(state: TaskState) -> Self {
        match state {
            TaskState::Failed | TaskState::Rejected | TaskState::Canceled => Exit::Failed,
            TaskState::InputRequired | TaskState::AuthRequired => Exit::NeedsClient,
            _ => Exit::Done,
        }
    }
}

/// The failure of a command.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    /// The message, or an empty string to print nothing.
    text: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }

    /// Returns the message.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The reader of standard output has closed it, as `head` does.
            io::ErrorKind::BrokenPipe => Self::new(Exit::Done, ""),
            _ => Self::usage(error.to_string()),
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::usage(problems.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match &error {
            ClientError::Server(error) => Self::new(Exit::Server, with_advice(text, advice(error))),
            ClientError::BadAnswer(_) => Self::new(Exit::Server, text),
            ClientError::Request(_) => Self::usage(text),
            ClientError::Unreachable { .. } => {
                let advice = "`tricord serve` starts a server; --url (or TRICORD_URL) sets its address";
                Self::new(Exit::Unreachable, with_advice(text, Some(advice)))
            }
            ClientError::Broken(_) => Self::new(Exit::Unreachable, text),
            ClientError::Deadline(_) => {
                Self::new(Exit::Unreachable, with_advice(text, Some("--timeout sets a longer time")))
            }
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let text = error.to_string();
        match error {
            ConnectError::Call(error) => error.into(),
            ConnectError::NotACard { .. } => {
                Self::new(Exit::Server, with_advice(text, Some("--url takes the address of an agent or of its card")))
            }
            ConnectError::NoInterface { .. } => Self::new(Exit::Server, text),
            ConnectError::Untrusted { .. } => Self::usage(with_advice(text, Some("--trust-host HOST allows it"))),
        }
    }
}

fn advice(error: &ServerError) -> Option<&'static str> {
    Some(match error.reason.as_deref()? {
        "TASK_NOT_FOUND" => "`tricord list` shows your tasks",
        "TASK_NOT_CANCELABLE" => "it has already ended; `tricord get` shows its state",
        "UNAUTHENTICATED" => "--token (or TRICORD_TOKEN) or --header set credentials",
        "EXTENSION_SUPPORT_REQUIRED" => "--extension URI requests one; `tricord card` shows which are required",
        "VERSION_NOT_SUPPORTED" => "this client speaks A2A 1.0",
        _ => return None,
    })
}

fn with_advice(text: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{text}\n  {advice}"),
        None => text,
    }
}

/// Prints the error, if there is one, and returns the exit code.
pub(super) fn code(result: Result<Exit, Failure>) -> ExitCode {
    let exit = match result {
        Ok(exit) => exit,
        Err(Failure { exit, text }) => {
            if !text.is_empty() {
                // Fails only if standard error is closed.
                let _ = writeln!(terminal::stderr(), "tricord: {text}");
            }
            exit
        }
    };
    ExitCode::from(exit as u8)
}
