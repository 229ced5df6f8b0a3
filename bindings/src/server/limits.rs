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
