//! The task engine: one cell per live task, runs that work on it, and the way from a commit to its readers.
//!
//! ```text
//! run, cancel, follow-up ─► cell (append) ─► writer (store) ─► publisher ─► cell (publish) ─► streams, senders
//! ```
//!
//! Each file names only those under it:
//!
//! ```text
//! Engine ─► {send, cancel, resume, publish} ─► {stream, recovery} ─► last_turn ─► {run, load, flush} ─► cell ─► {limits, finished, folds, live, spec} ─► error
//! ```

mod cancel;
mod cell;
mod error;
mod finished;
mod flush;
mod folds;
mod last_turn;
mod limits;
mod live;
mod load;
mod outcomes;
mod publish;
mod recovery;
mod resume;
mod run;
mod send;
mod spec;
mod stream;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tricord_bindings::Encoded;
use tricord_bindings::budget::Budget;
use uuid::Uuid;

use crate::schema::{Task, TaskState};
use crate::store::{Claim, Claimed, Health, Store, TaskRow, Writer};

pub use crate::agents::OnRestart;
pub use crate::limits::EngineLimits;
pub(crate) use cell::Resumption;
pub use error::EngineError;
pub(crate) use outcomes::TaskOutcome;
pub(crate) use send::Sent;
pub use send::{Incoming, Outcome};
pub use spec::AgentSpec;
pub(crate) use stream::TaskStream;

use cell::{CellHandles, Watcher};
use finished::Finished;
use folds::OpenFolds;
use limits::Usage;
use live::LiveTasks;
use load::Tasks;
use outcomes::Outcomes;
use recovery::Recovery;

/// How many bytes of finished tasks are kept in memory.
const FINISHED_BYTES: usize = 16 << 20;
/// How many bytes of waiting tasks are kept in memory.
const OPEN_BYTES: usize = 32 << 20;

/// The engine. Clones are handles on the same one.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    tasks: Arc<Tasks>,
    draining: AtomicBool,
    health: watch::Receiver<Health>,
    /// Until [`Engine::close`].
    background: Mutex<Option<Background>>,
}

/// The tasks of the runtime that hold the store open.
struct Background {
    /// The publisher. It ends after the writer.
    publisher: JoinHandle<()>,
    /// What recovers the tasks of failed commits. It ends when it is aborted.
    recovering: JoinHandle<()>,
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

impl Engine {
    /// Starts the engine on a store: recovers what an earlier process left under way, then takes work.
    ///
    /// # Errors
    /// When the store cannot be read, or has a writer already.
    pub async fn start(store: Store, agents: Vec<AgentSpec>, limits: EngineLimits) -> Result<Self, EngineError> {
        let (sender, commits) = tokio::sync::mpsc::unbounded_channel();
        let writer = Writer::start(store.clone(), sender).map_err(|error| {
            tracing::error!(%error, "the store's writer does not start");
            EngineError::StoreUnavailable
        })?;
        let health = store.health();
        let flush = Arc::new(Notify::new());
        let handles = Arc::new(CellHandles {
            writer,
            flush: Arc::clone(&flush),
            lease: store.lease(),
            limits: Usage::new(limits),
            live: LiveTasks::new(),
            finished: Finished::new(FINISHED_BYTES),
            folds: OpenFolds::new(OPEN_BYTES),
            outcomes: Outcomes::new(agents.iter().map(|spec| &spec.name)),
        });
        tokio::spawn(flush::flush(Arc::downgrade(&handles), flush));
        let agents = agents.into_iter().map(|spec| (Arc::clone(&spec.name), Arc::new(spec))).collect();
        let tasks = Arc::new(Tasks { store, agents, handles, large: LiveTasks::new() });
        let recovery = Arc::new(Recovery::new(Arc::clone(&tasks)));
        let publisher = tokio::spawn(publish::publish(Arc::clone(&recovery), commits));
        let recovering = tokio::spawn(Arc::clone(&recovery).recover_failed());
        recovery.recover_orphans().await?;
        let background = Mutex::new(Some(Background { publisher, recovering }));
        Ok(Self(Arc::new(Inner { tasks, draining: AtomicBool::new(false), health, background })))
    }

