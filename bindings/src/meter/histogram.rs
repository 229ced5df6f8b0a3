//! A histogram that is written without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts whole numbers by size. The unit is the caller's.
///
/// The histograms of metrics libraries sit behind a mutex; this one takes two atomic additions a value.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One per bound, and a last one for what is larger.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Makes an empty histogram with these upper bounds, which are inclusive and ascending.
    pub fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn read(&self) -> HistogramCounts {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        HistogramCounts { bounds: self.bounds, buckets, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// What a [`Histogram`] held when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramCounts {
    /// The upper bounds of all buckets but the last, which has none.
    pub bounds: &'static [u64],
    /// The number of values in each bucket.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl HistogramCounts {
    /// The number of all values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// A duration in nanoseconds, or the largest number of them.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[1, 10]);
        for value in [0, 1, 2, 10, 11, 100] {
            histogram.observe(value);
        }
        let read = histogram.read();
        assert_eq!((read.buckets.as_slice(), read.sum, read.count()), (&[2, 2, 2][..], 124, 6));
    }
}
