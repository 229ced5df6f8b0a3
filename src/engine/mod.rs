//! The task engine: one cell per live task, runs that work on it, and what leads from a commit to its readers.
//!
//! ```text
//! run, cancel, follow-up ─► cell.append ─► writer (store) ─► publisher ─► cell.publish ─► streams, senders
//! ```

mod cancel;
mod cell;
mod cells;
mod folds;
mod limits;
mod publish;
mod read;
mod recovery;
mod resume;
mod run;
mod send;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use crate::agents::{BoxAgent, EmitError};
use crate::schema::TaskState;
use crate::store::{Health, Store, StoreError, Writer};

pub use crate::agents::OnRestart;
pub use crate::limits::EngineLimits;
pub use cell::TaskCell;
pub use read::Snapshot;
pub use resume::Resumption;
pub use send::{Incoming, Outcome, Sent};
pub use stream::TaskStream;

use cells::{Cells, Finished};
use folds::OpenFolds;
use limits::Usage;

/// An agent as the engine needs it.
#[derive(Debug)]
pub struct AgentSpec {
    /// Its name, which is its tenant on the wire.
    pub name: Arc<str>,
    /// What does the work.
    pub agent: BoxAgent,
    /// What happens to its tasks after a restart.
    pub on_restart: OnRestart,
    /// How long a run may take to end after a cancel before it is cut off.
    pub cancel_grace: Duration,
}

/// The engine. Clones are handles on the same one.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    store: Store,
    writer: Writer<TaskCell>,
    cells: Cells,
    finished: Finished,
    folds: OpenFolds,
    limits: Arc<Usage>,
    agents: HashMap<Arc<str>, Arc<AgentSpec>>,
    draining: AtomicBool,
    health: watch::Receiver<Health>,
    /// Tasks that are to be recovered: their cells were lost with a failed commit, or there was no place for their runs.
    to_recover: Mutex<Vec<Uuid>>,
    recovery_due: tokio::sync::Notify,
    /// Wakes everything that waits for the server to drain.
    settled: tokio::sync::Notify,
    /// The task that tells readers what was committed; it ends after the writer.
    publisher: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

/// Why the engine refuses or cannot do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// There is no such task for this agent and owner.
    #[error("no such task")]
    NotFound,
    /// The task has ended; its state is final.
    #[error("the task has ended in {}", .0.as_str_name())]
    Ended(TaskState),
    /// The message names another conversation than its task's.
    #[error("the task belongs to another context")]
    OtherContext,
    /// The task has as many records, or bytes, as a task may have.
    #[error("the task is larger than the server allows: {0}")]
    TooLarge(&'static str),
    /// Too much runs already.
    #[error("the server is at its limit of {0}; try again later")]
    Busy(&'static str),
    /// The server is going down.
    #[error("the server is shutting down")]
    Draining,
    /// The store does not take or give data now.
    #[error("the store is not available")]
    StoreUnavailable,
    /// An idempotency key was used before with another request.
    #[error("the idempotency key was used before with another request")]
    OtherRequest,
    /// The deadline of the client passed. What was begun goes on.
    #[error("the deadline passed before the task got that far; it goes on")]
    DeadlineExceeded,
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        Self::StoreUnavailable
    }
}

impl From<EmitError> for EngineError {
    fn from(error: EmitError) -> Self {
        match error {
            EmitError::Ended(state) => Self::Ended(state),
            EmitError::TooLarge(what) => Self::TooLarge(what),
            EmitError::StoreLost | EmitError::RunOver | EmitError::Illegal(_) => Self::StoreUnavailable,
        }
    }
}

/// Bytes of finished tasks kept in memory.
const FINISHED_BYTES: usize = 16 << 20;

/// Bytes of waiting tasks kept in memory.
const OPEN_BYTES: usize = 32 << 20;

impl Engine {
    /// Starts the engine on a store: recovers what an earlier process left running, then takes work.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(store: Store, agents: Vec<AgentSpec>, limits: EngineLimits) -> Result<Self, EngineError> {
        let (sender, commits) = tokio::sync::mpsc::unbounded_channel();
        let writer = Writer::start(store.clone(), sender).map_err(|error| {
            tracing::error!(%error, "the store's writer does not start");
            EngineError::StoreUnavailable
        })?;
        let health = store.health();
        let agents = agents.into_iter().map(|spec| (Arc::clone(&spec.name), Arc::new(spec))).collect();
        let engine = Self(Arc::new(Shared {
            store,
            writer,
            cells: Cells::new(),
            finished: Finished::new(FINISHED_BYTES),
            folds: OpenFolds::new(OPEN_BYTES),
            limits: Usage::new(limits),
            agents,
            draining: AtomicBool::new(false),
            health,
            to_recover: Mutex::default(),
            recovery_due: tokio::sync::Notify::new(),
            settled: tokio::sync::Notify::new(),
            publisher: Mutex::default(),
        }));
        let publisher = tokio::spawn(publish::publish(engine.clone(), commits));
        *engine.0.publisher.lock().unwrap_or_else(PoisonError::into_inner) = Some(publisher);
        tokio::spawn(recovery::after_failures(engine.clone()));
        engine.recover_orphans().await?;
        Ok(engine)
    }

    /// The store's generation, the first half of every event id.
    pub fn generation(&self) -> u32 {
        self.0.store.generation()
    }

    /// The store, for lists.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Whether new work is taken: the store answers and the server is not going down.
    pub fn is_ready(&self) -> bool {
        !self.0.draining.load(Ordering::Acquire) && matches!(*self.0.health.borrow(), Health::Ok)
    }

    /// Runs under way, streams open and tasks in memory.
    pub fn load(&self) -> Load {
        Load { runs: self.0.limits.running(), streams: self.0.limits.streams(), cells: self.0.cells.len() }
    }

    /// Takes no new work, and waits until the runs under way have ended, at most `grace`.
    pub async fn drain(&self, grace: Duration) {
        self.0.draining.store(true, Ordering::Release);
        let settled = async {
            loop {
                let notified = self.0.settled.notified();
                if self.0.limits.running() == 0 {
                    return;
                }
                notified.await;
            }
        };
        let _ = tokio::time::timeout(grace, settled).await;
    }

    /// Stops for good: cuts off what still runs, without a change of its task (`on_restart` decides at the next start),
    /// writes what was appended and tells its readers. Whoever still waits for a task is told that the server goes down;
    /// streams stay open. Call [`drain`](Self::drain) first to let runs end.
    pub async fn close(&self) {
        self.0.draining.store(true, Ordering::Release);
        for cell in self.0.cells.all() {
            cell.cut_off();
        }
        let writer = self.0.writer.clone();
        // The thread is joined where blocking is allowed.
        let _ = tokio::task::spawn_blocking(move || writer.close()).await;
        let publisher = self.0.publisher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(publisher) = publisher {
            let _ = publisher.await;
        }
        for cell in self.0.cells.all() {
            cell.close();
        }
    }

    fn refuse_if_unready(&self) -> Result<(), EngineError> {
        if self.0.draining.load(Ordering::Acquire) {
            return Err(EngineError::Draining);
        }
        self.refuse_if_failing()
    }

    fn refuse_if_failing(&self) -> Result<(), EngineError> {
        match *self.0.health.borrow() {
            Health::Ok => Ok(()),
            Health::Failing { .. } => Err(EngineError::StoreUnavailable),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("load", &self.load()).finish()
    }
}

/// What an engine is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Runs under way.
    pub runs: usize,
    /// Streams open.
    pub streams: usize,
    /// Tasks in memory.
    pub cells: usize,
}
