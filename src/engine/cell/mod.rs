//! One live task: its head (appended, only for checks) and its fold (committed, all that readers ever see).
//!
//! Runs, cancel, follow-ups and recovery all *append* through the cell: lock, check the lifecycle, number, push, unlock.
//! There is no await in here and no I/O. What was appended goes to the writer, which calls [`Pending::take`]; what it has
//! committed comes back through [`TaskCell::publish`], and only then can anybody see it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use slab::Slab;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tricord_bindings::Encoded;
use tricord_bindings::wkt::Struct;
use uuid::Uuid;

use crate::agents::EmitError;
use crate::schema::stream_response::Payload;
use crate::schema::{Message, StreamResponse, Task, TaskState};
use crate::store::{Append, ClaimKey, NewTask, Pending, Row, TaskHandle};
use crate::task::event::{Ids, LogEvent};
use crate::task::{fold, lifecycle};

mod append;
mod committed;

pub(super) use committed::{Committed, Fold};

use super::folds::OpenFold;
use super::{AgentSpec, Shared};

/// One live task.
pub struct TaskCell {
    pub(super) shared: Arc<Shared>,
    /// The task's id.
    pub id: Uuid,
    /// The ids that its events carry.
    pub ids: Ids,
    pub(super) handle: TaskHandle,
    /// The agent that works on it.
    pub spec: Arc<AgentSpec>,
    /// Whom it belongs to.
    pub owner: Arc<str>,
    inner: Mutex<Inner>,
}

/// The part of a cell that its lock guards.
pub(super) struct Inner {
    /// Appended: the state and place that checks go by; `None` before the task is created.
    pub(super) head: Option<Head>,
    /// What the log begins with, until the task is created.
    unsaved: Option<UnsavedTask>,
    pending: WriteBuffer,
    /// Taken by the writer, not yet published.
    committing: Vec<Arc<LogEvent>>,
    /// Bytes appended and not yet committed.
    pub(super) uncommitted: usize,
    pub(super) committed: Committed,
    /// The run that owns the task, if one is live.
    pub(super) run: Option<Run>,
    /// Runs so far.
    pub(super) runs: u32,
    /// Messages that no run has read.
    pub(super) incoming: VecDeque<Arc<Message>>,
    /// The answer of a run that made no task.
    pub(super) reply: Option<Arc<Encoded<StreamResponse>>>,
    /// The store failed under it: this cell is over, and the log says what is left.
    pub(super) poisoned: bool,
    /// The server is going down: what is committed now is all there will be.
    pub(super) closed: bool,
    /// Something that the writer took was not written, so nothing that follows it may be.
    refused: bool,
    watchers: Slab<Option<Waker>>,
    followers: usize,
    agent_wakers: Vec<Waker>,
    dirty: bool,
}

/// Appended, not necessarily committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) state: TaskState,
    pub(super) seq: u64,
    time_us: i64,
    /// When the state was entered.
    status_us: i64,
    bytes: usize,
}

struct UnsavedTask {
    metadata: Option<Struct>,
    message: Message,
    snapshot: bool,
    claim: Option<ClaimKey>,
}

/// Appended and waiting for the writer.
#[derive(Default)]
struct WriteBuffer {
    new: Option<NewTask>,
    claims: Vec<ClaimKey>,
    events: Vec<Arc<LogEvent>>,
    batch: Vec<u8>,
    row: bool,
    checkpoint: Option<(u64, Vec<u8>)>,
}

/// A run that owns the task.
pub(super) struct Run {
    pub(super) number: u32,
    /// The first run of the future that it belongs to.
    pub(super) first: u32,
    pub(super) cancelled: CancellationToken,
    pub(super) abort: Option<AbortHandle>,
    /// The run's future is being polled: its events are flushed when the poll ends.
    pub(super) polling: bool,
    /// It entered a state in which the task waits for the client.
    pub(super) asked: bool,
    /// It answered with a message; nothing more can come of it.
    pub(super) replied: bool,
    /// Whether it was resumed from AUTH_REQUIRED and has not noticed yet.
    pub(super) resumed: bool,
}

/// What a cell begins with.
#[expect(clippy::large_enum_variant, reason = "made once for a cell and taken apart at once")]
pub(super) enum CellSeed {
    /// A message that may become a task.
    New {
        /// The message.
        message: Message,
        /// The request's metadata.
        metadata: Option<Struct>,
        /// Whether a stream begins with this message.
        snapshot: bool,
        /// The idempotency key that the task makes good.
        claim: Option<ClaimKey>,
    },
    /// A task read from the store.
    Stored {
        /// The fold of its log.
        fold: OpenFold,
        /// When its state was entered.
        status_us: i64,
    },
}

