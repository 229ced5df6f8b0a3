//! How much memory the server may hold on behalf of its peers: the shares of the budget, and their defaults.

use std::fs;
use std::path::Path;

/// The memory that peers can make the server hold, in bytes, in shares. What no share counts is bounded by other limits, and
/// small: connections, tasks without their content, caches.
///
/// Beyond a share new work is refused, as unavailable for now, and what was accepted goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Request bodies, and the messages that are decoded from them, until the request is answered or its message is a task's.
    pub requests: usize,
    /// Tasks that run or are read: their messages, artifacts and history.
    pub tasks: usize,
    /// Records that are not committed yet.
    pub uncommitted: usize,
    /// Answers and events that are not sent yet.
    pub answers: usize,
    /// Events that are read back from the store for streams that begin in the past or fell behind.
    pub replays: usize,
}

impl MemoryLimits {
    /// The most that is used by default.
    const DEFAULT_MAX: u64 = 1 << 30;

    /// Divides a total: a quarter for requests, three eighths for tasks, a quarter for answers, and a sixteenth each for
    /// uncommitted records and replays.
    pub fn of(total: usize) -> Self {
        let part = |sixteenths: usize| total / 16 * sixteenths;
        Self { requests: part(4), tasks: part(6), uncommitted: part(1), answers: part(4), replays: part(1) }
    }

    /// Returns all shares together.
    pub fn total(&self) -> usize {
        let Self { requests, tasks, uncommitted, answers, replays } = self;
        [requests, tasks, uncommitted, answers, replays].iter().fold(0, |sum: usize, share| sum.saturating_add(**share))
    }

    /// Returns the total that is used by default: 1 GiB, or a quarter of the memory of the machine or the control group if
    /// that is less.
    pub fn default_total() -> usize {
        let available = [machine(), control_group()].into_iter().flatten().min();
        let quarter = available.map_or(Self::DEFAULT_MAX, |bytes| bytes / 4);
        usize::try_from(quarter.min(Self::DEFAULT_MAX)).unwrap_or(usize::MAX)
    }
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self::of(Self::default_total())
    }
}

/// Returns the memory of the machine, where the system tells.
fn machine() -> Option<u64> {
    total_memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Returns the limit of the control group that this process is in, or of the nearest one above it that has one.
fn control_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = Path::new("/sys/fs/cgroup");
    limits_of(&groups, |path, file| fs::read_to_string(root.join(path).join(file)).ok())
}

/// Finds the smallest limit along the paths of `/proc/self/cgroup`, both versions of control groups.
fn limits_of(groups: &str, read: impl Fn(&Path, &str) -> Option<String>) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (above, file) = match controllers {
            "" => ("", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => ("memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let own = Path::new(above).join(path.trim_start_matches('/'));
        // Inside a container the group's own path is often mounted as the root.
        let levels = own.ancestors().filter(|level| level.starts_with(above));
        limits.extend(levels.filter_map(|level| read(level, file)?.trim().parse::<u64>().ok()));
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_the_total() {
        let limits = MemoryLimits::of(1 << 30);
        assert_eq!(limits.total(), 1 << 30);
        assert_eq!((limits.requests, limits.tasks, limits.answers), (256 << 20, 384 << 20, 256 << 20));
        assert!((1 << 20..=1 << 30).contains(&MemoryLimits::default_total()));
    }

    #[test]
    fn the_memory_of_a_machine_is_read() {
        assert_eq!(total_memory("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24576 << 10));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_nearest_limits_of_control_groups_count() {
        let read = |path: &Path, file: &str| match (path.to_str()?, file) {
            ("a/b", "memory.max") => Some("max\n".to_owned()),
            ("a", "memory.max") => Some("1000\n".to_owned()),
            ("", "memory.max") => Some("2000\n".to_owned()),
            ("memory", "memory.limit_in_bytes") => Some("500\n".to_owned()),
            _ => None,
        };
        assert_eq!(limits_of("0::/a/b\n", read), Some(1000));
        assert_eq!(limits_of("0::/\n", read), Some(2000));
        assert_eq!(limits_of("5:cpu:/x\n4:memory:/docker/1\n", read), Some(500));
        assert_eq!(limits_of("5:cpu:/x\n", read), None);
    }
}
