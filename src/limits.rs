//! How much work a server accepts at once and how large a task may grow: the limits and their defaults.

use crate::memory::MemoryLimits;

/// Limits of the engine. Work beyond a limit is refused with an error that names it, and never queued without bound.
#[derive(Debug, Clone)]
pub struct EngineLimits {
    /// Tasks that run at the same time.
    pub running: usize,
    /// Bytes of tasks that run or are read, over all of them.
    pub tasks: usize,
    /// Bytes that were appended and are not yet committed, over all tasks.
    pub uncommitted: usize,
    /// Bytes of events that were read back from the store for streams.
    pub replays: usize,
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
    /// 10,000 runs, the shares of [`MemoryLimits`], 256 KiB of one run uncommitted, 100,000 streams, and 50,000 records or
    /// 64 MiB a task.
    fn default() -> Self {
        let MemoryLimits { tasks, uncommitted, replays, .. } = MemoryLimits::default();
        Self {
            running: 10_000,
            tasks,
            uncommitted,
            replays,
            uncommitted_per_run: 256 << 10,
            streams: 100_000,
            task_records: 50_000,
            task_bytes: 64 << 20,
        }
    }
}
