//! SendMessage: a new task or the next turn of one, and the wait for its outcome.

use std::sync::Arc;

use tricord_bindings::Encoded;
use tricord_bindings::wkt::Struct;
use uuid::Uuid;

use crate::clock::new_id;
use crate::schema::{Message, StreamResponse, Task};
use crate::store::ClaimKey;
use crate::task::event::{Ids, parse_id};
use crate::task::lifecycle;

use super::cell::{FIRST_MESSAGE, FollowUp, Identity, RunStart, TaskCell, UnsavedTask, View, Watcher};
use super::error::EngineError;
use super::limits::Permit;
use super::load::Tasks;
use super::run;
use super::stream::TaskStream;

/// A message for an agent, with what the client wants.
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
    /// What the message takes in memory, about.
    pub bytes: usize,
    /// Whether a stream begins with this message.
    pub streaming: bool,
    /// The idempotency key that the task fulfils, and the id that was reserved for it.
    pub claim: Option<(ClaimKey, Uuid)>,
}

/// A message that was submitted. It keeps the task in memory until it is dropped; the run does not depend on it.
#[derive(Debug)]
pub struct Sent {
    watcher: Watcher,
    seq: u64,
    /// The permit of the stream that it will become.
    stream: Option<Permit>,
}

/// What came of a message.
#[derive(Debug)]
pub enum Outcome {
    /// A task, as it is committed.
    Task(Arc<Encoded<Task>>),
    /// A message without a task.
    Message(Arc<Encoded<StreamResponse>>),
}

/// Submits a message to its task, or to a new one, and begins a run unless one is live. `ready` is an error if the engine
/// takes no new work.
#[expect(clippy::manual_async_fn, reason = "an async fn would keep the message twice")]
pub(super) fn send(
    tasks: &Tasks,
    ready: Result<(), EngineError>,
    incoming: Incoming,
) -> impl Future<Output = Result<Sent, EngineError>> + Send {
    async move {
        ready?;
        let limits = &tasks.handles.limits;
        if !limits.has_room() {
            return Err(EngineError::Memory("events that are not stored yet"));
        }
        // Taken before anything begins: a refused message leaves nothing behind.
        let stream = incoming.streaming.then(|| limits.stream()).transpose()?;
        match incoming.message.task_id.is_empty() {
            true => {
                let bytes = incoming.bytes;
                limits.offload.run(bytes, || begin_task(tasks, incoming, stream)).await
            }
            // In a box: a new task does not need the room.
            false => Box::pin(continue_task(tasks, incoming, stream)).await,
        }
    }
}

/// Joins an earlier message of a task: waits for the same outcome.
pub(super) async fn join(tasks: &Tasks, agent: &str, owner: &str, id: Uuid) -> Result<Sent, EngineError> {
    let watcher = Watcher::new(&tasks.cell(agent, owner, id).await?, false);
    // With a run under way the next pause is what the first request waits for; without one, the last.
    let seq = watcher.cell().look(|view| match view.run() {
        Some(_) => view.pause().max(FIRST_MESSAGE),
        None => view.pause().saturating_sub(1),
    });
    Ok(Sent { watcher, seq, stream: None })
}

