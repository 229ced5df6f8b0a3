//! CancelTask: ask the run to end, wait a little, and answer when the end of the task is committed.

use std::sync::Arc;

use tricord_bindings::Encoded;

use crate::agents::EmitError;
use crate::schema::{Task, TaskState};

use super::cell::{TaskCell, Watcher};
use super::error::EngineError;

/// Ends a task in CANCELED and returns it. A run gets the agent's grace to end by itself first.
pub(super) async fn cancel(cell: &Arc<TaskCell>) -> Result<Arc<Encoded<Task>>, EngineError> {
    let watcher = Watcher::new(cell, false);
    let run = match cell.run_to_cancel() {
        Err(EngineError::Ended(_)) => return Err(EngineError::Ended(ended(&watcher).await?)),
        run => run?,
    };
    if let Some((number, cancelled)) = run {
        cancelled.cancel();
        let over = watcher.until(|view| (view.is_poisoned() || view.run() != Some(number)).then_some(()));
        if tokio::time::timeout(cell.spec().cancel_grace, over).await.is_err() {
            tracing::warn!(task = %cell.ids().task, "a run did not end within the cancel grace; it is aborted");
        }
    }
    match cell.end_canceled() {
        // The run may have brought the task to an end meanwhile, in CANCELED or in another state.
        Ok(()) | Err(EmitError::Ended(_)) => {}
        Err(other) => return Err(other.into()),
    }
    match ended(&watcher).await? {
        TaskState::Canceled => Ok(cell.look(|view| view.task())),
        other => Err(EngineError::Ended(other)),
    }
}

/// Waits until the end of a task is committed, and returns the state. Nobody may know of it before.
pub(super) async fn ended(watcher: &Watcher) -> Result<TaskState, EngineError> {
    watcher.until(|view| view.ended()).await
}
