//! The errors of a call, as the caller sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::Violation;

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The server could not be reached. It has not seen the call.
    #[error("cannot reach {url}: {why}")]
    Unreachable {
        /// The server's URL.
        url: String,
        /// The innermost cause, as text.
        why: String,
    },
    /// The connection broke before the answer was complete. The server may have run the call.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server's answer does not follow the protocol; the text says how.
    #[error("invalid answer: {0}")]
    BadAnswer(String),
    /// The caller's deadline passed.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The request cannot be sent: this binding cannot express it.
    #[error("{0}")]
    Request(String),
}

impl ClientError {
    /// Returns the error that the server answered with, if it did.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            ClientError::Server(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ServerError> for ClientError {
    fn from(error: ServerError) -> Self {
        Self::Server(Box::new(error))
    }
}

/// The code that a binding gives an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The gRPC status.
    Grpc(tonic::Code),
    /// The JSON-RPC error code.
    JsonRpc(i64),
    /// The HTTP status.
    Http(u16),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Grpc(code) => write!(f, "gRPC status {} ({code:?})", i32::from(*code)),
            Code::JsonRpc(code) => write!(f, "JSON-RPC error {code}"),
            Code::Http(status) => write!(f, "HTTP status {status}"),
        }
    }
}

/// An error that a server answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerError {
    /// The `reason` of `google.rpc.ErrorInfo`, such as `TASK_NOT_FOUND`; the same over every binding. `None` if the
    /// server sent none.
    pub reason: Option<String>,
    /// The binding's own code.
    pub code: Code,
    /// The server's message.
    pub message: String,
    /// The `metadata` of `google.rpc.ErrorInfo`.
    pub metadata: BTreeMap<String, String>,
    /// The invalid fields of the request.
    pub violations: Vec<Violation>,
    /// How long the server asks the client to wait before it tries again.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = if self.message.is_empty() { "no message" } else { &self.message };
        match &self.reason {
            Some(reason) => write!(f, "{message} ({reason}, {})", self.code)?,
            None => write!(f, "{message} ({})", self.code)?,
        }
        // The message is often the text of the first violation.
        for violation in self.violations.iter().filter(|v| !message.contains(v.description.as_str())) {
            write!(f, "\n  {}: {}", violation.field, violation.description)?;
        }
        if let Some(after) = self.retry_after {
            write!(f, "; try again in {after:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ServerError {}
