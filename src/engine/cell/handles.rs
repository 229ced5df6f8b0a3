//! What cells share: where their records go, what limits them, and where they are found.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::store::{Lease, Writer};

use super::super::finished::Finished;
use super::super::folds::OpenFolds;
use super::super::limits::Usage;
use super::super::live::LiveTasks;
use super::super::outcomes::Outcomes;
use super::TaskCell;

/// What cells share. It is made once, with the engine.
pub(in crate::engine) struct CellHandles {
    /// Writes what cells append.
    pub(in crate::engine) writer: Writer<TaskCell>,
    /// Notified when the first cell has something to write for the next commit.
    pub(in crate::engine) flush: Arc<Notify>,
    /// The lease that they write by.
    pub(in crate::engine) lease: Lease,
    /// The limits on what they append.
    pub(in crate::engine) limits: Arc<Usage>,
    /// The cells themselves.
    pub(in crate::engine) live: LiveTasks<TaskCell>,
    /// Tasks that ended and whose cells may be gone.
    pub(in crate::engine) finished: Finished,
    pub(in crate::engine) outcomes: Outcomes,
    /// The folds of tasks that wait and have no cell.
    pub(in crate::engine) folds: OpenFolds,
}

impl Drop for CellHandles {
    fn drop(&mut self) {
        // The task that wakes the writer waits for this, and ends.
        self.flush.notify_one();
    }
}
