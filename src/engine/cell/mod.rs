//! One live task: its head (appended, which only checks see) and its fold (committed, which is all that readers see).
//!
//! Runs, cancels, follow-ups and recovery all *append* through the cell: lock, check the lifecycle, number, push, unlock.
//! Nothing in here awaits or does I/O. The writer takes what was appended with [`Pending::take`]. What it has committed
//! comes back through [`TaskCell::publish`], and only then can a reader see it.
//!
//! Nothing outside this module sees the state behind the lock. Others wait with a [`Watcher`], which looks at a [`View`],
//! and change the task with the methods of [`TaskCell`] that say what they do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use slab::Slab;
use tricord_bindings::Encoded;
use tricord_bindings::budget::BudgetPermit;
use tricord_bindings::wkt::Struct;
use uuid::Uuid;

use crate::schema::{Message, StreamResponse, TaskState};
use crate::store::{ClaimKey, TaskHandle};
use crate::task::event::{Ids, LogEvent};
use crate::task::{fold, lifecycle};

mod append;
mod committed;
mod handles;
mod run;
mod run_handle;
#[cfg(test)]
mod tests;
mod turn;
mod watch;
mod write_buffer;

pub(super) use append::FIRST_MESSAGE;
pub(super) use handles::CellHandles;
pub(crate) use turn::Resumption;
pub(super) use turn::{FollowUp, LastTurn, RunEnd, RunStart, StartedRun};
pub(super) use watch::{View, Watcher};

use super::folds::OpenFold;
use super::spec::AgentSpec;
use committed::Committed;
use run::Run;
use write_buffer::WriteBuffer;

/// One live task.
pub(super) struct TaskCell {
    handles: Arc<CellHandles>,
    identity: Identity,
    inner: Mutex<Inner>,
}

/// What never changes about a task.
pub(super) struct Identity {
    /// The task's id.
    pub(super) id: Uuid,
    /// The ids that its events carry.
    pub(super) ids: Ids,
    /// The store's name of it.
    pub(super) handle: TaskHandle,
    /// The agent that works on it.
    pub(super) spec: Arc<AgentSpec>,
    /// Whom it belongs to.
    pub(super) owner: Arc<str>,
}

/// The part of a cell that its lock guards.
struct Inner {
    /// The state and seq that checks go by; `None` before the task is created.
    head: Option<Head>,
    /// What the log begins with, until the task is created.
    unsaved: Option<UnsavedTask>,
    pending: WriteBuffer,
    /// Taken by the writer, not yet published.
    committing: Vec<Arc<LogEvent>>,
    /// Bytes appended and not yet committed.
    uncommitted: usize,
    committed: Committed,
    /// The run that owns the task, if one is live.
    run: Option<Run>,
    /// Runs so far.
    runs: u32,
    /// Messages that no run has read.
    incoming: VecDeque<QueuedMessage>,
    /// The run that owned the task ended with its process or with the store. Recovery decides how the task goes on, and no
    /// message is accepted before.
    orphaned: bool,
    /// The answer of a run that made no task.
    reply: Option<Arc<Encoded<StreamResponse>>>,
    /// The store failed: nothing more is committed through this cell, and the task goes on from its log.
    poisoned: bool,
    /// The server has shut down: nothing more will be committed.
    closed: bool,
    /// Records that the writer took were not written, so no later ones may be.
    refused: bool,
    watchers: Slab<Option<Waker>>,
    followers: usize,
    agent_wakers: Vec<Waker>,
    /// The writer was told that there is something to write, and has not taken it yet.
    dirty: bool,
    /// What the task takes: its messages, and what its agent made.
    memory: BudgetPermit,
}

/// A message of the client with its place in the log.
#[derive(Debug, Clone)]
pub(super) struct QueuedMessage {
    /// The seq of its record.
    pub(super) seq: u64,
    /// The message.
    pub(super) message: Arc<Message>,
}

/// Appended, not necessarily committed.
#[derive(Debug, Clone, Copy)]
struct Head {
    state: TaskState,
    seq: u64,
    time_us: i64,
    /// When the state was entered.
    status_us: i64,
    bytes: usize,
}

