//! `[log]` and `[protocol]`.

use crate::protocol::VERSION;
use crate::settings::Section;
use crate::settings::read::{boolean, choice, parsed};

/// `[log]`: what is written to stderr.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// `format`: the format of a line.
    pub format: LogFormat,
    /// `level`: `off`, `error`, `warn`, `info`, `debug`, `trace`, or a list such as `info,tricord::engine=debug`.
    pub level: String,
    /// `access`: whether each call is logged when it has ended.
    pub access: bool,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object.
    Json,
}

/// `[protocol]`: how requests are interpreted.
#[derive(Debug, Clone, Default)]
pub struct ProtocolOptions {
    /// `assume_version`: the version of a request that names none; `None` keeps the protocol's rule (§3.6.2).
    pub assume_version: Option<String>,
}

/// Reads `[log]`.
pub(super) fn read(mut section: Section<'_>) -> LogConfig {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let log = LogConfig {
        format: section.get("format", choice(&formats)).unwrap_or(LogFormat::Text),
        level: section.get("level", parsed(level)).unwrap_or_else(|| "info".to_owned()),
        access: section.get("access", boolean).unwrap_or(true),
    };
    section.finish();
    log
}

/// Checks a level or a list of `target=level`.
fn level(text: &str) -> Result<String, String> {
    let known = |level: &str| matches!(level, "off" | "error" | "warn" | "info" | "debug" | "trace");
    for directive in text.split(',') {
        let level = directive.rsplit('=').next().unwrap_or(directive).trim();
        if !known(level) {
            return Err(format!("{level:?} is not a log level: use off, error, warn, info, debug or trace"));
        }
    }
    Ok(text.to_owned())
}

/// Reads `[protocol]`.
pub(super) fn read_protocol(mut section: Section<'_>) -> ProtocolOptions {
    let version = |text: &str| match text {
        VERSION => Ok(text.to_owned()),
        _ => Err(format!("unsupported version {text:?}: use {VERSION:?}")),
    };
    let assume_version = section.get("assume_version", parsed(version));
    section.finish();
    ProtocolOptions { assume_version }
}
