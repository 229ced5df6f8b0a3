//! `[limits]`: how much work the server accepts.

use tricord_bindings::body::BodyLimits;

use crate::limits::EngineLimits;
use crate::memory::MemoryLimits;
use crate::settings::Section;
use crate::settings::read::{count, size};

/// `[limits]`: work beyond a limit is refused with an error that names it.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// `body`: the largest request body, in bytes. By default 16 MiB, or a quarter of the share of requests if that is less.
    pub body: usize,
    /// `request_values`: the most parts, list items and map entries of one request.
    pub request_values: usize,
    /// `memory`: what peers can make the server hold, in bytes; and `memory_requests`, `memory_tasks`,
    /// `memory_uncommitted`, `memory_answers` and `memory_replays`: its shares.
    pub memory: MemoryLimits,
    /// The other keys: `running_tasks`, `streams`, `uncommitted_per_run`, `task_records`, `task_size`.
    pub engine: EngineLimits,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let memory = MemoryLimits::default();
        Self {
            body: default_body(&memory),
            request_values: BodyLimits::DEFAULT_VALUES,
            memory,
            engine: EngineLimits::default(),
        }
    }
}

/// Reads `[limits]`.
pub(super) fn read(mut section: Section<'_>) -> LimitsConfig {
    let mut limits = LimitsConfig::default();
    let has_share = section.has("memory_requests");
    let mut bytes = |key| section.get(key, size).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if let Some(total) = bytes("memory") {
        limits.memory = MemoryLimits::of(total);
    }
    let MemoryLimits { requests, tasks, uncommitted, answers, replays } = &mut limits.memory;
    for (key, limit) in [
        ("memory_requests", requests),
        ("memory_tasks", tasks),
        ("memory_uncommitted", uncommitted),
        ("memory_answers", answers),
        ("memory_replays", replays),
        ("uncommitted_per_run", &mut limits.engine.uncommitted_per_run),
        ("task_size", &mut limits.engine.task_bytes),
    ] {
        if let Some(bytes) = bytes(key) {
            *limit = bytes;
        }
    }
    limits.body = bytes("body").unwrap_or_else(|| default_body(&limits.memory));
    let engine = &mut limits.engine;
    (engine.tasks, engine.uncommitted, engine.replays) =
        (limits.memory.tasks, limits.memory.uncommitted, limits.memory.replays);
    for (key, limit) in [
        ("running_tasks", &mut engine.running),
        ("streams", &mut engine.streams),
        ("request_values", &mut limits.request_values),
    ] {
        if let Some(number) = section.get(key, count) {
            *limit = number as usize;
        }
    }
    if let Some(number) = section.get("task_records", count) {
        engine.task_records = number.into();
    }
    // A body and its message are there at the same time for a moment, and the message takes more than its text.
    if limits.body > limits.memory.requests / 3 {
        let key = if has_share { "memory_requests" } else { "memory" };
        section.problem(key, "leaves requests less than three times limits.body: such a body could never be received");
    }
    section.finish();
    limits
}

fn default_body(memory: &MemoryLimits) -> usize {
    BodyLimits::DEFAULT_BYTES.min(memory.requests / 4)
}
