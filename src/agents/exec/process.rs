//! The processes of a command: starts them in a group of their own, stops them and never leaves one behind.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running command. Dropping it kills what is left of its process group at once.
pub(super) struct Process {
    exit: oneshot::Receiver<io::Result<ExitStatus>>,
    stop: CancellationToken,
    _over: DropGuard,
}

/// The standard streams of the command.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// How long a command waits for a file descriptor or a process before its task fails.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Returns whether an error says that something is used up which others will give back.
fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN))
}

impl Process {
    /// Starts a command as [`start`](Self::start) does. While the system has no file descriptor or process left, waits for one,
    /// at most for [`LONGEST_WAIT`].
    pub(super) async fn start_when_possible(command: &mut Command, grace: Duration) -> io::Result<(Self, Pipes)> {
        let until = Instant::now() + LONGEST_WAIT;
        let mut pause = Duration::from_millis(10);
        loop {
            match Self::start(command, grace) {
                Err(error) if is_exhausted(&error) && Instant::now() < until => {
                    tracing::warn!(%error, "a command cannot be started now; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                started => return started,
            }
        }
    }

    /// Starts a command. After [`stop`](Self::stop) it has `grace` to end.
    pub(super) fn start(command: &mut Command, grace: Duration) -> io::Result<(Self, Pipes)> {
        command.process_group(0).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lost = || io::Error::other("the process has no pipes");
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or_else(lost)?;
        let group = Group(pid);
        let pipes = Pipes {
            stdin: child.stdin.take().ok_or_else(lost)?,
            stdout: child.stdout.take().ok_or_else(lost)?,
            stderr: child.stderr.take().ok_or_else(lost)?,
        };
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let (exited, exit) = oneshot::channel();
        // A separate task, because the run may be dropped at any time and the process still has to be waited for.
        tokio::spawn(supervise(child, group, stop.clone(), over.clone(), grace, exited));
        Ok((Self { exit, stop, _over: over.drop_guard() }, pipes))
    }

    /// Stops the group: SIGTERM now, SIGKILL after the grace time.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for the command's first process. Others of its group may still run. Must not be called again after it has
    /// returned.
    pub(super) async fn exit(&mut self) -> io::Result<ExitStatus> {
        (&mut self.exit).await.unwrap_or_else(|_| Err(io::Error::other("the runtime is shutting down")))
    }
}

async fn supervise(
    mut child: Child,
    group: Group,
    stop: CancellationToken,
    over: CancellationToken,
    grace: Duration,
    exited: oneshot::Sender<io::Result<ExitStatus>>,
) {
    let ended = tokio::select! {
        biased;
        status = child.wait() => Some(status),
        () = over.cancelled() => None,
        () = stop.cancelled() => {
            group.signal(Signal::TERM);
            tokio::select! {
                biased;
                status = child.wait() => Some(status),
                () = over.cancelled() => None,
                () = sleep(grace) => None,
            }
        }
    };
    let status = match ended {
        Some(status) => status,
        None => {
            group.signal(Signal::KILL);
            child.wait().await
        }
    };
    let _ = exited.send(status);
    // The run may still read from the pipes. Once it is dropped the rest of the group can be killed.
    over.cancelled().await;
    let pid = group.0;
    drop(group);
    reap(pid).await;
}

/// A process group. Dropping it kills what is left, also when the runtime is dropped.
struct Group(Pid);

impl Group {
    fn signal(&self, signal: Signal) {
        // Fails if no process is left, which is fine.
        let _ = kill_process_group(self.0, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reaps orphans of the group. If the server is process 1, as in a container, they are its children and would otherwise
/// stay as zombies.
async fn reap(group: Pid) {
    for _ in 0..50 {
        match waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => sleep(Duration::from_millis(20)).await,
            // No process of the group is a child of the server.
            Err(_) => return,
        }
    }
}