/// A message that becomes a task as soon as anything comes of it but a reply.
pub(super) struct UnsavedTask {
    /// The message.
    pub(super) message: Message,
    /// The request's metadata.
    pub(super) metadata: Option<Struct>,
    /// Whether a stream begins with this message.
    pub(super) snapshot: bool,
    /// The idempotency key that the task fulfils.
    pub(super) claim: Option<ClaimKey>,
}

impl TaskCell {
    /// Makes the cell of a task that does not exist yet.
    pub(super) fn of_message(
        handles: Arc<CellHandles>,
        identity: Identity,
        first: UnsavedTask,
        memory: BudgetPermit,
    ) -> Arc<Self> {
        let committed = Committed::new(fold::empty(&identity.ids));
        Self::new(handles, identity, None, Some(first), committed, memory)
    }

    /// Makes the cell of a task that is in the store. `status_us` is when its state was entered, and `orphaned` says whether
    /// the store knows a run that owns it.
    pub(super) fn of_stored(
        handles: Arc<CellHandles>,
        identity: Identity,
        fold: OpenFold,
        status_us: i64,
        orphaned: bool,
        memory: BudgetPermit,
    ) -> Arc<Self> {
        let state = fold::state(fold.task.value());
        let head = Head { state, seq: fold.seq, time_us: fold.time_us, status_us, bytes: fold.bytes };
        let cell = Self::new(handles, identity, Some(head), None, Committed::stored(fold), memory);
        cell.lock().orphaned = orphaned && !lifecycle::is_terminal(state);
        cell
    }

    fn new(
        handles: Arc<CellHandles>,
        identity: Identity,
        head: Option<Head>,
        unsaved: Option<UnsavedTask>,
        committed: Committed,
        memory: BudgetPermit,
    ) -> Arc<Self> {
        Arc::new(Self {
            handles,
            identity,
            inner: Mutex::new(Inner {
                head,
                unsaved,
                pending: WriteBuffer::default(),
                committing: Vec::new(),
                uncommitted: 0,
                committed,
                run: None,
                runs: 0,
                incoming: VecDeque::new(),
                orphaned: false,
                reply: None,
                poisoned: false,
                closed: false,
                refused: false,
                watchers: Slab::new(),
                followers: 0,
                agent_wakers: Vec::new(),
                dirty: false,
                memory,
            }),
        })
    }

    /// Returns the task's id.
    pub(super) fn id(&self) -> Uuid {
        self.identity.id
    }

    /// Returns the ids that the task's events carry.
    pub(super) fn ids(&self) -> &Ids {
        &self.identity.ids
    }

    /// Returns the store's name of the task.
    pub(super) fn handle(&self) -> TaskHandle {
        self.identity.handle
    }

    /// Returns the agent that works on the task.
    pub(super) fn spec(&self) -> &Arc<AgentSpec> {
        &self.identity.spec
    }

    /// Returns whether the task belongs to this agent and owner.
    pub(super) fn belongs_to(&self, agent: &str, owner: &str) -> bool {
        *self.identity.spec.name == *agent && *self.identity.owner == *owner
    }

    /// Returns how many bytes are appended and not published.
    pub(super) fn uncommitted(&self) -> usize {
        self.lock().uncommitted
    }

    /// Returns how many bytes the log of the task has.
    pub(super) fn log_bytes(&self) -> usize {
        self.lock().head.map_or(0, |head| head.bytes)
    }

