//! Statistics of commits, for operators and for the benchmark.

use std::time::Duration;

use tricord_bindings::meter::{Histogram, HistogramCounts, nanos};

/// Upper bounds of the duration buckets, in nanoseconds: from a file system in memory to a disk in trouble.
static DURATION_BOUNDS: [u64; 14] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    5_000_000_000,
];

/// Upper bounds of the batch size buckets, in tasks.
static SIZE_BOUNDS: [u64; 11] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1024];

/// The commits that succeeded since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStats {
    /// How long they took, in nanoseconds: from the first statement until the data was durable.
    pub duration: HistogramCounts,
    /// How many tasks were written in each; none where only jobs of the store itself were.
    pub batch_size: HistogramCounts,
}

impl CommitStats {
    /// The number of commits.
    pub fn commits(&self) -> u64 {
        self.duration.count()
    }

    /// The number of tasks written in them, each counted once per commit.
    pub fn appends(&self) -> u64 {
        self.batch_size.sum
    }

    /// The time that they took together.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.duration.sum)
    }
}

/// Counts commits.
#[derive(Debug)]
pub(super) struct CommitMeter {
    duration: Histogram,
    batch_size: Histogram,
}

impl Default for CommitMeter {
    fn default() -> Self {
        Self { duration: Histogram::new(&DURATION_BOUNDS), batch_size: Histogram::new(&SIZE_BOUNDS) }
    }
}

impl CommitMeter {
    /// Counts a commit of this many tasks.
    pub(super) fn count(&self, appends: usize, time: Duration) {
        self.duration.observe(nanos(time));
        self.batch_size.observe(appends as u64);
    }

    /// The statistics so far.
    pub(super) fn read(&self) -> CommitStats {
        CommitStats { duration: self.duration.read(), batch_size: self.batch_size.read() }
    }
}
