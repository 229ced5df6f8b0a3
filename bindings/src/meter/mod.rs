//! Statistics of calls: their number and latency by rpc, binding and code.
//!
//! Counting a call walks two short lists and takes three atomic additions. It takes no lock, and allocates only for the
//! first call with a new combination of rpc, binding and code.

mod append_map;
mod histogram;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use append_map::AppendMap;
pub use histogram::{Histogram, HistogramCounts, nanos};

use crate::Binding;

/// The code of successful calls.
pub(crate) const OK: &str = "OK";

/// Upper bounds of the latency buckets, in nanoseconds: from 100 microseconds to one minute.
static LATENCY_BOUNDS: [u64; 18] = [
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
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// The statistics of one rpc over one binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStats {
    /// The name of the rpc, or empty for requests that were refused before their rpc was known.
    pub rpc: &'static str,
    /// The binding.
    pub binding: Binding,
    /// The number of calls since the start for each code: `OK`, or the reason of the error. The code of a stream says
    /// whether it could be opened.
    pub codes: Vec<(&'static str, u64)>,
    /// The time from the start of the handler to its answer, or to the opening of the stream, in nanoseconds. It does not
    /// include calls that were refused before their handler ran.
    pub latency: HistogramCounts,
}

/// Counts calls.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bindings: [AppendMap<&'static str, RpcMeter>; Binding::ALL.len()],
}

/// The counters of one rpc over one binding.
#[derive(Debug)]
struct RpcMeter {
    codes: AppendMap<&'static str, AtomicU64>,
    latency: Histogram,
}

impl Default for RpcMeter {
    fn default() -> Self {
        Self { codes: AppendMap::default(), latency: Histogram::new(&LATENCY_BOUNDS) }
    }
}

impl Meter {
    /// Counts a call. `took` is the time that its handler took, or `None` if the call was refused before.
    pub(crate) fn count(&self, binding: Binding, rpc: &'static str, code: &'static str, took: Option<Duration>) {
        let rpc = self.bindings[binding as usize].get(rpc);
        rpc.codes.get(code).fetch_add(1, Ordering::Relaxed);
        if let Some(took) = took {
            rpc.latency.observe(nanos(took));
        }
    }

    /// Returns a snapshot, sorted by rpc and binding.
    pub(crate) fn read(&self) -> Vec<CallStats> {
        let mut stats: Vec<_> = Binding::ALL
            .iter()
            .zip(&self.bindings)
            .flat_map(|(binding, rpcs)| {
                rpcs.iter().map(|(rpc, meter)| {
                    let codes = meter.codes.iter().map(|(code, count)| (*code, count.load(Ordering::Relaxed)));
                    let mut codes: Vec<_> = codes.collect();
                    codes.sort_unstable();
                    CallStats { rpc, binding: *binding, codes, latency: meter.latency.read() }
                })
            })
            .collect();
        stats.sort_by_key(|stats| (stats.rpc, stats.binding.name()));
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::kinds;

    #[test]
    fn calls_are_counted_by_rpc_binding_and_code() {
        let meter = Meter::default();
        let took = Some(Duration::from_micros(120));
        let invalid = kinds::INVALID_PARAMS.reason;
        meter.count(Binding::Grpc, "GetTask", OK, took);
        meter.count(Binding::Grpc, "GetTask", OK, took);
        meter.count(Binding::HttpJson, "GetTask", OK, took);
        meter.count(Binding::Grpc, "GetTask", invalid, None);
        meter.count(Binding::Grpc, "", invalid, None);
        let read = meter.read();
        let counts: Vec<_> = read
            .iter()
            .map(|stats| (stats.rpc, stats.binding.name(), &stats.codes[..], stats.latency.count()))
            .collect();
        assert_eq!(
            counts,
            [
                ("", "grpc", &[(invalid, 1)][..], 0),
                ("GetTask", "grpc", &[(invalid, 1), (OK, 2)][..], 2),
                ("GetTask", "http", &[(OK, 1)][..], 1),
            ]
        );
    }
}