impl TaskCell {
    pub(super) fn new(
        shared: Arc<Shared>,
        id: Uuid,
        ids: Ids,
        handle: TaskHandle,
        spec: Arc<AgentSpec>,
        owner: Arc<str>,
        seed: CellSeed,
    ) -> Arc<Self> {
        let (head, unsaved, committed) = match seed {
            CellSeed::New { message, metadata, snapshot, claim } => {
                let unsaved = UnsavedTask { metadata, message, snapshot, claim };
                (None, Some(unsaved), Committed::new(Box::new(fold::empty(&ids))))
            }
            CellSeed::Stored { fold, status_us } => {
                let state = state_of(fold.task.value());
                let head = Head { state, seq: fold.seq, time_us: fold.time_us, status_us, bytes: fold.bytes };
                (Some(head), None, Committed::stored(fold))
            }
        };
        Arc::new(Self {
            shared,
            id,
            ids,
            handle,
            spec,
            owner,
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
                reply: None,
                poisoned: false,
                closed: false,
                refused: false,
                watchers: Slab::new(),
                followers: 0,
                agent_wakers: Vec::new(),
                dirty: false,
            }),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics halfway through a change; a poisoned lock still guards a whole state.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the row has to be written even if no state changes: a run begins or ends.
    pub(super) fn touch_row(&self, inner: &mut Inner) {
        if inner.head.is_some() {
            inner.pending.row = true;
        }
    }

    /// Changes the cell under its lock, then gives it to the writer if there is something to write. While the run's
    /// future is being polled that waits for the end of the poll, so that a short task is one commit.
    pub(super) fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner);
        let dirty = inner.mark_dirty();
        drop(inner);
        if dirty {
            self.shared.writer.push(Arc::clone(self));
        }
        result
    }

    /// Takes in what the writer has committed, which is everything up to `last`, and wakes everybody who waited for it.
    /// Called by the publisher alone.
    pub(super) fn publish(self: &Arc<Self>, last: u64) {
        let mut inner = self.lock();
        let inner_ref = &mut *inner;
        // The writer may have taken more meanwhile, for a commit that is still under way.
        let durable = inner_ref.committing.partition_point(|event| event.seq <= last);
        let mut freed = 0;
        for event in inner_ref.committing.drain(..durable) {
            freed += event.size;
            inner_ref.committed.take(event, inner_ref.followers > 0);
        }
        inner_ref.uncommitted -= freed;
        self.shared.limits.uncommitted_sub(freed);
        let ended = lifecycle::is_terminal(state_of(inner_ref.committed.task.task()));
        if let Some(checkpoint) = inner_ref.committed.checkpoint_due(ended) {
            inner_ref.pending.checkpoint = Some(checkpoint);
            // With the row the store knows that the log is covered to its end, and when it may go.
            inner_ref.pending.row |= ended;
        }
        if ended {
            inner_ref.committed.end();
            if let Fold::Ended(task) = &inner_ref.committed.task {
                self.shared.finished.put(self.id, &self.spec.name, &self.owner, task);
            }
        }
        let wakers = inner_ref.take_wakers();
        let dirty = inner_ref.mark_dirty();
        drop(inner);
        if dirty {
            self.shared.writer.push(Arc::clone(self));
        }
        for waker in wakers {
            waker.wake();
        }
    }

    /// The store failed: the cell is over. What was committed stands; recovery goes on from there.
    pub(super) fn abandon(&self) {
        let mut inner = self.lock();
        if inner.poisoned {
            return;
        }
        inner.poisoned = true;
        self.shared.limits.uncommitted_sub(inner.uncommitted);
        inner.uncommitted = 0;
        inner.pending = WriteBuffer::default();
        inner.committing.clear();
        let abort = inner.run.take().and_then(|run| run.abort);
        drop(inner);
        self.shared.cells.forget(self);
        if let Some(abort) = abort {
            abort.abort();
        }
        self.wake_all();
    }

    /// Cuts the run off and leaves the task as it is, for recovery at the next start.
    pub(super) fn cut_off(&self) {
        if let Some(abort) = self.lock().run.as_ref().and_then(|run| run.abort.clone()) {
            abort.abort();
        }
    }

    /// Says that nothing more will be committed, to everybody who waits for it.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake_all();
    }

    /// Keeps the writer away until the next [`Pending::take`], as if it had been told already.
    #[cfg(test)]
    pub(super) fn keep_from_writer(&self) {
        self.lock().dirty = true;
    }

    /// Wakes everybody who watches the cell, and the agent.
    pub(super) fn wake_all(&self) {
        let wakers = self.lock().take_wakers();
        for waker in wakers {
            waker.wake();
        }
    }

    /// Wakes the agent alone.
    pub(super) fn wake_agent(&self) {
        let wakers = std::mem::take(&mut self.lock().agent_wakers);
        for waker in wakers {
            waker.wake();
        }
    }
}

