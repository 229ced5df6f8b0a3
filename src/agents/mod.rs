//! Agents: the [`Agent`] trait, what an agent sees of its task, and the kinds of agents that come with the server.
//!
//! An agent sees its [`TaskContext`] and nothing else. It does not depend on the engine, the store or a binding.

mod artifact;
mod conformance;
mod echo;
pub mod exec;
mod kind;
mod task_context;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use artifact::ArtifactWriter;
pub use conformance::Conformance;
pub use echo::Echo;
pub use kind::{AgentKind, OnRestart};
pub(crate) use task_context::RunHandle;
pub use task_context::{Parts, Resumed, TaskContext, Turn, text_part};

use crate::schema::TaskState;
pub(crate) use kind::{BuiltAgent, Kind, TestHooks};

/// Every kind of agent that a configuration can name. To add a kind, write its folder, declare the module above, and add
/// an entry here.
pub(crate) static KINDS: &[&Kind] = &[&echo::KIND, &exec::KIND, &conformance::KIND];

/// Something that does the work of tasks.
///
/// One value serves all tasks at once; everything about one task is in its [`TaskContext`]. Returning `Ok` completes the
/// task, unless the agent asked for input or ended the task itself. An error fails the task with the error's public
/// message. A panic fails it too.
///
/// ```
/// use tricord::agents::{Agent, AgentError, TaskContext};
///
/// struct Shout;
///
/// impl Agent for Shout {
///     async fn run(&self, task: TaskContext) -> Result<(), AgentError> {
///         task.working("taking a breath").await?;
///         let mut answer = task.artifact("answer");
///         answer.text(task.text().to_uppercase()).await?;
///         answer.finish().await
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an agent",
    label = "expected an agent",
    note = "implement `Agent` for `{Self}`: `async fn run(&self, task: TaskContext) -> Result<(), AgentError>`",
    note = "or make an agent from a function: `from_fn(|task: TaskContext| async move {{ ... }})`"
)]
pub trait Agent: Send + Sync + 'static {
    /// Works on one message, until the task ends or needs the next message.
    ///
    /// # Errors
    /// The failure of the task. Errors of [`TaskContext`] are passed on with `?`.
    fn run(&self, task: TaskContext) -> impl Future<Output = Result<(), AgentError>> + Send;

    /// Returns whether a run may answer with a message instead of a task ([`TaskContext::reply`]). For agents that return
    /// `false` the task is created at once.
    fn may_reply(&self) -> bool {
        true
    }
}

/// An agent of any type, behind a pointer.
#[doc(hidden)]
#[derive(Clone)]
pub struct BoxAgent(Arc<dyn Boxed>);

impl BoxAgent {
    /// Wraps an agent.
    pub fn new(agent: impl Agent) -> Self {
        Self(Arc::new(agent))
    }

    /// Starts a run. See [`Agent::run`].
    pub fn run(&self, task: TaskContext) -> RunFuture {
        let agent = Arc::clone(&self.0);
        Box::pin(async move { agent.run_boxed(task).await })
    }

    /// See [`Agent::may_reply`].
    pub fn may_reply(&self) -> bool {
        self.0.may_reply()
    }
}

impl fmt::Debug for BoxAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxAgent")
    }
}

/// The future of a run.
#[doc(hidden)]
pub type RunFuture = Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send>>;

/// [`Agent`] with a boxed future, so that agents of different types fit into one list.
trait Boxed: Send + Sync {
    fn run_boxed(&self, task: TaskContext) -> Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send + '_>>;
    fn may_reply(&self) -> bool;
}

impl<A: Agent> Boxed for A {
    fn run_boxed(&self, task: TaskContext) -> Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send + '_>> {
        Box::pin(self.run(task))
    }

    fn may_reply(&self) -> bool {
        Agent::may_reply(self)
    }
}

/// Makes an agent from a function.
///
/// ```
/// use tricord::agents::{TaskContext, from_fn};
///
/// let agent = from_fn(|task: TaskContext| async move { task.reply(format!("You said: {}", task.text())).await });
/// # drop(agent);
/// ```
pub fn from_fn<F, R>(run: F) -> impl Agent
where
    F: Fn(TaskContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), AgentError>> + Send + 'static,
{
    struct FromFn<F>(F);

    impl<F, R> Agent for FromFn<F>
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        fn run(&self, task: TaskContext) -> impl Future<Output = Result<(), AgentError>> + Send {
            (self.0)(task)
        }
    }

    FromFn(run)
}

/// The failure of a run: a message for the client, and a cause that is only logged.
pub struct AgentError {
    public: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    refused: Option<EmitError>,
}

impl AgentError {
    /// Creates a failure with a message for the client.
    pub fn new(public: impl Into<String>) -> Self {
        Self { public: public.into(), source: None, refused: None }
    }

    /// Sets the cause, which is logged and never sent.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the message for the client.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Returns the refusal of an event that this error passes on, if there is one. The task has then ended already, or
    /// cannot go on.
    pub fn refusal(&self) -> Option<&EmitError> {
        self.refused.as_ref()
    }
}

impl fmt::Debug for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentError").field("public", &self.public).field("source", &self.source).finish()
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.public)
    }
}

impl StdError for AgentError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

/// Why an event of an agent was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The task has ended in this state, for example because it was cancelled.
    #[error("the task has ended in {}", .0.as_str_name())]
    Ended(TaskState),
    /// The run has answered with a message or was replaced by another one.
    #[error("the run is over")]
    RunOver,
    /// The event is not allowed in the task's state, or is malformed.
    #[error("{0}")]
    Illegal(String),
    /// The task has reached a limit on its records or bytes; the text names it.
    #[error("the task is larger than the server allows: {0}")]
    TooLarge(&'static str),
    /// The store failed. The server recovers the task from what was committed.
    #[error("the store failed")]
    StoreLost,
}

impl From<EmitError> for AgentError {
    fn from(error: EmitError) -> Self {
        Self { public: error.to_string(), source: None, refused: Some(error) }
    }
}
