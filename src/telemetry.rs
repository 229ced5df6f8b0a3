//! Writes log lines to stderr, as text or JSON, from a thread of its own so that a slow terminal blocks nothing.

use std::io::{self, IsTerminal as _, Write, stderr};

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
    let lines = tracing_subscriber::fmt::layer().with_writer(move || OneLine(writer.clone())).with_ansi(colours);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Fails only if a subscriber was already set by a test or an embedding program. That one is kept.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    log_panics();
    Ok(Guard { _worker: worker })
}

/// Logs panics as lines like all others. The default hook prints beside the log, in lines of its own.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("a value that is not a text");
        let location = info.location().map(ToString::to_string);
        let backtrace = std::backtrace::Backtrace::capture();
        let backtrace = match backtrace.status() {
            std::backtrace::BacktraceStatus::Captured => Some(backtrace.to_string()),
            _ => None,
        };
        tracing::error!(panic = text, location, backtrace, "a panic");
    }));
}

/// Writes characters as escapes that end a line, move a terminal or turn text around beyond ASCII, where the formats leave
/// them as they are.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let escaped = std::str::from_utf8(bytes).ok().and_then(escape);
        self.0.write_all(escaped.as_ref().map_or(bytes, String::as_bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the text with these characters as `\\u2028`, or `None` if there are none.
fn escape(text: &str) -> Option<String> {
    let is_bad = |c: char| matches!(c, '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.is_ascii() || !text.contains(is_bad) {
        return None;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bad(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_line_or_moves_a_terminal_is_written_as_an_escape() {
        let line = |text: &str| {
            let mut out = OneLine(Vec::new());
            out.write_all(text.as_bytes()).unwrap();
            String::from_utf8(out.0).unwrap()
        };
        assert_eq!(line("plain \u{e9}\u{1f600}\n"), "plain \u{e9}\u{1f600}\n");
        assert_eq!(
            line("{\"a\":\"b\u{9b}\u{85}c\u{2028}\u{202e}\"}\n"),
            "{\"a\":\"b\\u009b\\u0085c\\u2028\\u202e\"}\n"
        );
        let parsed: serde_json::Value = serde_json::from_str(&line("\"\u{2029}\"")).unwrap();
        assert_eq!(parsed, "\u{2029}");
    }
}
