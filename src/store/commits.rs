//! Counts of commits, for operators and the benchmark.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Commits since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitCounts {
    /// Transactions that succeeded.
    pub commits: u64,
    /// Appends in them; by commits, the mean batch.
    pub appends: u64,
    /// Time that they took, from the first statement to the durable end.
    pub time: Duration,
}

/// The counters behind it, written by the writer alone.
#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    appends: AtomicU64,
    nanos: AtomicU64,
}

impl Counters {
    pub(super) fn count(&self, appends: usize, time: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.appends.fetch_add(appends as u64, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> CommitCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let time = Duration::from_nanos(read(&self.nanos));
        CommitCounts { commits: read(&self.commits), appends: read(&self.appends), time }
    }
}
