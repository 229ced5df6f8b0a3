//! The machine and its processes: cores, processor time, memory, and a description for the report.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A tick of `/proc/stat` is a hundredth of a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// The cores that servers and client run on.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    /// Whether they are pinned, which needs two cores and `taskset`.
    pinned: bool,
}

impl Cores {
    /// Pins this process to core 1, if possible.
    pub fn pin() -> Self {
        let two = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
        let pid = std::process::id().to_string();
        let pinned = two && quietly(Command::new("taskset").args(["-a", "-c", "-p", "1", &pid]));
        Self { pinned }
    }

    /// Returns a command that runs on the servers' core.
    pub fn server(self, program: &Path) -> Command {
        if !self.pinned {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program);
        command
    }

    /// Describes the pinning.
    pub fn words(self) -> &'static str {
        if self.pinned { "servers pinned to core 0, client to core 1" } else { "nothing pinned" }
    }
}

fn quietly(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Raises this process's limit of open files as far as allowed.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The processor times at one moment.
pub struct Clock {
    at: Instant,
    server: HashMap<String, u64>,
    client: HashMap<String, u64>,
    all: Duration,
}

/// The processor times between two moments.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Elapsed time.
    pub wall: Duration,
    /// The server's processor time, user and system.
    pub server: Duration,
    /// This process's use, as a share of one core.
    pub client: f64,
    /// The use of all other processes, in cores.
    pub others: f64,
}

impl Clock {
    /// Reads the times for a server with this process id.
    pub fn read(server: u32) -> Self {
        let own = std::process::id();
        Self { at: Instant::now(), server: threads(server), client: threads(own), all: machine() }
    }

    /// Reads the times again and returns the difference.
    pub fn since(&self, server: u32) -> Usage {
        let now = Self::read(server);
        let wall = now.at - self.at;
        let (server, client) = (passed(&self.server, &now.server), passed(&self.client, &now.client));
        let all = now.all.saturating_sub(self.all);
        let share = |time: Duration| time.as_secs_f64() / wall.as_secs_f64();
        Usage { wall, server, client: share(client), others: share(all.saturating_sub(server + client)) }
    }
}

/// Returns the nanoseconds on a processor by thread. `/proc/PID/stat` has a single number but only in hundredths of a
/// second.
fn threads(pid: u32) -> HashMap<String, u64> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let read = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some((entry.file_name().into_string().ok()?, stat.split(' ').next()?.parse().ok()?))
    };
    tasks.filter_map(|entry| read(entry.ok()?)).collect()
}

fn passed(before: &HashMap<String, u64>, after: &HashMap<String, u64>) -> Duration {
    let of = |(thread, nanos): (&String, &u64)| nanos.saturating_sub(before.get(thread).copied().unwrap_or_default());
    Duration::from_nanos(after.iter().map(of).sum())
}

/// Returns the busy time of all cores: everything except idle and waiting for a disk.
fn machine() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u32> = line.split_ascii_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    TICK * [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum::<u32>()
}

/// Returns the resident memory of a process in bytes.
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Describes the machine in one sentence, with the time that a sync of the disk under `dir` takes.
pub fn describe(dir: &Path, cores: Cores) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(':').nth(1)).unwrap_or("unknown").trim().to_owned()
    };
    let count = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let sync = match sync_time(dir) {
        Ok(time) => format!("{} us", time.as_micros()),
        Err(error) => format!("unknown time ({error})"),
    };
    format!(
        "{} (family {}, model {}), {count} cores, Linux {}; a 4 KiB write and sync of its disk takes {sync} (median); {}.",
        field("model name"),
        field("cpu family"),
        field("model\t"),
        kernel.trim(),
        cores.words()
    )
}

/// Returns the median time of appending 4 KiB to a file and syncing it.
fn sync_time(dir: &Path) -> std::io::Result<Duration> {
    let path = dir.join("sync-probe");
    let mut file = File::create(&path)?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    fs::remove_file(path)?;
    times.sort();
    Ok(times[times.len() / 2])
}