    /// Returns the store's generation, the first half of every event id.
    pub fn generation(&self) -> u32 {
        self.store().generation()
    }

    /// Returns the store, for lists.
    pub fn store(&self) -> &Store {
        &self.0.tasks.store
    }

    /// Returns whether new work is taken: the store answers and the server is not shutting down.
    pub fn is_ready(&self) -> bool {
        self.check_ready().is_ok()
    }

    /// Returns how the tasks of each agent ended since the start.
    pub fn outcomes(&self) -> Vec<TaskOutcome> {
        self.0.tasks.handles.outcomes.read()
    }

    /// Returns the budgets of tasks and of replays.
    pub(crate) fn budgets(&self) -> [&Arc<Budget>; 2] {
        let limits = &self.0.tasks.handles.limits;
        [&limits.tasks, &limits.replays]
    }

    /// Returns how many bytes are appended and not committed, and how many may be.
    pub(crate) fn uncommitted(&self) -> (usize, usize) {
        self.0.tasks.handles.limits.uncommitted()
    }

    /// Returns how many runs, streams and tasks there are.
    pub fn load(&self) -> Load {
        let CellHandles { limits, live, .. } = &*self.0.tasks.handles;
        Load { runs: limits.running(), streams: limits.streams(), cells: live.len() }
    }

    /// Takes no new work from now on, and waits until the runs under way have ended, at most `grace`.
    pub async fn drain(&self, grace: Duration) {
        self.0.draining.store(true, Ordering::Release);
        let _ = tokio::time::timeout(grace, self.0.tasks.handles.limits.idle()).await;
    }

    /// Stops the engine: aborts the runs left without changing their tasks (`on_restart` decides at the next start), writes
    /// what was appended and tells its readers. Those who still wait for a task get [`EngineError::Draining`]; streams stay
    /// open. Call [`drain`](Self::drain) first to let runs end.
    pub async fn close(&self) {
        self.0.draining.store(true, Ordering::Release);
        let handles = &self.0.tasks.handles;
        for cell in handles.live.all() {
            cell.abort_run();
        }
        let writer = handles.writer.clone();
        // Joins the writer's thread, so it must be allowed to block.
        let _ = tokio::task::spawn_blocking(move || writer.close()).await;
        let background = self.0.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Background { publisher, recovering }) = background {
            let _ = publisher.await;
            recovering.abort();
            // What it held of the store is dropped by then.
            let _ = recovering.await;
        }
        for cell in handles.live.all() {
            cell.close();
        }
    }

    /// Submits a message, and begins a run for it unless one is live.
    ///
    /// # Errors
    /// When the task does not exist, has ended ([`Engine::ended`] says when others may know that) or belongs to another
    /// context, or the engine takes no new work.
    pub fn send(&self, incoming: Incoming) -> impl Future<Output = Result<Sent, EngineError>> + Send {
        send::send(&self.0.tasks, self.check_ready(), incoming)
    }

