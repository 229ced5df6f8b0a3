//! A histogram without locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A histogram of integers. The caller chooses the unit.
///
/// Metrics libraries guard their histograms with a mutex. Observing a value here takes two atomic additions.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One bucket per bound, and one for values above the last bound.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram. `bounds` are the inclusive upper bounds of the buckets, in ascending order.
    pub fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    /// Adds a value.
    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Returns a snapshot of the counts.
    pub fn read(&self) -> HistogramCounts {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        HistogramCounts { bounds: self.bounds, buckets, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// A snapshot of a [`Histogram`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramCounts {
    /// The upper bounds of the buckets. The last bucket has none.
    pub bounds: &'static [u64],
    /// The number of values in each bucket.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl HistogramCounts {
    /// Returns the number of values in all buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Returns a duration in nanoseconds, saturated at [`u64::MAX`].
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
