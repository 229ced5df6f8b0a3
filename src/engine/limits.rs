//! How much the engine takes on: every admission limit, and what is refused beyond it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::agents::EmitError;
use crate::limits::EngineLimits;
use crate::store::MAX_SEQ;

/// What is used of the limits now.
#[derive(Debug, Default)]
pub(super) struct Usage {
    limits: EngineLimits,
    running: AtomicUsize,
    uncommitted: AtomicUsize,
    streams: AtomicUsize,
}

/// One use of a limit; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    usage: Arc<Usage>,
    what: fn(&Usage) -> &AtomicUsize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        (self.what)(&self.usage).fetch_sub(1, Ordering::AcqRel);
    }
}

impl Usage {
    pub(super) fn new(limits: EngineLimits) -> Arc<Self> {
        Arc::new(Self { limits, ..Self::default() })
    }

    /// A place for a run, if there is one.
    pub(super) fn run(self: &Arc<Self>) -> Option<Permit> {
        self.permit(|usage| &usage.running, self.limits.running)
    }

    /// A place for a stream, if there is one.
    pub(super) fn stream(self: &Arc<Self>) -> Option<Permit> {
        self.permit(|usage| &usage.streams, self.limits.streams)
    }

    fn permit(self: &Arc<Self>, what: fn(&Usage) -> &AtomicUsize, most: usize) -> Option<Permit> {
        if what(self).fetch_add(1, Ordering::AcqRel) < most {
            return Some(Permit { usage: Arc::clone(self), what });
        }
        what(self).fetch_sub(1, Ordering::AcqRel);
        None
    }

    /// Whether a task of this many records and bytes may get another record.
    pub(super) fn task_room(&self, records: u64, bytes: usize) -> Result<(), EmitError> {
        // Of what a log can hold the last place is for the end of the task.
        if records >= self.limits.task_records.min(MAX_SEQ - 1) {
            return Err(EmitError::TooLarge("records of one task"));
        }
        if bytes >= self.limits.task_bytes {
            return Err(EmitError::TooLarge("bytes of one task"));
        }
        Ok(())
    }

    /// Whether a run with so many bytes under way may append more before some are committed.
    pub(super) fn run_has_room(&self, uncommitted: usize) -> bool {
        uncommitted < self.limits.uncommitted_per_run
    }

    /// Whether more may be appended before something is committed.
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
