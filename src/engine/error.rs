//! Why the engine refuses or cannot do something.

use crate::agents::EmitError;
use crate::schema::TaskState;
use crate::store::StoreError;

/// Why the engine refuses or cannot do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// There is no such task for this agent and owner.
    #[error("no such task")]
    NotFound,
    /// The task has ended; its state is final.
    #[error("the task has ended in {}", .0.as_str_name())]
    Ended(TaskState),
    /// The message names another conversation than its task's.
    #[error("the task belongs to another context")]
    OtherContext,
    /// The task has as many records, or bytes, as a task may have.
    #[error("the task is larger than the server allows: {0}")]
    TooLarge(&'static str),
    /// Too much runs already.
    #[error("the server is at its limit of {0}; try again later")]
    Busy(&'static str),
    /// A share of the memory is used up.
    #[error("the memory for {0} is in use; try again later")]
    Memory(&'static str),
    /// The server is going down.
    #[error("the server is shutting down")]
    Draining,
    /// What is stored of the task is not as it was written.
    #[error("the stored data of the task is damaged")]
    Damaged,
    /// The store does not take or give data now.
    #[error("the store is not available")]
    StoreUnavailable,
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match error {
            // The store has logged it.
            StoreError::Corrupt(_) => Self::Damaged,
            error => {
                tracing::error!(%error, "the store failed");
                Self::StoreUnavailable
            }
        }
    }
}

impl From<EmitError> for EngineError {
    fn from(error: EmitError) -> Self {
        match error {
            EmitError::Ended(state) => Self::Ended(state),
            EmitError::TooLarge(what) => Self::TooLarge(what),
            EmitError::StoreLost | EmitError::RunOver | EmitError::Illegal(_) => Self::StoreUnavailable,
        }
    }
}
