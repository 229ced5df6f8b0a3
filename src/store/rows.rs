//! What is read of a task: its row in the index and its log.

use super::{StoreError, TaskHandle};
use crate::schema::TaskState;
use crate::schema::store::{Checkpoint, RecordBatch};
use std::sync::Arc;
use uuid::Uuid;

/// A task as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The backend's name for it.
    pub task: TaskHandle,
    /// The public id.
    pub id: Uuid,
    /// The name of the agent.
    pub agent: Arc<str>,
    /// The owner of the task.
    pub owner: Arc<str>,
    /// The conversation.
    pub context: Arc<str>,
    /// The state.
    pub state: TaskState,
    /// When it was entered, in microseconds since 1970.
    pub status_us: i64,
    /// The time of creation, in microseconds since 1970.
    pub created_us: i64,
    /// Whether a run works on the task, or did when its process ended.
    pub live: bool,
    /// The epoch of the lease that the row was written under.
    pub epoch: u64,
    /// Whether the row is not as it was written: nothing in it can be relied on.
    pub is_damaged: bool,
}

impl TaskRow {
    /// Returns the error for a row that is damaged.
    pub(crate) fn damage(&self) -> StoreError {
        StoreError::Corrupt(format!("task {}: the row of the task is not as it was written", self.id).into())
    }
}

/// What is needed to fold a task.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRead {
    /// The fold to start from, if there is one.
    pub checkpoint: Option<Checkpoint>,
    /// The records after it, in order.
    pub batches: Vec<RecordBatch>,
}

/// What follows a seq in a log.
#[derive(Debug, Clone, PartialEq)]
pub enum Tail {
    /// The next records, in order; none at the end of the log.
    Records(Vec<RecordBatch>),
    /// Some of them were deleted. What is left of the task is in its checkpoint.
    Gone,
}
