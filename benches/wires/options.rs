//! The arguments of the benchmark.

use clap::{Parser, ValueEnum};

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// From exec to the first card
    Start,
    /// GetTask
    Get,
    /// A blocking SendMessage
    Send,
    /// SendStreamingMessage, by event
    Stream,
    /// Many subscribers to one task, by delivery
    Fanout,
    /// Memory of idle streams
    Idle,
    /// Memory after many finished tasks
    Fill,
}

/// Load tricord over its three bindings, beside bare axum and tonic servers with the same types and no task engine
///
/// `cargo bench --bench wires -- [OPTIONS]`. A request counts only if its answer has a completed task, and a stream
/// only if all of its events arrived.
#[derive(Debug, Parser)]
#[command(name = "wires")]
pub struct Options {
    /// A short run, for a first look: one round, short cells, no 200,000 tasks
    #[arg(long)]
    pub quick: bool,

    /// Measure only this; may be given several times
    #[arg(long, value_name = "PART", value_enum)]
    pub only: Vec<Part>,

    /// How often every cell is measured; medians are printed [default: 3, quick: 1]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// How long a cell is measured in a round [default: 1, quick: 0.5]
    #[arg(long, value_name = "S")]
    secs: Option<f64>,

    /// Number of finished tasks after which memory is compared with that after 20,000 [default: 200000, quick: 20000]
    #[arg(long, value_name = "N")]
    fill: Option<usize>,

    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    pub fn secs(&self) -> f64 {
        self.secs.unwrap_or(if self.quick { 0.5 } else { 1.0 }).max(0.1)
    }

    pub fn fill(&self) -> usize {
        self.fill.unwrap_or(if self.quick { 20_000 } else { 200_000 })
    }
}