fn begin_task(tasks: &Tasks, incoming: Incoming, stream: Option<Permit>) -> Result<Sent, EngineError> {
    let Incoming { agent, owner, mut message, metadata, extensions, accepted_output_modes, bytes, streaming, claim } =
        incoming;
    let spec = tasks.agents.get(&agent).ok_or(EngineError::NotFound)?;
    let permit = tasks.handles.limits.run()?;
    let memory = tasks.handles.limits.message(bytes)?;
    let (claim, id) = claim.map_or_else(|| (None, new_id()), |(key, id)| (Some(key), id));
    if message.context_id.is_empty() {
        message.context_id = new_id().to_string();
    }
    message.task_id = id.to_string();
    let ids = Ids { task: message.task_id.as_str().into(), context: message.context_id.as_str().into() };
    let start = RunStart {
        message: Arc::new(message.clone()),
        attempt: 1,
        begins_task: true,
        extensions,
        accepted_output_modes,
        metadata: metadata.clone(),
    };
    let identity = Identity { id, ids, handle: tasks.store.new_task(id), spec: Arc::clone(spec), owner };
    let first = UnsavedTask { message, metadata, snapshot: streaming, claim };
    let cell = TaskCell::of_message(Arc::clone(&tasks.handles), identity, first, memory);
    tasks.handles.live.insert(id, &cell);
    let (watcher, run) = cell.begin(start, streaming);
    run::spawn(&cell, run, permit);
    Ok(Sent { watcher, seq: FIRST_MESSAGE, stream })
}

async fn continue_task(tasks: &Tasks, incoming: Incoming, stream: Option<Permit>) -> Result<Sent, EngineError> {
    let Incoming { agent, owner, mut message, metadata, extensions, accepted_output_modes, bytes, streaming, claim } =
        incoming;
    let memory = tasks.handles.limits.message(bytes)?;
    let id = parse_id(&message.task_id).ok_or(EngineError::NotFound)?;
    let cell = tasks.cell(&agent, &owner, id).await?;
    if message.context_id.is_empty() {
        message.context_id = String::from(&*cell.ids().context);
    } else if *message.context_id != *cell.ids().context {
        return Err(EngineError::OtherContext);
    }
    message.task_id = String::from(&*cell.ids().task);
    let start = RunStart {
        message: Arc::new(message.clone()),
        attempt: 1,
        begins_task: false,
        extensions,
        accepted_output_modes,
        metadata,
    };
    let claim = claim.map(|(key, _)| key);
    let FollowUp { seq, watcher, run } =
        cell.follow_up(message, start, streaming, claim, memory, || tasks.handles.limits.run())?;
    if let Some((run, permit)) = run {
        run::spawn(&cell, run, permit);
    }
    Ok(Sent { watcher, seq, stream })
}

impl Sent {
    /// Returns the id of the task, whether or not the message becomes one.
    pub fn task(&self) -> Uuid {
        self.watcher.cell().id()
    }

    /// Waits until the task is committed (`pause` false), or until it has ended or needs the client (`pause` true), and
    /// returns it; or returns the message that the agent answered with instead.
    ///
    /// # Errors
    /// When the store fails. Dropping the wait does not end the run.
    pub async fn outcome(self, pause: bool) -> Result<Outcome, EngineError> {
        self.watcher.until(|view| outcome(view, self.seq, pause)).await
    }

    /// Returns the events from this message on.
    pub(super) fn into_stream(mut self, tasks: &Arc<Tasks>, history: Option<u32>) -> Result<TaskStream, EngineError> {
        let permit = self.stream.take().map_or_else(|| tasks.handles.limits.stream(), Ok)?;
        Ok(TaskStream::of_message(tasks, self.watcher, self.seq, history, permit))
    }

    /// Returns another wait for the outcome of the same message.
    #[must_use]
    pub fn subscribe_again(&self) -> Self {
        Self { watcher: Watcher::new(self.watcher.cell(), false), seq: self.seq, stream: None }
    }
}

fn outcome(view: &View<'_>, seq: u64, pause: bool) -> Option<Result<Outcome, EngineError>> {
    if view.is_poisoned() {
        return Some(Err(EngineError::StoreUnavailable));
    }
    if let Some(reply) = view.reply() {
        return Some(Ok(Outcome::Message(reply)));
    }
    // Another message may have been accepted since the pause. The answer is then the next pause, not a task under way.
    if view.seq() >= seq && (!pause || (view.pause() > seq && lifecycle::is_pause(view.state()))) {
        return Some(Ok(Outcome::Task(view.task())));
    }
    view.stopped().map(Err)
}
