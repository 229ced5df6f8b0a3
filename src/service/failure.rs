//! From what the engine says to what a client is told.

use std::time::Duration;

use tricord_bindings::error::kinds;
use tricord_bindings::{Error, Kind};

use crate::engine::EngineError;
use crate::protocol;
use crate::store::StoreError;

/// After how long a client that met an overloaded server should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Renders an engine's refusal. `ended` is the kind for a task that has ended, which depends on the operation.
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
        EngineError::Draining | EngineError::StoreUnavailable => Error::unavailable(error.to_string(), RETRY_AFTER),
        EngineError::OtherRequest => Error::new(&kinds::INVALID_PARAMS, error.to_string()),
    }
}

/// "Not yours" and "does not exist" are one answer.
pub(super) fn not_found() -> Error {
    Error::new(&protocol::TASK_NOT_FOUND, "no such task")
}

/// The store cannot be read; never "not found".
pub(super) fn store(failure: &StoreError) -> Error {
    tracing::error!(error = %failure, "the store cannot be read");
    Error::unavailable("the store is not available", RETRY_AFTER)
}
