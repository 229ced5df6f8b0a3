//! How much the engine takes on: every admission limit, and what is refused beyond it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::agents::EmitError;

/// Bytes that one run may have admitted and not yet committed before its emits wait.
pub(super) const RUN_WINDOW: usize = 256 << 10;
/// Records of one task.
const TASK_RECORDS: u64 = 50_000;
/// Bytes of one task's log.
const TASK_BYTES: usize = 64 << 20;

/// Limits of a whole engine. Work beyond one is refused with a clear answer, never queued without bound.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Tasks that run at the same time.
    pub running: usize,
    /// Bytes admitted and not yet committed, over all tasks.
    pub uncommitted: usize,
    /// Streams open at the same time.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { running: 10_000, uncommitted: 64 << 20, streams: 100_000 }
    }
}

/// Whether a task of this many records and bytes may get another record.
pub(super) fn task_room(records: u64, bytes: usize) -> Result<(), EmitError> {
    if records >= TASK_RECORDS {
        return Err(EmitError::TooLarge("50,000 records"));
    }
    if bytes >= TASK_BYTES {
        return Err(EmitError::TooLarge("64 MiB"));
    }
    Ok(())
}

/// What is used of the limits now.
#[derive(Debug, Default)]
pub(super) struct Usage {
    limits: Limits,
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
    pub(super) fn new(limits: Limits) -> Arc<Self> {
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

    /// Whether more may be admitted before something is committed.
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
