//! What can go wrong with a call, as the caller sees it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::Violation;

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// Nobody was reached; the call may not have been made.
    #[error("{url} cannot be reached: {why}")]
    Unreachable {
        /// The address.
        url: String,
        /// The innermost cause, for people.
        why: String,
    },
    /// The connection broke before the answer was whole; the call may have been made.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The peer answered with something that the wire does not allow; says exactly what.
    #[error("bad answer: {0}")]
    BadAnswer(String),
    /// The time that the caller gave is over.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The request cannot be made at all: it has no form on this wire.
    #[error("{0}")]
    Request(String),
}

impl ClientError {
    /// The error that the server answered with, if it did.
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

/// The number that a wire gives an error.
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
    /// `reason` of `google.rpc.ErrorInfo`, such as `TASK_NOT_FOUND`: the same on every wire. `None` if the server does not
    /// say.
    pub reason: Option<String>,
    /// The wire's own number.
    pub code: Code,
    /// What the server says about it, for people.
    pub message: String,
    /// `metadata` of `google.rpc.ErrorInfo`.
    pub metadata: BTreeMap<String, String>,
    /// The fields that are wrong.
    pub violations: Vec<Violation>,
    /// When the server says to try again.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = if self.message.is_empty() { "no message" } else { &self.message };
        match &self.reason {
            Some(reason) => write!(f, "{message} ({reason}, {})", self.code)?,
            None => write!(f, "{message} ({})", self.code)?,
        }
        // The first violation is often the message already.
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
