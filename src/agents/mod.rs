//! What does the work: the [`Agent`] trait, and the kinds that come with the server.
//!
//! An agent sees its [`TaskContext`] and nothing else: not the engine, not the store, not the wire.

mod artifact;
mod conformance;
mod echo;
pub mod exec;
mod task_context;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use artifact::ArtifactWriter;
pub use conformance::Conformance;
pub use echo::Echo;
pub use task_context::{Parts, Resumed, RunHandle, TaskContext, Turn, text_part};

use crate::schema::TaskState;

/// Something that does the work of tasks.
///
/// One value serves all tasks at once; what belongs to a task comes with the [`TaskContext`]. Returning `Ok` completes the task
/// (unless it asked for input or ended already); an error fails it with the error's public message. A panic fails it too.
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
pub trait Agent: Send + Sync + 'static {
    /// One run: from a message to the end of the task, or to the point where the next message is needed.
    fn run(&self, task: TaskContext) -> impl Future<Output = Result<(), AgentError>> + Send;

    /// Whether a run may answer with a message instead of a task ([`TaskContext::reply`]). Agents that never do say `false` and
    /// have their task made at once.
    fn may_reply(&self) -> bool {
        true
    }
}

/// An agent of any kind.
#[derive(Clone)]
pub struct BoxAgent(Arc<dyn Boxed>);

impl BoxAgent {
    /// Takes an agent.
    pub fn new(agent: impl Agent) -> Self {
        Self(Arc::new(agent))
    }

    /// Runs it; see [`Agent::run`].
    pub fn run(&self, task: TaskContext) -> Running {
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

/// A run under way.
pub type Running = Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send>>;

/// The same trait with a future that has no type of its own, so that agents of several kinds can stand side by side.
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

/// An agent from a function.
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

/// Why a run failed: a message that the client reads, and a cause that only the log has.
pub struct AgentError {
    public: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    refused: Option<EmitError>,
}

impl AgentError {
    /// A failure with a message for the client.
    pub fn new(public: impl Into<String>) -> Self {
        Self { public: public.into(), source: None, refused: None }
    }

    /// Adds the cause, which is logged and never sent.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The message for the client.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The refusal that this error passes on, if it is one: then the task has ended, or cannot go on, by itself.
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

/// Why an event of an agent was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The task has ended in this state: cancelled meanwhile, or by the agent itself.
    #[error("the task has ended in {}", .0.as_str_name())]
    Ended(TaskState),
    /// The run has answered with a message, or has been replaced; nothing more can come of it.
    #[error("the run is over")]
    RunOver,
    /// The event is not legal now, or not well formed.
    #[error("{0}")]
    Illegal(String),
    /// The task has as many records, or bytes, as a task may have.
    #[error("the task is larger than the server allows: {0}")]
    TooLarge(&'static str),
    /// The store failed; the task goes on, or fails, by what was committed.
    #[error("the store failed")]
    StoreLost,
}

impl From<EmitError> for AgentError {
    fn from(error: EmitError) -> Self {
        Self { public: error.to_string(), source: None, refused: Some(error) }
    }
}
