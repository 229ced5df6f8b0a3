//! LogConfig lines on stderr: as text or JSON, written by a thread of their own so that a slow terminal holds nobody up.

use std::io::{IsTerminal as _, stderr};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tricord_bindings::pipeline::ACCESS;

use crate::config::{LogConfig, LogFormat};

/// Lines that may wait to be written; more are dropped.
const WAITING_LINES: usize = 16_384;

/// Writes what waits when it is dropped; keep it until the process ends.
#[must_use = "lines are written only while it lives"]
#[derive(Debug)]
pub struct Guard {
    _worker: WorkerGuard,
}

/// Starts writing log lines. For the process, once: a second call changes nothing.
///
/// # Errors
/// When the level is none.
pub fn start(log: &LogConfig) -> Result<Guard, String> {
    let filter: Targets = log.level.parse().map_err(|error| format!("log.level: {error}"))?;
    // Off means that calls do not even get a span.
    let filter = filter.with_target(ACCESS, if log.access { LevelFilter::INFO } else { LevelFilter::OFF });
    let (writer, worker) =
        NonBlockingBuilder::default().buffered_lines_limit(WAITING_LINES).lossy(true).finish(stderr());
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Fails only where a subscriber was set before, in tests or by an embedding program: that one stays.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Ok(Guard { _worker: worker })
}
