//! What a cell has for the writer: records, and what of the task's row and claims changes with them.

use std::sync::Arc;

use crate::store::{ClaimKey, NewTask};
use crate::task::event::LogEvent;

/// Appended and waiting for the writer.
#[derive(Default)]
pub(super) struct WriteBuffer {
    /// The row of a task that is not in the store yet.
    pub(super) new: Option<NewTask>,
    /// The idempotency keys that the records fulfil.
    pub(super) claims: Vec<ClaimKey>,
    /// The records, for readers.
    pub(super) events: Vec<Arc<LogEvent>>,
    /// The same records, encoded.
    pub(super) batch: Vec<u8>,
    /// The row changes.
    pub(super) row: bool,
    /// A checkpoint to write: its seq and the encoded task.
    pub(super) checkpoint: Option<(u64, Vec<u8>)>,
}

impl WriteBuffer {
    /// Returns whether there is anything to write.
    pub(super) fn is_some(&self) -> bool {
        !self.events.is_empty() || self.row || self.checkpoint.is_some()
    }
}
