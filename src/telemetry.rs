//! Writes log lines to stderr, as text or JSON, from a thread of its own so that a slow terminal blocks nothing.

use std::io::{IsTerminal as _, stderr};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tricord_bindings::pipeline::ACCESS;

use crate::config::{LogConfig, LogFormat};

/// How many lines may wait to be written. Further lines are dropped.
const WAITING_LINES: usize = 16_384;

/// Writes the waiting lines when it is dropped. Keep it until the process ends.
#[must_use = "log lines are only written while the guard lives"]
#[derive(Debug)]
pub(crate) struct Guard {
    _worker: WorkerGuard,
}

/// Starts writing the log lines of the process. A second call changes nothing.
///
/// # Errors
/// When the level cannot be parsed.
pub(crate) fn start(log: &LogConfig) -> Result<Guard, String> {
    let filter: Targets = log.level.parse().map_err(|error| format!("log.level: {error}"))?;
    // When the access log is off, calls do not even get a span.
    let filter = filter.with_target(ACCESS, if log.access { LevelFilter::INFO } else { LevelFilter::OFF });
    let (writer, worker) =
        NonBlockingBuilder::default().buffered_lines_limit(WAITING_LINES).lossy(true).finish(stderr());
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Fails only if a subscriber was already set by a test or an embedding program. That one is kept.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Ok(Guard { _worker: worker })
}