    /// Returns whether the store failed under the cell.
    pub(super) fn is_poisoned(&self) -> bool {
        self.lock().poisoned
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No change panics half way, so the state behind a poisoned lock is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the cell under its lock, then tells the writer if there is something to write.
    ///
    /// While the run's future is being polled, the writer is told when the poll ends: a short task is one commit.
    fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner);
        self.unlock(inner);
        result
    }

    fn unlock(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>) {
        let dirty = inner.mark_dirty();
        drop(inner);
        if dirty && self.handles.writer.enqueue(Arc::clone(self)) {
            self.handles.flush.notify_one();
        }
    }

    /// Takes in what the writer has committed, up to the seq `last`, and wakes those who wait for it. Only the publisher
    /// calls this.
    pub(super) fn publish(self: &Arc<Self>, last: u64) {
        let mut inner = self.lock();
        let inner_ref = &mut *inner;
        // The writer may have taken more meanwhile, for a commit that is still under way.
        let durable = inner_ref.committing.partition_point(|event| event.seq <= last);
        let mut freed = 0;
        let had_ended = lifecycle::is_terminal(inner_ref.committed.state());
        for event in inner_ref.committing.drain(..durable) {
            freed += event.size;
            inner_ref.committed.take(event, inner_ref.followers > 0);
        }
        inner_ref.uncommitted -= freed;
        self.handles.limits.uncommitted_sub(freed);
        // In the fold, and for a time in the ring for streams.
        inner_ref.memory.charge(2 * freed);
        let ended = lifecycle::is_terminal(inner_ref.committed.state());
        if let Some(checkpoint) = inner_ref.committed.checkpoint_due(ended) {
            inner_ref.pending.checkpoint = Some(checkpoint);
            // With the row the store knows that the log is covered to its end, and when it may go.
            inner_ref.pending.row |= ended;
        }
        if ended {
            let (Identity { id, spec, owner, .. }, task) = (&self.identity, inner_ref.committed.task());
            self.handles.finished.put(*id, &spec.name, owner, &task);
            if !had_ended {
                self.handles.outcomes.count(&spec.name, inner_ref.committed.state());
            }
        }
        let wakers = inner_ref.take_wakers();
        self.unlock(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Gives the cell up because the store failed. What was committed stands, and recovery goes on from there.
    pub(super) fn abandon(&self) {
        let mut inner = self.lock();
        if inner.poisoned {
            return;
        }
        inner.poisoned = true;
        self.handles.limits.uncommitted_sub(inner.uncommitted);
        inner.uncommitted = 0;
        inner.pending = WriteBuffer::default();
        inner.committing.clear();
        let abort = inner.run.take().and_then(|run| run.abort);
        drop(inner);
        self.handles.live.forget(self.identity.id, self);
        if let Some(abort) = abort {
            abort.abort();
        }
        self.wake_all();
    }

    /// Aborts the run and leaves the task as it is, for recovery at the next start.
    pub(super) fn abort_run(&self) {
        if let Some(abort) = self.lock().run.as_ref().and_then(|run| run.abort.clone()) {
            abort.abort();
        }
    }

    /// Tells those who wait that nothing more will be committed.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake_all();
    }

    /// Wakes all watchers and the agent.
    fn wake_all(&self) {
        let wakers = self.lock().take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Inner {
    /// Takes the wakers of all watchers and of the agent. Wake them after unlocking.
    fn take_wakers(&mut self) -> Vec<Waker> {
        let mut wakers: Vec<Waker> = self.watchers.iter_mut().filter_map(|(_, waker)| waker.take()).collect();
        wakers.append(&mut self.agent_wakers);
        wakers
    }

    /// Returns whether the writer has to be told that there is something to write: not if it was told already, and not
    /// while the run's future is being polled, as the end of the poll tells it.
    fn mark_dirty(&mut self) -> bool {
        let polling = self.run.as_ref().is_some_and(|run| run.polling);
        let news = !polling && !self.dirty && self.pending.is_some();
        self.dirty |= news;
        news
    }

    /// Says that the row has to be written even if no state changes: a run begins or ends.
    fn touch_row(&mut self) {
        if self.head.is_some() {
            self.pending.row = true;
        }
    }

    /// Returns whether every appended record is committed.
    fn is_settled(&self) -> bool {
        self.committing.is_empty() && self.pending.events.is_empty()
    }
}

impl TaskCell {
    /// Takes the committed fold of a task that waits, if nothing was appended since and nothing went wrong.
    fn take_fold(&mut self) -> Option<OpenFold> {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let head = inner.head.filter(|head| head.seq == inner.committed.seq())?;
        if inner.poisoned || inner.refused {
            return None;
        }
        inner.committed.open_fold(head.time_us, head.bytes)
    }
}

impl Drop for TaskCell {
    fn drop(&mut self) {
        if let Some(fold) = self.take_fold() {
            self.handles.folds.put(self.identity.id, fold);
        }
        self.handles.live.forget(self.identity.id, self);
    }
}

impl std::fmt::Debug for TaskCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskCell").field("id", &self.identity.ids.task).finish_non_exhaustive()
    }
}
