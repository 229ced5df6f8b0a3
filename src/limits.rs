//! How much work a server accepts at once and how large a task may grow: the limits and their defaults.

/// Limits of the engine. Work beyond a limit is refused with an error that names it, and never queued without bound.
#[derive(Debug, Clone)]
pub struct EngineLimits {
    /// Tasks that run at the same time.
    pub running: usize,
    /// Bytes that were appended and are not yet committed, over all tasks.
    pub uncommitted: usize,
    /// Bytes of one run that were appended and are not yet committed. A run that reaches it waits.
    pub uncommitted_per_run: usize,
    /// Streams that are open at the same time.
    pub streams: usize,
    /// Records of one task.
    pub task_records: u64,
    /// Bytes of one task's log.
    pub task_bytes: usize,
}

impl Default for EngineLimits {
    /// 10,000 runs, 64 MiB uncommitted, 256 KiB of them of one run, 100,000 streams, and 50,000 records or 64 MiB a task.
    fn default() -> Self {
        Self {
            running: 10_000,
            uncommitted: 64 << 20,
            uncommitted_per_run: 256 << 10,
            streams: 100_000,
            task_records: 50_000,
            task_bytes: 64 << 20,
        }
    }
}
