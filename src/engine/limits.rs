//! Admission limits: how much the engine takes on, and what it refuses beyond that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message as _;
use tokio::sync::Notify;
use tricord_bindings::Encoded;
use tricord_bindings::budget::{Budget, BudgetPermit};
use tricord_bindings::offload::{LARGE, Offload};

use crate::agents::EmitError;
use crate::limits::EngineLimits;
use crate::schema::Task;
use crate::store::MAX_SEQ;
use crate::task::fold;

use super::error::EngineError;

/// What a task takes in memory for each byte of its log: its records while they are folded, then the value.
const FOLDED: usize = 3;

/// What a page of events takes: about 32 KiB of records, and eleven times as much once they are decoded, if they are small.
const REPLAY: usize = 384 << 10;

/// How long a stream waits for the memory of others: longer than one that does not read may keep it.
const REPLAY_PATIENCE: Duration = Duration::from_secs(60);

/// How long a reader waits for the memory that others use, in turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is in use of each limit.
#[derive(Debug)]
pub(super) struct Usage {
    limits: EngineLimits,
    running: AtomicUsize,
    uncommitted: AtomicUsize,
    streams: AtomicUsize,
    /// What tasks take that run or are read.
    pub(super) tasks: Arc<Budget>,
    /// What events take that streams read back from the store.
    pub(super) replays: Arc<Budget>,
    /// Where large tasks are folded.
    pub(super) offload: Offload,
    /// Notified when the last run ends.
    idle: Notify,
}

/// The right to one run or stream. Dropping it gives the right back.
#[derive(Debug)]
pub(super) struct Permit {
    usage: Arc<Usage>,
    counter: fn(&Usage) -> &AtomicUsize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if (self.counter)(&self.usage).fetch_sub(1, Ordering::AcqRel) == 1 {
            self.usage.idle.notify_waiters();
        }
    }
}

impl Usage {
    pub(super) fn new(limits: EngineLimits) -> Arc<Self> {
        Arc::new(Self {
            running: AtomicUsize::new(0),
            uncommitted: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            tasks: Budget::new("tasks", limits.tasks),
            replays: Budget::new("replays", limits.replays),
            offload: Offload::default(),
            idle: Notify::new(),
            limits,
        })
    }

    /// Takes a permit for a run.
    ///
    /// # Errors
    /// [`EngineError::Busy`] at the limit.
    pub(super) fn run(self: &Arc<Self>) -> Result<Permit, EngineError> {
        let permit = self.permit(|usage| &usage.running, self.limits.running);
        permit.ok_or(EngineError::Busy("tasks running at the same time"))
    }

    /// Takes a permit for a stream.
    ///
    /// # Errors
    /// [`EngineError::Busy`] at the limit.
    pub(super) fn stream(self: &Arc<Self>) -> Result<Permit, EngineError> {
        self.permit(|usage| &usage.streams, self.limits.streams).ok_or(EngineError::Busy("open streams"))
    }

    fn permit(self: &Arc<Self>, counter: fn(&Usage) -> &AtomicUsize, limit: usize) -> Option<Permit> {
        if counter(self).fetch_add(1, Ordering::AcqRel) < limit {
            return Some(Permit { usage: Arc::clone(self), counter });
        }
        counter(self).fetch_sub(1, Ordering::AcqRel);
        None
    }

    /// Waits until no run is under way.
    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.running() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Takes memory for a message that becomes a task's, of about this many bytes once it is decoded: the agent's copy and
    /// that in the history.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if too little is left.
    pub(super) fn message(&self, bytes: usize) -> Result<BudgetPermit, EngineError> {
        self.tasks.permit(2 * bytes).map_err(|_| EngineError::Memory("tasks"))
    }

    /// Waits for memory for a task whose log has this many bytes.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if too little was given back in time.
    pub(super) async fn task(&self, log: usize) -> Result<BudgetPermit, EngineError> {
        self.tasks.wait(FOLDED * log, PATIENCE).await.map_err(|_| EngineError::Memory("tasks"))
    }

    /// Returns a task with as many messages of its history as a client wants. Only a task that has more is copied.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the copy is large and too little memory is left.
    pub(super) fn limited(
        &self,
        task: &Arc<Encoded<Task>>,
        history: Option<u32>,
    ) -> Result<Arc<Encoded<Task>>, EngineError> {
        match fold::limited(task.value(), history) {
            Some(limited) => self.copied(limited),
            None => Ok(Arc::clone(task)),
        }
    }

    /// Returns a task, as it was when its newest message was accepted, without that message: its sender knows it.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the copy is large and too little memory is left.
    pub(super) fn without_newest(&self, task: &Arc<Encoded<Task>>) -> Result<Arc<Encoded<Task>>, EngineError> {
        self.copied(fold::without_newest(task.value()))
    }

    fn copied(&self, limited: Task) -> Result<Arc<Encoded<Task>>, EngineError> {
        let bytes = limited.encoded_len();
        let mut limited = Arc::new(Encoded::new(limited));
        if bytes >= LARGE {
            let permit = self.tasks.permit(2 * bytes).map_err(|_| EngineError::Memory("tasks"))?;
            Encoded::charge(&mut limited, permit);
        }
        Ok(limited)
    }

    /// Waits for memory for a page of events that a stream reads back from the store.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if too little was given back in time.
    pub(super) async fn replay(&self) -> Result<BudgetPermit, EngineError> {
        self.replays.wait(REPLAY, REPLAY_PATIENCE).await.map_err(|_| EngineError::Memory("replays"))
    }

    /// Returns how many bytes are appended and not committed, and how many may be.
    pub(super) fn uncommitted(&self) -> (usize, usize) {
        (self.uncommitted.load(Ordering::Relaxed), self.limits.uncommitted)
    }

    /// Checks that a task of this many records and bytes may get another record of `more` bytes.
    ///
    /// # Errors
    /// [`EmitError::TooLarge`] at a limit.
    pub(super) fn check_task_size(&self, records: u64, bytes: usize, more: usize) -> Result<(), EmitError> {
        // The last seq that a log can hold is kept for the end of the task.
        if records >= self.limits.task_records.min(MAX_SEQ - 1) {
            return Err(EmitError::TooLarge("records of one task"));
        }
        if bytes.saturating_add(more) > self.limits.task_bytes {
            return Err(EmitError::TooLarge("bytes of one task"));
        }
        Ok(())
    }

    /// Returns whether a run with this many uncommitted bytes may append more.
    pub(super) fn run_has_room(&self, uncommitted: usize) -> bool {
        uncommitted < self.limits.uncommitted_per_run
    }

    /// Returns whether more may be appended, over all tasks, before something is committed.
    pub(super) fn has_room(&self) -> bool {
        self.uncommitted.load(Ordering::Acquire) < self.limits.uncommitted
    }

    pub(super) fn uncommitted_add(&self, bytes: usize) {
        self.uncommitted.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn uncommitted_sub(&self, bytes: usize) {
        self.uncommitted.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Acquire)
    }
}
