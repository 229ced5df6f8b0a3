//! What a port lets its peers do.

use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Limits on connections.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Connections open at one time; more wait in the kernel's queue.
    pub connections: usize,
    /// How long a peer may take for the TLS handshake and the bytes that tell HTTP/1.1 from HTTP/2.
    pub first_bytes: Duration,
    /// How long a peer may take for the headers of a request, and how long an HTTP/1.1 connection may be idle.
    pub headers: Duration,
    /// The longest headers, in bytes. On HTTP/1.1 it is looked at between two reads, so that up to twice as much may pass.
    pub header_bytes: u32,
    /// Requests and streams at one time on one HTTP/2 connection.
    pub streams: u32,
    /// How often an HTTP/2 peer is asked whether it is there, and how long it has to answer.
    pub keep_alive: Duration,
    /// How long sent bytes may stay unacknowledged before the connection counts as dead.
    pub unread: Duration,
    /// How long a peer may read nothing of what waits for it: an HTTP/2 stream is reset then, and a connection closed.
    pub write: Duration,
}

impl Default for ConnectionLimits {
    /// 100,000 connections, 10 s, 30 s, 64 KiB, 100 streams, 20 s, 2 min, 30 s.
    fn default() -> Self {
        Self {
            connections: 100_000,
            first_bytes: Duration::from_secs(10),
            headers: Duration::from_secs(30),
            header_bytes: 64 << 10,
            streams: 100,
            keep_alive: Duration::from_secs(20),
            unread: Duration::from_secs(120),
            write: Duration::from_secs(30),
        }
    }
}

impl ConnectionLimits {
    /// Returns the limits of a process that may have this many files open. A quarter of them, or 4,096, is kept for what is
    /// not a connection: the store, and the commands of agents.
    #[must_use]
    pub fn within(self, open_files: Option<u64>) -> Self {
        let Some(open_files) = open_files else { return self };
        let reserve = (open_files / 4).clamp(16, 4096);
        let most = usize::try_from(open_files.saturating_sub(reserve)).unwrap_or(usize::MAX);
        Self { connections: self.connections.min(most.max(1)), ..self }
    }
}

/// Returns how many files and sockets this process may have open; `None` is no limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the number of files and sockets that this process may have open to what the system allows it, and returns that
/// number; `None` is no limit. Every connection is one.
pub fn raise_open_files() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files stays as it is");
            return before;
        }
    }
    limit.current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        let within = |files| ConnectionLimits::default().within(files).connections;
        assert_eq!([within(None), within(Some(1 << 20)), within(Some(4096))], [100_000, 100_000, 3072]);
        assert_eq!([within(Some(64)), within(Some(8))], [48, 1]);
    }
}
