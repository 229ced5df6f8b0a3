//! The metrics of a server, in the text format of Prometheus. This module owns their names.
//!
//! Every layer keeps its own counters, which cost it a few atomic additions; they are read here when somebody asks.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tricord_bindings::meter::HistogramCounts;

use super::Server;
use super::process::ProcessFigures;
use crate::engine::Engine;
use crate::schema::A2aService;

/// Nanoseconds in a second: durations are counted in the former and shown in the latter.
const NANOS: f64 = 1e9;

/// The content type of [`Metrics::encode`].
pub(super) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The metrics of one server.
#[derive(Debug)]
pub(crate) struct Metrics(Registry);

impl Metrics {
    /// Registers the metrics of this server and its engine.
    pub(crate) fn new<S: A2aService>(server: Server<S>, engine: Engine) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ServerCollector { server, engine }));
        registry.register_collector(Box::new(ProcessCollector));
        Self(registry)
    }

    /// Reads all metrics.
    ///
    /// # Errors
    /// Never in practice: the text grows in memory.
    pub(super) fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.0)?;
        Ok(text)
    }
}

/// Reads what the server, its engine and its store counted.
struct ServerCollector<S> {
    server: Server<S>,
    engine: Engine,
}

impl<S> fmt::Debug for ServerCollector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerCollector")
    }
}

impl<S: A2aService> Collector for ServerCollector<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        let load = self.engine.load();
        gauge(out, "tricord_runs", "Runs in progress", load.runs as u64)?;
        gauge(out, "tricord_streams", "Open event streams", load.streams as u64)?;
        gauge(out, "tricord_cells", "Tasks in memory", load.cells as u64)?;
        gauge(out, "tricord_connections", "Open connections on the public port", self.server.connections() as u64)?;
        gauge(out, "tricord_ready", "Whether new work is accepted, as 0 or 1", u64::from(self.engine.is_ready()))?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let mut info = out.encode_descriptor("tricord_build_info", "The version that runs", None, MetricType::Gauge)?;
        info.encode_family(&version)?.encode_gauge(&1u64)?;
        self.memory(out)?;
        self.tasks(out)?;
        self.store(out)?;
        self.calls(out)
    }
}

impl<S: A2aService> ServerCollector<S> {
    fn memory(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (uncommitted, most) = self.engine.uncommitted();
        let budgets = self.server.budgets().into_iter().chain(self.engine.budgets());
        let mut shares: Vec<_> = budgets.map(|b| (b.name(), b.used(), b.limit(), b.refused())).collect();
        shares.push(("uncommitted", uncommitted, most, 0));
        let help = "Memory in use on behalf of peers, by share of the budget";
        let mut used = out.encode_descriptor("tricord_memory_bytes", help, None, MetricType::Gauge)?;
        for (share, bytes, ..) in &shares {
            used.encode_family(&[("share", *share)])?.encode_gauge(&(*bytes as u64))?;
        }
        let help = "The most of it, by share of the budget";
        let mut limits = out.encode_descriptor("tricord_memory_limit_bytes", help, None, MetricType::Gauge)?;
        for (share, _, limit, _) in &shares {
            limits.encode_family(&[("share", *share)])?.encode_gauge(&(*limit as u64))?;
        }
        let help = "Work that was refused because a share of the budget was used up";
        let mut refusals = out.encode_descriptor("tricord_memory_refusals", help, None, MetricType::Counter)?;
        for (share, _, _, refused) in &shares {
            labelled_counter(&mut refusals, &[("share", *share)], *refused)?;
        }
        Ok(())
    }

    fn tasks(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Tasks that reached a terminal state, by agent and state";
        let mut ended = out.encode_descriptor("tricord_tasks_ended", help, None, MetricType::Counter)?;
        for outcome in self.engine.outcomes() {
            let state = outcome.state.as_str_name().trim_start_matches("TASK_STATE_").to_ascii_lowercase();
            labelled_counter(&mut ended, &[("agent", &*outcome.agent), ("state", &state)], outcome.count)?;
        }
        Ok(())
    }

    fn store(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let commits = self.engine.store().commit_stats();
        counter(out, "tricord_commits", "Transactions of the store", commits.commits())?;
        counter(out, "tricord_commit_tasks", "Tasks written in transactions of the store", commits.appends())?;
        counter(
            out,
            "tricord_commit_seconds",
            "Time spent in transactions of the store",
            commits.time().as_secs_f64(),
        )?;
        let (name, help) = ("tricord_commit_duration_seconds", "Duration of one transaction of the store");
        histogram(&mut out.encode_descriptor(name, help, None, MetricType::Histogram)?, &commits.duration, NANOS)?;
        let (name, help) = ("tricord_commit_batch_size", "Tasks written in one transaction of the store");
        histogram(&mut out.encode_descriptor(name, help, None, MetricType::Histogram)?, &commits.batch_size, 1.0)?;
        let damage = self.engine.store().damage_count();
        counter(out, "tricord_store_damage", "Times that damaged data was found in the store", damage)?;
        match self.engine.store().size_bytes() {
            Some(bytes) => gauge(out, "tricord_store_bytes", "Size of the store's files", bytes),
            None => Ok(()),
        }
    }

    fn calls(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.server.call_stats();
        let mut calls = out.encode_descriptor("tricord_calls", "Calls answered", None, MetricType::Counter)?;
        for call in &stats {
            for (code, count) in &call.codes {
                let labels = [("rpc", call.rpc), ("binding", call.binding.name()), ("code", code)];
                labelled_counter(&mut calls, &labels, *count)?;
            }
        }
        let help = "Time from an authorized call to its answer, or to the beginning of its stream";
        let name = "tricord_call_duration_seconds";
        let mut durations = out.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for call in stats.iter().filter(|call| call.latency.count() > 0) {
            let labels = [("rpc", call.rpc), ("binding", call.binding.name())];
            histogram(&mut durations.encode_family(&labels)?, &call.latency, NANOS)?;
        }
        Ok(())
    }
}

/// Reads the figures of the process, under the names that Prometheus' own libraries use.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(figures) = ProcessFigures::read() else { return Ok(()) };
        let out = &mut encoder;
        gauge(out, "process_resident_memory_bytes", "Resident memory size in bytes", figures.resident_bytes)?;
        counter(out, "process_cpu_seconds", "User and system CPU time in seconds", figures.cpu_seconds)?;
        gauge(out, "process_open_fds", "Open file descriptors", figures.open_fds)?;
        let help = "Start time of the process, in seconds since the Unix epoch";
        gauge(out, "process_start_time_seconds", help, figures.start_seconds)
    }
}

fn gauge(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
    out.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// A counter without labels. Its name gets `_total` at the end.
fn counter(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: impl EncodeCounterValue) -> fmt::Result {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn labelled_counter(metric: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

/// A histogram whose values are divided by `unit`.
fn histogram(metric: &mut MetricEncoder<'_>, counts: &HistogramCounts, unit: f64) -> fmt::Result {
    let bounds = counts.bounds.iter().map(|bound| *bound as f64 / unit).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(counts.buckets.iter().copied()).collect();
    metric.encode_histogram::<NoLabelSet>(counts.sum as f64 / unit, counts.count(), &buckets, None)
}
