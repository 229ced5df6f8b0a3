//! What a cell has for the writer: records, and what of the task's row and claims changes with them.

use std::sync::Arc;

use crate::store::{Append, ClaimKey, NewTask, Pending, Row};
use crate::task::event::LogEvent;

use super::TaskCell;

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

impl Pending for TaskCell {
    fn take(&self) -> Option<Append> {
        let mut inner = self.lock();
        inner.dirty = false;
        if inner.refused || !inner.pending.is_some() {
            return None;
        }
        let live = inner.run.is_some();
        let WriteBuffer { new, claims, events, batch, row, checkpoint } = std::mem::take(&mut inner.pending);
        let head = inner.head?;
        let row = row.then_some(Row { state: head.state, status_us: head.status_us, live });
        let last = head.seq;
        let follows = events.first().map_or(last, |first| first.seq - 1);
        inner.committing.extend(events);
        Some(Append {
            task: self.identity.handle,
            lease: self.handles.lease,
            follows,
            last,
            new,
            body: batch,
            row,
            checkpoint,
            claims,
        })
    }

    fn refused(&self) {
        self.lock().refused = true;
    }
}
