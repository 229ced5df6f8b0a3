//! A message for an agent: a new task or the next turn of one, and the wait for what comes of it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tricord_bindings::Encoded;
use tricord_bindings::wkt::Struct;
use uuid::Uuid;

use crate::clock::new_id;
use crate::schema::{Message, StreamResponse, Task};
use crate::store::{Claim, ClaimKey, Claimed};
use crate::task::event::{Ids, parse_id};

use super::cell::CellSeed;
use super::limits::Permit;
use super::run::{self, RunStart};
use super::{Engine, EngineError, TaskCell, TaskStream};

/// A message for an agent, with what the client wishes.
#[derive(Debug)]
pub struct Incoming {
    /// The agent's name.
    pub agent: Arc<str>,
    /// Who sends.
    pub owner: Arc<str>,
    /// The message. With a task id it belongs to that task; without one it begins a new one.
    pub message: Message,
    /// The request's metadata; it becomes a new task's.
    pub metadata: Option<Struct>,
    /// The extensions in use.
    pub extensions: Vec<String>,
    /// The media types that the client can use; empty is any.
    pub accepted_output_modes: Vec<String>,
    /// Whether a stream begins with this message.
    pub streaming: bool,
    /// The idempotency key that a new task makes good, and the id that was reserved for it.
    pub claim: Option<(ClaimKey, Uuid)>,
}

/// A message that was appended. Holds the task's cell until it is dropped; what was begun goes on without it.
#[derive(Debug)]
pub struct Sent {
    cell: Arc<TaskCell>,
    seq: u64,
    watcher: usize,
    follows: bool,
    /// The place of the stream that it will become.
    stream: Option<Permit>,
}

/// What came of a message.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the task is the usual answer, and a box would be one more allocation")]
pub enum Outcome {
    /// A task, as it stands now.
    Task(Task),
    /// An answer without a task.
    Message(Arc<Encoded<StreamResponse>>),
}

/// The refusal where no stream more may be open.
pub(super) const STREAMS: EngineError = EngineError::Busy("open streams");
/// The same for runs.
pub(super) const RUNS: EngineError = EngineError::Busy("tasks running at the same time");

/// The place that a new task's message has in its log, behind its creation.
const FIRST_MESSAGE: u64 = 2;

impl Engine {
    /// Appends a message and sees to it that a run works on it.
    ///
    /// # Errors
    /// When the task does not exist, has ended ([`Engine::ended`] says when others may know that) or belongs to another
    /// conversation, or the engine takes no new work.
    pub async fn send(&self, incoming: Incoming) -> Result<Sent, EngineError> {
        self.refuse_if_unready()?;
        if !self.0.limits.has_room() {
            return Err(EngineError::Busy("bytes that are not stored yet"));
        }
        // Had before anything begins: what is refused leaves nothing behind.
        let stream = incoming.streaming.then(|| self.0.limits.stream().ok_or(STREAMS)).transpose()?;
        match incoming.message.task_id.is_empty() {
            true => self.begin_task(incoming, stream),
            false => self.continue_task(incoming, stream).await,
        }
    }

