//! What an agent sees of its task: the message that it works on, and the operations that change the task.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tricord_bindings::wkt::Struct;

use crate::schema::part::Content;
use crate::schema::store::record::Event;
use crate::schema::store::{ArtifactPiece, StatusChange};
use crate::schema::{Artifact, Message, Part, Role, TaskState};

use super::{AgentError, ArtifactWriter, EmitError};

/// The run behind a [`TaskContext`]. The engine implements it.
pub(crate) trait RunHandle: Send + Sync + 'static {
    /// Checks that an event is allowed now, numbers it and queues it for the store. Returns its number.
    ///
    /// # Errors
    /// When the event is refused. The task is then unchanged.
    fn append(&self, event: Event) -> Result<u64, EmitError>;

    /// Ready while the run may append more before some of its events are committed.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready when every event up to `seq` is durable, or with an error if it never will be.
    fn poll_committed(&self, seq: u64, cx: &mut Context<'_>) -> Poll<Result<(), EmitError>>;

    /// Returns the number of the last event that was appended.
    fn head(&self) -> u64;

    /// Answers with a message instead of a task. Gives the parts back if the task exists already.
    ///
    /// # Errors
    /// When the run is over.
    fn reply(&self, parts: Vec<Part>) -> Result<Option<Vec<Part>>, EmitError>;

    /// Ready with the next message that arrived during this run.
    fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<Arc<Message>>;

    /// Ready when a message has arrived during this run. The message stays in the queue.
    fn poll_incoming_ready(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready once after the task was resumed from AUTH_REQUIRED.
    fn poll_resumed(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Returns the messages of the task so far, oldest first, including ones that are not committed yet.
    fn history(&self) -> Vec<Message>;

    /// Returns a new unique id.
    fn fresh_id(&self) -> String;
}

/// What is fixed for the whole run: the message, ids and the request's options.
#[derive(Debug)]
pub struct Turn {
    /// The message that started the run.
    pub message: Arc<Message>,
    /// The task's id.
    pub task_id: Arc<str>,
    /// The id of the context, A2A's name for a conversation.
    pub context_id: Arc<str>,
    /// The agent's name.
    pub agent: Arc<str>,
    /// The owner of the task; empty without authentication.
    pub owner: Arc<str>,
    /// Whether the message created the task rather than continuing it.
    pub begins_task: bool,
    /// The attempt at this run, counted from 1. It is greater only after a restart of the server.
    pub attempt: u32,
    /// The URIs of the protocol extensions that are in use.
    pub extensions: Vec<String>,
    /// The media types that the client accepts; empty for any.
    pub accepted_output_modes: Vec<String>,
    /// The request's metadata.
    pub metadata: Option<Struct>,
    /// Cancelled when the task is being cancelled.
    pub cancelled: CancellationToken,
}

/// What an agent sees of its task, and how it changes it. Cheap to clone and to send to other threads.
#[derive(Clone)]
pub struct TaskContext {
    host: Arc<dyn RunHandle>,
    turn: Arc<Turn>,
}

/// Why [`TaskContext::require_auth`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// The authorisation was granted.
    Authorised,
    /// The client sent a message instead. [`TaskContext::incoming`] returns it; otherwise the next run gets it.
    Message,
    /// The task is being cancelled.
    Cancelled,
}

impl TaskContext {
    /// Combines what is fixed for a run with its handle.
    pub(crate) fn new(host: Arc<dyn RunHandle>, turn: Arc<Turn>) -> Self {
        Self { host, turn }
    }

    /// Returns the message that started this run.
    pub fn message(&self) -> &Message {
        &self.turn.message
    }

    /// Returns the text parts of the message, joined by line ends.
    pub fn text(&self) -> String {
        let mut texts = self.message().parts.iter().filter_map(|part| match &part.content {
            Some(Content::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        let first = texts.next().unwrap_or_default().to_owned();
        texts.fold(first, |joined, text| joined + "\n" + text)
    }

    /// Returns everything that is fixed for the run: ids, owner, extensions, accepted output modes.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Returns the task's id.
    pub fn task_id(&self) -> &str {
        &self.turn.task_id
    }

    /// Returns the messages of the task so far, oldest first.
    pub fn history(&self) -> Vec<Message> {
        self.host.history()
    }

    /// Enters WORKING, with a message of this text unless it is empty.
    ///
    /// # Errors
    /// When the task has ended or the store failed. Return the error with `?`.
    pub async fn working(&self, text: impl Into<String>) -> Result<(), AgentError> {
        let text = text.into();
        let parts = if text.is_empty() { Vec::new() } else { vec![text_part(text)] };
        self.status(TaskState::Working, parts).await
    }

    /// Enters a state, with a message of these parts unless the list is empty.
    ///
    /// # Errors
    /// When the state cannot be entered now, the task has ended or the store failed.
    pub async fn status(&self, state: TaskState, parts: Vec<Part>) -> Result<(), AgentError> {
        let message = (!parts.is_empty()).then(|| self.say(parts));
        self.emit(Event::Status(StatusChange { state: state.into(), message, metadata: None })).await
    }

    /// Starts an artifact that is written piece by piece. It becomes visible with its first piece.
    pub fn artifact(&self, name: impl Into<String>) -> ArtifactWriter {
        ArtifactWriter::new(self.clone(), self.host.fresh_id(), name.into())
    }

    /// Emits an artifact, or a piece of one. The fields have the meaning of TaskArtifactUpdateEvent (§4.2.2).
    ///
    /// # Errors
    /// When the artifact has no id or no part, the task has ended or the store failed.
    pub async fn emit_artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) -> Result<(), AgentError> {
        self.emit(Event::Artifact(ArtifactPiece { artifact: Some(artifact), append, last_chunk, metadata: None })).await
    }

    /// Answers with a message. If no task exists yet, the message is the answer and no task is created; otherwise the task
    /// completes with these parts as its status message. Return right after it.
    ///
    /// # Errors
    /// When the run is over, the task has ended or the store failed.
    pub async fn reply(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        match self.host.reply(parts.into().0)? {
            None => Ok(()),
            Some(parts) => self.status(TaskState::Completed, parts).await,
        }
    }

    /// Completes the task with these parts as its status message. Unlike [`reply`](Self::reply) it always creates a task.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn complete(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        self.status(TaskState::Completed, parts.into().0).await
    }

    /// Asks the client for input by entering INPUT_REQUIRED. The next message starts a new run, so return right after it.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn ask(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        self.status(TaskState::InputRequired, parts.into().0).await
    }

    /// Refuses the task by ending it in REJECTED. Return right after it.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn reject(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        self.status(TaskState::Rejected, parts.into().0).await
    }

    /// Enters AUTH_REQUIRED and waits until an operator resumes the task, the client sends a message, or the task is
    /// cancelled (§7.6).
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn require_auth(&self, parts: impl Into<Parts>) -> Result<Resumed, AgentError> {
        self.status(TaskState::AuthRequired, parts.into().0).await?;
        tokio::select! {
            biased;
            () = self.turn.cancelled.cancelled() => Ok(Resumed::Cancelled),
            () = poll_fn(|cx| self.host.poll_resumed(cx)) => Ok(Resumed::Authorised),
            () = poll_fn(|cx| self.host.poll_incoming_ready(cx)) => Ok(Resumed::Message),
        }
    }

    /// Waits for the next message that the client sends during this run.
    pub async fn incoming(&self) -> Arc<Message> {
        poll_fn(|cx| self.host.poll_incoming(cx)).await
    }

    /// Waits until the task is being cancelled.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.turn.cancelled.cancelled()
    }

    /// Returns whether the task is being cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.turn.cancelled.is_cancelled()
    }

    /// Waits until everything emitted so far is durable. Call it before an external side effect that must not be repeated.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn commit(&self) -> Result<(), AgentError> {
        let seq = self.host.head();
        Ok(poll_fn(|cx| self.host.poll_committed(seq, cx)).await?)
    }

    pub(super) async fn emit(&self, event: Event) -> Result<(), AgentError> {
        self.host.append(event)?;
        poll_fn(|cx| self.host.poll_room(cx)).await;
        Ok(())
    }

    /// Appends without waiting for room, for the last piece of a writer that is dropped.
    pub(super) fn emit_now(&self, event: Event) -> Result<(), EmitError> {
        self.host.append(event).map(drop)
    }

    fn say(&self, parts: Vec<Part>) -> Message {
        Message {
            message_id: self.host.fresh_id(),
            context_id: self.turn.context_id.to_string(),
            task_id: self.turn.task_id.to_string(),
            role: Role::Agent.into(),
            parts,
            ..Message::default()
        }
    }
}

impl std::fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskContext").field("task", &self.turn.task_id).finish_non_exhaustive()
    }
}

/// The parts of a message. Converts from text, one part or several.
#[derive(Debug, Clone, Default)]
pub struct Parts(pub Vec<Part>);

impl From<&str> for Parts {
    fn from(text: &str) -> Self {
        Self(vec![text_part(text)])
    }
}

impl From<String> for Parts {
    fn from(text: String) -> Self {
        Self(vec![text_part(text)])
    }
}

impl From<Part> for Parts {
    fn from(part: Part) -> Self {
        Self(vec![part])
    }
}

impl From<Vec<Part>> for Parts {
    fn from(parts: Vec<Part>) -> Self {
        Self(parts)
    }
}

/// Makes a part of plain text.
pub fn text_part(text: impl Into<String>) -> Part {
    Part { content: Some(Content::Text(text.into())), ..Part::default() }
}
