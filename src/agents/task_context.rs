//! What an agent sees of its task: the message, and ways to say what comes of it.

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

/// What stands behind a [`TaskContext`]: implemented by the engine, called by nobody else.
pub trait RunHandle: Send + Sync + 'static {
    /// Appends an event: checks that it is legal now, numbers it, and puts it on its way to the store. Returns its number.
    ///
    /// # Errors
    /// When the event is refused; then nothing happened.
    fn append(&self, event: Event) -> Result<u64, EmitError>;

    /// Ready while there is room for more events that are not committed yet.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready when every event up to `seq` is durable, or never will be.
    fn poll_committed(&self, seq: u64, cx: &mut Context<'_>) -> Poll<Result<(), EmitError>>;

    /// The number of the last event appended.
    fn head(&self) -> u64;

    /// Answers with a message instead of a task. Returns the parts back if the task exists already.
    ///
    /// # Errors
    /// When the run is over.
    fn reply(&self, parts: Vec<Part>) -> Result<Option<Vec<Part>>, EmitError>;

    /// The next message that came while this run was live.
    fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<Arc<Message>>;

    /// Ready when a message came while this run was live; leaves it there.
    fn poll_incoming_ready(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready when somebody resumed the task, once for each time.
    fn poll_resumed(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// The messages of the task so far, appended ones included, oldest first.
    fn history(&self) -> Vec<Message>;

    /// A fresh id.
    fn fresh_id(&self) -> String;
}

/// What a run is about: fixed for its whole time.
#[derive(Debug)]
pub struct Turn {
    /// The message that began the run.
    pub message: Arc<Message>,
    /// The task's id.
    pub task_id: Arc<str>,
    /// The conversation's id.
    pub context_id: Arc<str>,
    /// The agent's name.
    pub agent: Arc<str>,
    /// Whom the task belongs to; empty without authentication.
    pub owner: Arc<str>,
    /// Whether the message began the task, rather than going on with it.
    pub begins_task: bool,
    /// Which try of this run it is, from 1: above that only after a restart of the server.
    pub attempt: u32,
    /// The extensions in use.
    pub extensions: Vec<String>,
    /// The media types that the client can use; empty is any.
    pub accepted_output_modes: Vec<String>,
    /// The request's metadata.
    pub metadata: Option<Struct>,
    /// Cancelled when the task is to end.
    pub cancelled: CancellationToken,
}

/// What an agent sees of its task. Cheap to clone and to send to other threads.
#[derive(Clone)]
pub struct TaskContext {
    host: Arc<dyn RunHandle>,
    turn: Arc<Turn>,
}

/// Why [`TaskContext::require_auth`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// The authorisation is there.
    Authorised,
    /// The client sent a message instead; [`TaskContext::incoming`] has it, and so has the next run.
    Message,
    /// The task is to end.
    Cancelled,
}

impl TaskContext {
    /// Puts a run's facts and its host together.
    pub fn new(host: Arc<dyn RunHandle>, turn: Arc<Turn>) -> Self {
        Self { host, turn }
    }

    /// The message that began this run.
    pub fn message(&self) -> &Message {
        &self.turn.message
    }

    /// The text of the message: its text parts, joined by line ends. A message with a single text part is the common case.
    pub fn text(&self) -> String {
        let mut texts = self.message().parts.iter().filter_map(|part| match &part.content {
            Some(Content::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        let first = texts.next().unwrap_or_default().to_owned();
        texts.fold(first, |joined, text| joined + "\n" + text)
    }

    /// Everything else that is fixed for the run: ids, owner, extensions, accepted output modes.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// The task's id.
    pub fn task_id(&self) -> &str {
        &self.turn.task_id
    }

    /// The messages of the task so far, oldest first.
    pub fn history(&self) -> Vec<Message> {
        self.host.history()
    }

    /// Enters WORKING and says what is done; with an empty text, nothing is said.
    ///
    /// # Errors
    /// When the task has ended or the store failed; return it with `?`.
    pub async fn working(&self, text: impl Into<String>) -> Result<(), AgentError> {
        let text = text.into();
        let parts = if text.is_empty() { Vec::new() } else { vec![text_part(text)] };
        self.status(TaskState::Working, parts).await
    }

    /// Enters a state, with a message of these parts unless there are none.
    ///
    /// # Errors
    /// When the state cannot be entered now, the task has ended or the store failed.
    pub async fn status(&self, state: TaskState, parts: Vec<Part>) -> Result<(), AgentError> {
        let message = (!parts.is_empty()).then(|| self.say(parts));
        self.emit(Event::Status(StatusChange { state: state.into(), message, metadata: None })).await
    }

    /// Begins an artifact that is written piece by piece. It appears with its first piece.
    pub fn artifact(&self, name: impl Into<String>) -> ArtifactWriter {
        ArtifactWriter::new(self.clone(), self.host.fresh_id(), name.into())
    }

    /// Emits a whole artifact, or a piece of one as the caller cuts it.
    ///
    /// # Errors
    /// When the artifact has no id or no part, the task has ended or the store failed.
    pub async fn emit_artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) -> Result<(), AgentError> {
        self.emit(Event::Artifact(ArtifactPiece { artifact: Some(artifact), append, last_chunk, metadata: None })).await
    }

    /// Answers with a message. Where no task exists yet, the message is the whole answer and no task will; otherwise the
    /// task completes with these parts as its status message. Return right after it.
    ///
    /// # Errors
    /// When the run is over, the task has ended or the store failed.
    pub async fn reply(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        match self.host.reply(parts.into().0)? {
            None => Ok(()),
            Some(parts) => self.status(TaskState::Completed, parts).await,
        }
    }

    /// Completes the task with these parts as its status message; like [`reply`](Self::reply), but always with a task.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn complete(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        self.status(TaskState::Completed, parts.into().0).await
    }

    /// Asks the client: ends the run in INPUT_REQUIRED. The next message starts a new run, so return right after it.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn ask(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        self.status(TaskState::InputRequired, parts.into().0).await
    }

    /// Refuses the task: ends it in REJECTED. Return right after it.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn reject(&self, parts: impl Into<Parts>) -> Result<(), AgentError> {
        self.status(TaskState::Rejected, parts.into().0).await
    }

    /// Enters AUTH_REQUIRED and waits until somebody resumes the task, the client sends a message, or the task is to end
    /// (§7.6).
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

    /// The next message that came for the task while this run was live; waits for one.
    pub async fn incoming(&self) -> Arc<Message> {
        poll_fn(|cx| self.host.poll_incoming(cx)).await
    }

    /// Waits until the task is to end.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.turn.cancelled.cancelled()
    }

    /// Whether the task is to end.
    pub fn is_cancelled(&self) -> bool {
        self.turn.cancelled.is_cancelled()
    }

    /// Waits until everything said so far is durable. Call it before a side effect outside that must not happen twice.
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

    /// Appends without waiting for room: for what must not be lost when a writer is dropped.
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

/// Parts of a message, from a text or from parts.
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

/// A part of plain text.
pub fn text_part(text: impl Into<String>) -> Part {
    Part { content: Some(Content::Text(text.into())), ..Part::default() }
}
