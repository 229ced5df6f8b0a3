//! Figures of this process, as Linux tells them under `/proc/self`. Elsewhere there are none.

use std::fs;

/// What operators watch of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProcessFigures {
    /// Resident memory, in bytes.
    pub(super) resident_bytes: u64,
    /// CPU time of all threads, user and system, in seconds.
    pub(super) cpu_seconds: f64,
    /// Open file descriptors.
    pub(super) open_fds: u64,
    /// When the process started, in seconds since 1970.
    pub(super) start_seconds: f64,
}

impl ProcessFigures {
    /// Reads them; `None` where the system does not tell.
    pub(super) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let boot = fs::read_to_string("/proc/stat").ok()?;
        // Minus the descriptor that the directory is read through.
        let open_fds = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64;
        let (ticks, page) = (rustix::param::clock_ticks_per_second() as f64, rustix::param::page_size() as u64);
        let stat = Stat::parse(&stat)?;
        let boot_seconds: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(Self {
            resident_bytes: stat.resident_pages * page,
            cpu_seconds: stat.cpu_ticks as f64 / ticks,
            open_fds,
            start_seconds: boot_seconds + stat.start_ticks as f64 / ticks,
        })
    }
}

/// The fields of `/proc/self/stat` that are used here; proc(5) numbers them.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name of the program, in parentheses, may hold spaces and parentheses itself. What follows starts at field 3.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: field(14)? + field(15)?, start_ticks: field(22)?, resident_pages: field(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_does_not_shift_the_fields() {
        let text =
            "7 (a) b (c) S 1 7 7 0 -1 4194560 2000 0 3 0 40 2 0 0 20 0 5 0 9000 250000000 1234 18446744073709551615";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_ticks: 42, start_ticks: 9000, resident_pages: 1234 }));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_figures() {
        let figures = ProcessFigures::read().unwrap();
        assert!(figures.resident_bytes > 1 << 20 && figures.open_fds > 2, "{figures:?}");
        assert!(figures.start_seconds > 1.6e9, "{figures:?}");
    }
}
