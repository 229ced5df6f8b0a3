//! A command's processes: started in a group of their own, told to end, and never left behind.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A command that runs. Dropping this kills whatever of its group is left, at once.
pub(super) struct Process {
    exit: oneshot::Receiver<io::Result<ExitStatus>>,
    stop: CancellationToken,
    _over: DropGuard,
}

/// The three ends that the command has of us.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Process {
    /// Starts a command. After [`stop`](Self::stop) it gets `grace` to end.
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
        // A task of its own: the run may be dropped at any time, and somebody has to wait for the process even then.
        tokio::spawn(supervise(child, group, stop.clone(), over.clone(), grace, exited));
        Ok((Self { exit, stop, _over: over.drop_guard() }, pipes))
    }

    /// Tells the group to end: SIGTERM now, SIGKILL after the grace.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// How the command's first process ended. Others of its group may still run. To be awaited to its end only once.
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
    // The run reads what is in the pipes, and then nothing of the group is of use to anybody.
    over.cancelled().await;
    let pid = group.0;
    drop(group);
    reap(pid).await;
}

/// A process group. What is left of it is killed when this is dropped, also with the runtime.
struct Group(Pid);

impl Group {
    fn signal(&self, signal: Signal) {
        // Nobody there any more is as good.
        let _ = kill_process_group(self.0, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Where this server is process 1, as in a container, the orphans of a group are its children and would stay as zombies.
async fn reap(group: Pid) {
    for _ in 0..50 {
        match waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => sleep(Duration::from_millis(20)).await,
            // None of them is a child of ours.
            Err(_) => return,
        }
    }
}
