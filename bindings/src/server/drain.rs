//! How ports end: no new connections; the open ones finish, or are closed after a while.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The end of one or more ports, shared by all of them.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    begun: CancellationToken,
    cut: CancellationToken,
    connections: TaskTracker,
}

impl Drain {
    /// Nothing has ended yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins to drain: nothing more is accepted, idle connections are closed, HTTP/2 peers get GOAWAY. Requests
    /// and streams that are under way go on.
    pub fn begin(&self) {
        self.begun.cancel();
        self.connections.close();
    }

    /// Whether the end has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until the end begins.
    pub async fn begins(&self) {
        self.begun.cancelled().await;
    }

    /// Waits until every connection is closed. Never ends before [`Drain::begin`].
    pub async fn finished(&self) {
        self.connections.wait().await;
    }

    /// Closes all connections that are left, in whatever state they are.
    pub fn cut(&self) {
        self.begin();
        self.cut.cancel();
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    pub(super) fn is_cut(&self) -> &CancellationToken {
        &self.cut
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.connections
    }
}