impl Inner {
    /// Takes what wakes everybody who watches, and the agent; wake them after unlocking.
    fn take_wakers(&mut self) -> Vec<Waker> {
        let mut wakers: Vec<Waker> = self.watchers.iter_mut().filter_map(|(_, waker)| waker.take()).collect();
        wakers.append(&mut self.agent_wakers);
        wakers
    }

    /// Whether the writer has to be told that there is something to write: not if it was told already, and not while the
    /// run's future is being polled, whose end tells it.
    fn mark_dirty(&mut self) -> bool {
        let polling = self.run.as_ref().is_some_and(|run| run.polling);
        let news = !polling && !self.dirty && self.pending.is_some();
        self.dirty |= news;
        news
    }

    /// Whether every appended record is committed.
    pub(super) fn is_settled(&self) -> bool {
        self.committing.is_empty() && self.pending.events.is_empty()
    }

    /// Remembers the agent's waker until the next commit or message.
    pub(super) fn park_agent(&mut self, cx: &Context<'_>) {
        if !self.agent_wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.agent_wakers.push(cx.waker().clone());
        }
    }

    /// A place among the watchers; those who follow the stream keep committed events in the ring.
    pub(super) fn watch(&mut self, follows: bool) -> usize {
        self.followers += usize::from(follows);
        self.watchers.insert(None)
    }

    /// Gives the place up.
    pub(super) fn unwatch(&mut self, key: usize, follows: bool) {
        self.watchers.try_remove(key);
        self.followers -= usize::from(follows);
        if self.followers == 0 {
            self.committed.forget_ring();
        }
    }

    /// Whether one stream alone follows the task.
    pub(super) fn is_followed_once(&self) -> bool {
        self.followers == 1
    }

    /// Remembers a watcher's waker until the next commit.
    pub(super) fn park(&mut self, key: usize, cx: &Context<'_>) {
        if let Some(slot) = self.watchers.get_mut(key) {
            match slot {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                _ => *slot = Some(cx.waker().clone()),
            }
        }
    }

    /// The messages so far, appended ones included.
    pub(super) fn history(&self) -> Vec<Message> {
        let mut task = Task { history: self.committed.task.task().history.clone(), ..Task::default() };
        task.status = self.committed.task.task().status.clone();
        if let Some(unsaved) = &self.unsaved {
            task.history.push(unsaved.message.clone());
        }
        for event in self.committing.iter().chain(&self.pending.events) {
            if !matches!(event.update().map(|update| &update.value().payload), Some(Some(Payload::ArtifactUpdate(_)))) {
                fold::apply(&mut task, event);
            }
        }
        task.history
    }

    /// The live run with this number.
    pub(super) fn run(&mut self, number: u32) -> Result<&mut Run, EmitError> {
        if self.poisoned {
            return Err(EmitError::StoreLost);
        }
        match &mut self.run {
            Some(run) if run.number == number && !run.replied => Ok(run),
            _ => match self.head {
                Some(head) if lifecycle::is_terminal(head.state) => Err(EmitError::Ended(head.state)),
                _ => Err(EmitError::RunOver),
            },
        }
    }
}

impl WriteBuffer {
    fn is_some(&self) -> bool {
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
        let lease = self.shared.store.lease();
        Some(Append { task: self.handle, lease, follows, last, new, body: batch, row, checkpoint, claims })
    }

    fn refused(&self) {
        self.lock().refused = true;
    }
}

impl TaskCell {
    /// The committed fold of a task that waits, if nothing was appended since and nothing went wrong.
    fn take_fold(&mut self) -> Option<OpenFold> {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let head = inner.head.filter(|head| head.seq == inner.committed.seq)?;
        if inner.poisoned || inner.refused {
            return None;
        }
        inner.committed.take_fold(head.time_us, head.bytes)
    }
}

impl Drop for TaskCell {
    fn drop(&mut self) {
        if let Some(fold) = self.take_fold() {
            self.shared.folds.put(self.id, fold);
        }
        self.shared.cells.forget(self);
    }
}

impl std::fmt::Debug for TaskCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskCell").field("id", &self.ids.task).finish_non_exhaustive()
    }
}

/// A task's state; unspecified before its first record.
pub(super) fn state_of(task: &Task) -> TaskState {
    task.status.as_ref().map_or(TaskState::Unspecified, |status| status.state())
}
