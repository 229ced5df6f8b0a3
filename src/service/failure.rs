//! Errors of the engine and the store, as the errors that a client gets.

use std::time::Duration;

use tricord_bindings::error::kinds;
use tricord_bindings::{Error, Kind};

use crate::engine::EngineError;
use crate::protocol;
use crate::store::StoreError;

/// How long a client should wait before it tries an overloaded server again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Returns the client's error for an error of the engine. The kind for a task that has ended depends on the operation:
/// `ended` is that kind.
pub(super) fn error(error: EngineError, ended: &'static Kind) -> Error {
    match error {
        EngineError::NotFound => not_found(),
        EngineError::Ended(state) => {
            let message = match state.as_str_name() {
                name if ended == &protocol::TASK_NOT_CANCELABLE => {
                    format!("the task cannot be cancelled: it has ended in {name}")
                }
                name => format!("the task has ended in {name}"),
            };
            Error::new(ended, message).with("state", state.as_str_name())
        }
        EngineError::OtherContext => Error::invalid("message.contextId", "the task belongs to another context"),
        EngineError::TooLarge(_) => Error::new(&protocol::UNSUPPORTED_OPERATION, error.to_string()),
        EngineError::Busy(_) => Error::new(&kinds::RATE_LIMITED, error.to_string()).with_retry_after(RETRY_AFTER),
        EngineError::Damaged => Error::new(&kinds::INTERNAL, error.to_string()),
        EngineError::Memory(_) | EngineError::Draining | EngineError::StoreUnavailable => {
            Error::unavailable(error.to_string(), RETRY_AFTER)
        }
    }
}

/// Returns the client's error for an error of any operation but CancelTask.
pub(super) fn refused(refusal: EngineError) -> Error {
    error(refusal, &protocol::UNSUPPORTED_OPERATION)
}

/// Returns the error for an idempotency key that belongs to another request.
pub(super) fn other_request() -> Error {
    Error::new(&kinds::INVALID_PARAMS, "the idempotency key was used before with another request")
}

/// Returns the error for a task that does not exist, or that belongs to another owner: a client cannot tell which.
pub(super) fn not_found() -> Error {
    Error::new(&protocol::TASK_NOT_FOUND, "no such task")
}

/// Returns the client's error for a read that failed, and logs it. It is never "not found": the task may exist.
pub(super) fn read(failure: &StoreError) -> Error {
    match failure {
        // The store has logged it. Trying again would not help.
        StoreError::Corrupt(_) => Error::new(&kinds::INTERNAL, "stored data is damaged"),
        failure => {
            tracing::error!(error = %failure, "the store cannot be read");
            unavailable()
        }
    }
}

/// Returns the client's error for a write that failed, and logs it.
pub(super) fn write(failure: &StoreError) -> Error {
    tracing::error!(error = %failure, "the store cannot be written");
    unavailable()
}

fn unavailable() -> Error {
    Error::unavailable("the store is not available", RETRY_AFTER)
}
