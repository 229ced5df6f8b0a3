//! Exit codes, and what goes wrong in words that say what to do.

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
    /// Done.
    Done = 0,
    /// The task failed, was rejected or canceled; or what was checked is not right.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// The server answered an error, or what it may not.
    Server = 3,
    /// The server was not reached.
    Unreachable = 4,
    /// The task needs input or authorisation.
    NeedsClient = 5,
}

impl Exit {
    /// What a task in this state means to whoever waited for it.
    pub(super) fn of(state: TaskState) -> Self {
        match state {
            TaskState::Failed | TaskState::Rejected | TaskState::Canceled => Exit::Failed,
            TaskState::InputRequired | TaskState::AuthRequired => Exit::NeedsClient,
            _ => Exit::Done,
        }
    }
}

/// Why a command did not do what it was told.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    /// For people; empty where there is nobody to tell.
    text: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }

    /// What to tell.
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
            // Whoever read has seen enough.
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
                let advice = "`tricord serve` starts a server; --url (or TRICORD_URL) says where one is";
                Self::new(Exit::Unreachable, with_advice(text, Some(advice)))
            }
            ClientError::Broken(_) => Self::new(Exit::Unreachable, text),
            ClientError::Deadline(_) => Self::new(Exit::Unreachable, with_advice(text, Some("--timeout allows more"))),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let text = error.to_string();
        match error {
            ConnectError::Call(error) => error.into(),
            ConnectError::NotACard { .. } => {
                Self::new(Exit::Server, with_advice(text, Some("--url takes an agent's address or its card's")))
            }
            ConnectError::NoInterface { .. } => Self::new(Exit::Server, text),
            ConnectError::Untrusted { .. } => Self::usage(with_advice(text, Some("--trust-host HOST does"))),
        }
    }
}

fn advice(error: &ServerError) -> Option<&'static str> {
    Some(match error.reason.as_deref()? {
        "TASK_NOT_FOUND" => "`tricord list` shows the tasks that there are",
        "TASK_NOT_CANCELABLE" => "it has ended already; `tricord get` shows how",
        "UNAUTHENTICATED" => "--token (or TRICORD_TOKEN) or --header give credentials",
        "EXTENSION_SUPPORT_REQUIRED" => "--extension URI names one; `tricord card` shows which are required",
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

/// Tells what went wrong, and gives the code.
pub(super) fn code(result: Result<Exit, Failure>) -> ExitCode {
    let exit = match result {
        Ok(exit) => exit,
        Err(Failure { exit, text }) => {
            if !text.is_empty() {
                // Where stderr is closed there is nobody to tell.
                let _ = writeln!(terminal::stderr(), "tricord: {text}");
            }
            exit
        }
    };
    ExitCode::from(exit as u8)
}
