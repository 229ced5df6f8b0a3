//! `[limits]`: how much work the server accepts.

use tricord_bindings::body::BodyLimits;

use crate::limits::EngineLimits;
use crate::settings::Section;
use crate::settings::read::{count, size};

/// `[limits]`: work beyond a limit is refused with an error that names it.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// `body`: the largest request body, in bytes.
    pub body: usize,
    /// `bodies_in_flight`: the bytes of all request bodies that are being received or processed.
    pub bodies_in_flight: usize,
    /// The other keys: `running_tasks`, `streams`, `uncommitted`, `uncommitted_per_run`, `task_records`, `task_size`.
    pub engine: EngineLimits,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            body: BodyLimits::DEFAULT_BYTES,
            bodies_in_flight: BodyLimits::DEFAULT_BUDGET,
            engine: EngineLimits::default(),
        }
    }
}

/// Reads `[limits]`.
pub(super) fn read(mut section: Section<'_>) -> LimitsConfig {
    let mut limits = LimitsConfig::default();
    let engine = &mut limits.engine;
    for (key, limit) in [
        ("body", &mut limits.body),
        ("bodies_in_flight", &mut limits.bodies_in_flight),
        ("uncommitted", &mut engine.uncommitted),
        ("uncommitted_per_run", &mut engine.uncommitted_per_run),
        ("task_size", &mut engine.task_bytes),
    ] {
        if let Some(bytes) = section.get(key, size) {
            *limit = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
    }
    for (key, limit) in [("running_tasks", &mut engine.running), ("streams", &mut engine.streams)] {
        if let Some(number) = section.get(key, count) {
            *limit = number as usize;
        }
    }
    if let Some(number) = section.get("task_records", count) {
        engine.task_records = number.into();
    }
    if limits.body > limits.bodies_in_flight {
        section.problem("bodies_in_flight", "is less than limits.body: a body of that size could never be received");
    }
    section.finish();
    limits
}
