//! Admission limits: how much the engine takes on, and what it refuses beyond that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::agents::EmitError;
use crate::limits::EngineLimits;
use crate::store::MAX_SEQ;

use super::error::EngineError;

/// What is in use of each limit.
#[derive(Debug, Default)]
pub(super) struct Usage {
    limits: EngineLimits,
    running: AtomicUsize,
    uncommitted: AtomicUsize,
    streams: AtomicUsize,
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
        Arc::new(Self { limits, ..Self::default() })
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

    /// Checks that a task of this many records and bytes may get another record.
    ///
    /// # Errors
    /// [`EmitError::TooLarge`] at a limit.
    pub(super) fn check_task_size(&self, records: u64, bytes: usize) -> Result<(), EmitError> {
        // The last seq that a log can hold is kept for the end of the task.
        if records >= self.limits.task_records.min(MAX_SEQ - 1) {
            return Err(EmitError::TooLarge("records of one task"));
        }
        if bytes >= self.limits.task_bytes {
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
