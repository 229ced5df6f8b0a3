//! How many calls there were: by rpc, wire and outcome.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::{Binding, Error};

/// One count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCount {
    /// The rpc; empty for a request that was refused before it was known which one it meant.
    pub rpc: &'static str,
    /// The wire.
    pub binding: Binding,
    /// `OK`, or the reason of the error. A stream counts as what its beginning was.
    pub code: &'static str,
    /// How many, since the start.
    pub count: u64,
}

/// Counts calls.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    counts: RwLock<HashMap<(Binding, &'static str, &'static str), AtomicU64>>,
}

impl Meter {
    pub(crate) fn count<T>(&self, binding: Binding, rpc: &'static str, outcome: &Result<T, Error>) {
        let key = (binding, rpc, outcome.as_ref().map_or_else(|error| error.kind().reason, |_| "OK"));
        if let Some(count) = self.counts.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(key).or_default().get_mut() += 1;
    }

    pub(crate) fn read(&self) -> Vec<CallCount> {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        let counts = counts.iter().map(|((binding, rpc, code), count)| {
            let count = count.load(Ordering::Relaxed);
            CallCount { rpc, binding: *binding, code, count }
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_by_key(|count| (count.rpc, count.binding.name(), count.code));
        counts
    }
}
