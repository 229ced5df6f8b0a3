//! Waiting for what is committed: a registration among a cell's watchers, and what a watcher sees.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use tricord_bindings::Encoded;

use crate::schema::{StreamResponse, Task, TaskState};
use crate::task::event::LogEvent;
use crate::task::lifecycle;

use super::super::error::EngineError;
use super::{Inner, TaskCell};

/// A registration among a cell's watchers, which keeps the cell in memory. Dropping it removes the registration.
///
/// It remembers one waker, so one future waits with it at a time.
pub(in crate::engine) struct Watcher {
    cell: Arc<TaskCell>,
    key: usize,
    follows: bool,
}

impl Watcher {
    /// Registers among the cell's watchers. One that `follows` reads events: while there is one, the cell keeps the latest.
    pub(in crate::engine) fn new(cell: &Arc<TaskCell>, follows: bool) -> Self {
        Self::locked(cell, &mut cell.lock(), follows)
    }

    /// The same under the cell's lock.
    pub(super) fn locked(cell: &Arc<TaskCell>, inner: &mut Inner, follows: bool) -> Self {
        inner.followers += usize::from(follows);
        Self { cell: Arc::clone(cell), key: inner.watchers.insert(None), follows }
    }

    /// Returns the cell that is watched.
    pub(in crate::engine) fn cell(&self) -> &Arc<TaskCell> {
        &self.cell
    }

    /// Waits until `look` finds what it looks for. It is called under the cell's lock, now and after each change.
    pub(in crate::engine) async fn until<R>(&self, mut look: impl FnMut(&mut View<'_>) -> Option<R>) -> R {
        poll_fn(|cx| self.poll(cx, &mut look)).await
    }

    /// Looks once, and remembers the waker if `look` finds nothing.
    pub(in crate::engine) fn poll<R>(
        &self,
        cx: &Context<'_>,
        look: impl FnOnce(&mut View<'_>) -> Option<R>,
    ) -> Poll<R> {
        let mut inner = self.cell.lock();
        if let Some(found) = look(&mut View(&mut inner)) {
            return Poll::Ready(found);
        }
        // Remembered under the same lock, so that no change falls between the look and the wait.
        if let Some(slot) = inner.watchers.get_mut(self.key) {
            match slot {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                _ => *slot = Some(cx.waker().clone()),
            }
        }
        Poll::Pending
    }
}

impl TaskCell {
    /// Looks at the committed state once.
    pub(in crate::engine) fn look<R>(&self, look: impl FnOnce(&mut View<'_>) -> R) -> R {
        look(&mut View(&mut self.lock()))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut inner = self.cell.lock();
        inner.watchers.try_remove(self.key);
        inner.followers -= usize::from(self.follows);
        if inner.followers == 0 {
            inner.committed.clear_ring();
        }
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watcher").field(&self.cell).finish()
    }
}

/// What a watcher sees of a cell, under its lock.
pub(in crate::engine) struct View<'a>(&'a mut Inner);

impl View<'_> {
    /// Returns the seq of the last committed record; 0 before the task is created.
    pub(in crate::engine) fn seq(&self) -> u64 {
        self.0.committed.seq()
    }

    /// Returns the seq of the last committed record that entered a state on which a blocking send returns.
    pub(in crate::engine) fn pause(&self) -> u64 {
        self.0.committed.pause()
    }

    /// Returns the committed state.
    pub(in crate::engine) fn state(&self) -> TaskState {
        self.0.committed.state()
    }

    /// Returns the committed task.
    pub(in crate::engine) fn task(&self) -> Arc<Encoded<Task>> {
        self.0.committed.task()
    }

    /// Returns the message with which a run answered instead of a task.
    pub(in crate::engine) fn reply(&self) -> Option<Arc<Encoded<StreamResponse>>> {
        self.0.reply.clone()
    }

    /// Returns the number of the live run.
    pub(in crate::engine) fn run(&self) -> Option<u32> {
        self.0.run.as_ref().map(|run| run.number)
    }

    /// Returns whether the store failed under the cell: nothing more is committed through it.
    pub(in crate::engine) fn is_poisoned(&self) -> bool {
        self.0.poisoned
    }

    /// Returns why nothing more will be committed, if that is so.
    pub(in crate::engine) fn stopped(&self) -> Option<EngineError> {
        match (self.0.poisoned, self.0.closed) {
            (true, _) => Some(EngineError::StoreUnavailable),
            (false, true) => Some(EngineError::Draining),
            (false, false) => None,
        }
    }

    /// Returns the terminal state once it is committed, or why it never will be.
    pub(in crate::engine) fn ended(&self) -> Option<Result<TaskState, EngineError>> {
        match self.state() {
            _ if self.0.poisoned => Some(Err(EngineError::StoreUnavailable)),
            state if lifecycle::is_terminal(state) => Some(Ok(state)),
            _ => self.stopped().map(Err),
        }
    }

    /// Returns the committed event with this seq, if it is still in memory.
    pub(in crate::engine) fn event(&self, seq: u64) -> Option<Arc<LogEvent>> {
        self.0.committed.event(seq).cloned()
    }

    /// Moves the committed events from `seq` on into `backlog`, which is empty. Does nothing and returns `false` if another
    /// watcher needs them too, or they are no longer in memory.
    pub(in crate::engine) fn take_events(&mut self, seq: u64, backlog: &mut VecDeque<Arc<LogEvent>>) -> bool {
        self.0.followers == 1 && self.0.committed.hand_over(seq, backlog)
    }
}