    /// Reserves an answer for an idempotency key, or says what an earlier request with it led to.
    ///
    /// # Errors
    /// When the store does not take it.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, EngineError> {
        self.refuse_if_unready()?;
        Ok(self.0.store.claim(claim).await?)
    }

    /// Joins an earlier request of a task: waits for what comes of it.
    ///
    /// # Errors
    /// When there is no such task, or the store cannot be read.
    pub async fn join(&self, agent: &str, owner: &str, id: Uuid) -> Result<Sent, EngineError> {
        let cell = self.cell(agent, owner, id).await?;
        let mut inner = cell.lock();
        let watcher = inner.watch(false);
        // With a run under way the next pause is what the first request waits for; without one, the last.
        let seq = match inner.run {
            Some(_) => inner.committed.pause.max(FIRST_MESSAGE),
            None => inner.committed.pause.saturating_sub(1),
        };
        drop(inner);
        Ok(Sent { cell, seq, watcher, follows: false, stream: None })
    }

    fn begin_task(&self, incoming: Incoming, stream: Option<Permit>) -> Result<Sent, EngineError> {
        let Incoming { agent, owner, mut message, metadata, extensions, accepted_output_modes, streaming, claim } =
            incoming;
        let spec = self.0.agents.get(&agent).ok_or(EngineError::NotFound)?;
        let permit = self.0.limits.run().ok_or(RUNS)?;
        let (claim, id) = claim.map_or_else(|| (None, new_id()), |(key, id)| (Some(key), id));
        if message.context_id.is_empty() {
            message.context_id = new_id().to_string();
        }
        message.task_id = id.to_string();
        let ids = Ids { task: message.task_id.as_str().into(), context: message.context_id.as_str().into() };
        let turn_message = Arc::new(message.clone());
        let seed = CellSeed::New { message, metadata: metadata.clone(), snapshot: streaming, claim };
        let handle = self.0.store.new_task(id);
        let cell = TaskCell::new(Arc::clone(&self.0), id, ids, handle, Arc::clone(spec), owner, seed);
        self.0.cells.insert(&cell);
        let start = RunStart {
            message: turn_message,
            attempt: 1,
            begins_task: true,
            extensions,
            accepted_output_modes,
            metadata,
        };
        let mut inner = cell.lock();
        let watcher = inner.watch(streaming);
        let run = run::begin(&cell, &mut inner, start, permit);
        drop(inner);
        run::spawn(run);
        Ok(Sent { cell, seq: FIRST_MESSAGE, watcher, follows: streaming, stream })
    }

    async fn continue_task(&self, incoming: Incoming, stream: Option<Permit>) -> Result<Sent, EngineError> {
        let Incoming { agent, owner, mut message, metadata, extensions, accepted_output_modes, streaming, claim } =
            incoming;
        let id = parse_id(&message.task_id).ok_or(EngineError::NotFound)?;
        let cell = self.cell(&agent, &owner, id).await?;
        if message.context_id.is_empty() {
            message.context_id = String::from(&*cell.ids.context);
        } else if *message.context_id != *cell.ids.context {
            return Err(EngineError::OtherContext);
        }
        message.task_id = String::from(&*cell.ids.task);
        let for_agent = Arc::new(message.clone());
        let mut run = None;
        let sent = cell.change(|inner| {
            // A task that is not created yet cannot be named by anybody.
            if inner.committed.seq == 0 {
                return Err(EngineError::NotFound);
            }
            let permit = match inner.run {
                Some(_) => None,
                None => Some(self.0.limits.run().ok_or(RUNS)?),
            };
            let seq = cell.append_message(inner, message, streaming, claim.map(|(key, _)| key))?;
            let watcher = inner.watch(streaming);
            match permit {
                None => inner.incoming.push_back(for_agent),
                Some(permit) => {
                    let start = RunStart {
                        message: for_agent,
                        attempt: 1,
                        begins_task: false,
                        extensions,
                        accepted_output_modes,
                        metadata,
                    };
                    run = Some(run::begin(&cell, inner, start, permit));
                }
            }
            Ok((seq, watcher))
        });
        let (seq, watcher) = sent?;
        match run {
            Some(run) => run::spawn(run),
            None => cell.wake_agent(),
        }
        Ok(Sent { cell, seq, watcher, follows: streaming, stream })
    }
}

impl Sent {
    /// The task's id, whether or not a task comes of the message.
    pub fn task(&self) -> Uuid {
        self.cell.id
    }

    /// Waits until the task is there (`pause` false), or until it has ended or needs the client (`pause` true), and
    /// returns it as it stands; or the message that came instead.
    ///
    /// # Errors
    /// When the deadline passes first (the run goes on), or the store fails.
    pub async fn outcome(self, pause: bool, deadline: Option<Instant>) -> Result<Outcome, EngineError> {
        let wait = poll_fn(|cx| self.poll_outcome(pause, cx));
        match deadline {
            None => wait.await,
            Some(at) => tokio::time::timeout_at(at.into(), wait).await.unwrap_or(Err(EngineError::DeadlineExceeded)),
        }
    }

    fn poll_outcome(&self, pause: bool, cx: &Context<'_>) -> Poll<Result<Outcome, EngineError>> {
        let mut inner = self.cell.lock();
        if inner.poisoned {
            return Poll::Ready(Err(EngineError::StoreUnavailable));
        }
        if let Some(reply) = &inner.reply {
            return Poll::Ready(Ok(Outcome::Message(Arc::clone(reply))));
        }
        let committed = &inner.committed;
        if committed.seq >= self.seq && (!pause || committed.pause > self.seq) {
            return Poll::Ready(Ok(Outcome::Task(committed.task.task().clone())));
        }
        if inner.closed {
            return Poll::Ready(Err(EngineError::Draining));
        }
        inner.park(self.watcher, cx);
        Poll::Pending
    }

    /// The events from this message on: first the task as it stood when the message was taken, then all that follows.
    /// `history` is how many messages the first event shows.
    ///
    /// # Errors
    /// When too many streams are open.
    pub fn stream(mut self, engine: &Engine, history: Option<u32>) -> Result<TaskStream, EngineError> {
        let permit = self.stream.take().or_else(|| engine.0.limits.stream()).ok_or(STREAMS)?;
        Ok(TaskStream::of_message(engine, Arc::clone(&self.cell), self.seq, history, permit))
    }

    /// Another wait for what comes of the same message.
    #[must_use]
    pub fn subscribe_again(&self) -> Self {
        let watcher = self.cell.lock().watch(false);
        Self { cell: Arc::clone(&self.cell), seq: self.seq, watcher, follows: false, stream: None }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.cell.lock().unwatch(self.watcher, self.follows);
    }
}
