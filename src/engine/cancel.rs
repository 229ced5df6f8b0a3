//! Cancelling: ask the run to end, wait a little, and see to it that the task has ended when the answer goes out.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use uuid::Uuid;

use crate::agents::EmitError;
use crate::schema::store::record::Event;
use crate::schema::{Task, TaskState};
use crate::task::lifecycle;

use super::cell::state_of;
use super::{Engine, EngineError, TaskCell};

/// A place among a cell's watchers, given up when dropped.
struct Watcher<'a> {
    cell: &'a TaskCell,
    key: usize,
}

impl<'a> Watcher<'a> {
    fn new(cell: &'a TaskCell) -> Self {
        Self { cell, key: cell.lock().watch(false) }
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.cell.lock().unwatch(self.key, false);
    }
}

impl Engine {
    /// Ends a task in CANCELED and returns it (§3.1.5). A run gets the agent's grace to end by itself first.
    ///
    /// # Errors
    /// When there is no such task, it has ended (also meanwhile, in another state), or the store fails.
    pub async fn cancel(&self, agent: &str, owner: &str, id: Uuid) -> Result<Task, EngineError> {
        // A server that goes down still ends what it is told to end.
        self.refuse_if_failing()?;
        let cell = self.cell(agent, owner, id).await?;
        // The work goes on even if the client leaves: a task that was told to end is not left half way.
        let work = tokio::spawn(async move { cancel(&cell).await });
        work.await.unwrap_or(Err(EngineError::StoreUnavailable))
    }

    /// Waits until the end that a task was refused for is committed, and says which it is: before that nobody may know.
    ///
    /// # Errors
    /// When there is no such task, or its end is not to be: the store fails, or the server goes down.
    pub async fn ended(&self, agent: &str, owner: &str, id: Uuid) -> Result<TaskState, EngineError> {
        let cell = self.cell(agent, owner, id).await?;
        let watcher = Watcher::new(&cell);
        poll_fn(|cx| poll_ended(&cell, watcher.key, cx)).await
    }
}

async fn cancel(cell: &Arc<TaskCell>) -> Result<Task, EngineError> {
    let watcher = Watcher::new(cell);
    let (ended, run) = {
        let inner = cell.lock();
        if inner.poisoned {
            return Err(EngineError::StoreUnavailable);
        }
        let head = inner.head.ok_or(EngineError::NotFound)?;
        (lifecycle::is_terminal(head.state), inner.run.as_ref().map(|run| (run.number, run.cancelled.clone())))
    };
    if ended {
        let state = poll_fn(|cx| poll_ended(cell, watcher.key, cx)).await?;
        return Err(EngineError::Ended(state));
    }
    if let Some((number, cancelled)) = run {
        cancelled.cancel();
        let over = poll_fn(|cx| poll_over(cell, number, watcher.key, cx));
        if tokio::time::timeout(cell.spec.cancel_grace, over).await.is_err() {
            tracing::warn!(task = %cell.ids.task, "a run did not end within its grace; it is cut off");
        }
    }
    let (refused, abort) = cell.change(|inner| {
        let run = inner.run.take();
        // A run that began meanwhile was not told yet.
        let abort = run.and_then(|run| {
            run.cancelled.cancel();
            run.abort
        });
        cell.touch_row(inner);
        // Refused if the run brought the task to an end meanwhile, which may be CANCELED already.
        (cell.append(inner, Event::status(TaskState::Canceled, None)).err(), abort)
    });
    if let Some(abort) = abort {
        abort.abort();
    }
    match refused {
        None | Some(EmitError::Ended(_)) => {}
        Some(other) => return Err(other.into()),
    }
    match poll_fn(|cx| poll_ended(cell, watcher.key, cx)).await? {
        TaskState::Canceled => Ok(cell.lock().committed.task.task().clone()),
        other => Err(EngineError::Ended(other)),
    }
}

fn poll_over(cell: &TaskCell, number: u32, watcher: usize, cx: &Context<'_>) -> Poll<()> {
    let mut inner = cell.lock();
    if inner.poisoned || inner.run.as_ref().is_none_or(|run| run.number != number) {
        return Poll::Ready(());
    }
    inner.park(watcher, cx);
    Poll::Pending
}

/// Ready when the task's end is committed, or never will be.
fn poll_ended(cell: &TaskCell, watcher: usize, cx: &Context<'_>) -> Poll<Result<TaskState, EngineError>> {
    let mut inner = cell.lock();
    if inner.poisoned {
        return Poll::Ready(Err(EngineError::StoreUnavailable));
    }
    match state_of(inner.committed.task.task()) {
        state if lifecycle::is_terminal(state) => return Poll::Ready(Ok(state)),
        _ if inner.closed => return Poll::Ready(Err(EngineError::Draining)),
        _ => {}
    }
    inner.park(watcher, cx);
    Poll::Pending
}
