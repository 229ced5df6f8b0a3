//! Wakes the writer for a whole batch: after the tasks that are ready to run have had their turn.
//!
//! Half the cost of a commit is the same for one task as for ten. The first task that has something to write would wake
//! the writer at once, and on a busy machine the writer would take that one alone, while others are about to follow. So
//! the writer is woken by a task of the runtime, which yields once: everything that was ready before it, requests that
//! have just arrived included, is polled first. On an idle server nothing else is ready and nothing waits.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::cell::CellHandles;

/// Wakes the writer each time that `due` is notified. Ends when the engine is gone.
pub(super) async fn flush(handles: Weak<CellHandles>, due: Arc<Notify>) {
    loop {
        due.notified().await;
        tokio::task::yield_now().await;
        let Some(handles) = handles.upgrade() else { return };
        handles.writer.wake();
    }
}