    /// Reserves the answer for an idempotency key, or returns what an earlier request with it led to.
    ///
    /// # Errors
    /// When the engine takes no new work, or the store fails.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, EngineError> {
        self.check_ready()?;
        Ok(self.store().claim(claim).await?)
    }

    /// Joins an earlier message of a task: waits for the same outcome.
    ///
    /// # Errors
    /// When there is no such task, or the store cannot be read.
    pub async fn join(&self, agent: &str, owner: &str, id: Uuid) -> Result<Sent, EngineError> {
        send::join(&self.0.tasks, agent, owner, id).await
    }

    /// Reads a task as it is committed.
    ///
    /// # Errors
    /// When there is no such task for this agent and owner, or the store cannot be read.
    pub async fn read(&self, agent: &str, owner: &str, id: Uuid) -> Result<Arc<Encoded<Task>>, EngineError> {
        self.0.tasks.read(agent, owner, id).await
    }

    /// Returns a task with as many messages of its history as a client wants. Only a task that has more is copied.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the copy is large and too little memory is left.
    pub fn limited(&self, task: &Arc<Encoded<Task>>, history: Option<u32>) -> Result<Arc<Encoded<Task>>, EngineError> {
        self.0.tasks.handles.limits.limited(task, history)
    }

    /// Reads the tasks of the rows that a list found, in their order, and hands each to `take` until that breaks. Returns how
    /// many were taken.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn read_rows(
        &self,
        rows: &[TaskRow],
        take: impl FnMut(Arc<Encoded<Task>>) -> ControlFlow<()>,
    ) -> Result<usize, EngineError> {
        self.0.tasks.read_rows(rows, take).await
    }

    /// Ends a task in CANCELED and returns it (§3.1.5). A run gets the agent's grace to end by itself first.
    ///
    /// # Errors
    /// When there is no such task, it has ended (also meanwhile, in another state), or the store fails.
    pub async fn cancel(&self, agent: &str, owner: &str, id: Uuid) -> Result<Arc<Encoded<Task>>, EngineError> {
        // A server that shuts down still cancels.
        self.check_store()?;
        let cell = self.0.tasks.cell(agent, owner, id).await?;
        // Goes on even if the client leaves: a task is not left half cancelled.
        let work = tokio::spawn(async move { cancel::cancel(&cell).await });
        work.await.unwrap_or(Err(EngineError::StoreUnavailable))
    }

    /// Waits until the end of a task is committed and returns its terminal state. Before that nobody may know of it.
    ///
    /// # Errors
    /// When there is no such task, or its end will not be committed: the store fails, or the server shuts down.
    pub async fn ended(&self, agent: &str, owner: &str, id: Uuid) -> Result<TaskState, EngineError> {
        let cell = self.0.tasks.cell(agent, owner, id).await?;
        cancel::ended(&Watcher::new(&cell, false)).await
    }

    /// Resumes a task that waits in AUTH_REQUIRED, whoever owns it. A run that waits in
    /// [`TaskContext::require_auth`](crate::agents::TaskContext::require_auth) goes on. Where no run waits any more,
    /// because the agent ended it or the server was restarted, the last message of the client is run again.
    ///
    /// # Errors
    /// When there is no such task, too many tasks run, or the store is not available.
    pub async fn resume(&self, id: Uuid) -> Result<Resumption, EngineError> {
        self.check_ready()?;
        resume::resume(&self.0.tasks, id).await
    }

    /// Streams a task until it has ended: the task as it is (or was at `cursor`, a client's `Last-Event-ID`), then every
    /// later event. `history` limits the messages that the first event shows.
    ///
    /// # Errors
    /// When there is no such task, it has ended and nothing is left to replay, or the store cannot be read.
    pub async fn subscribe(
        &self,
        agent: &str,
        owner: &str,
        id: Uuid,
        cursor: Option<&str>,
        history: Option<u32>,
    ) -> Result<TaskStream, EngineError> {
        let permit = self.0.tasks.handles.limits.stream()?;
        let cell = self.0.tasks.cell(agent, owner, id).await?;
        TaskStream::subscribe(&self.0.tasks, &cell, cursor, history, permit).await
    }

    fn check_ready(&self) -> Result<(), EngineError> {
        if self.0.draining.load(Ordering::Acquire) {
            return Err(EngineError::Draining);
        }
        self.check_store()
    }

    fn check_store(&self) -> Result<(), EngineError> {
        match *self.0.health.borrow() {
            Health::Ok => Ok(()),
            Health::Failing { .. } => Err(EngineError::StoreUnavailable),
        }
    }
}

impl Sent {
    /// Streams the events from this message on: first the task as it was when the message was taken, then every later
    /// event. `history` limits the messages that the first event shows.
    ///
    /// # Errors
    /// When too many streams are open.
    pub fn stream(self, engine: &Engine, history: Option<u32>) -> Result<TaskStream, EngineError> {
        self.into_stream(&engine.0.tasks, history)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("load", &self.load()).finish()
    }
}
