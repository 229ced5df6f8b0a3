//! What the runs of a task begin with, and what comes of a message, a resume or a run's end.

use std::collections::VecDeque;
use std::sync::Arc;

use tricord_bindings::wkt::Struct;

use crate::agents::{AgentError, Turn};
use crate::schema::{Message, TaskState};

use super::super::limits::Permit;
use super::{QueuedMessage, Watcher};

/// What a run begins with.
pub(in crate::engine) struct RunStart {
    pub(in crate::engine) message: Arc<Message>,
    pub(in crate::engine) attempt: u32,
    pub(in crate::engine) begins_task: bool,
    pub(in crate::engine) extensions: Vec<String>,
    pub(in crate::engine) accepted_output_modes: Vec<String>,
    pub(in crate::engine) metadata: Option<Struct>,
}

/// A run that owns its task, and that somebody has to poll.
pub(in crate::engine) struct StartedRun {
    /// Its number among the runs of this cell.
    pub(in crate::engine) number: u32,
    /// What it is about.
    pub(in crate::engine) turn: Arc<Turn>,
}

/// How a run ended.
pub(in crate::engine) enum RunEnd {
    /// The agent returned.
    Returned(Result<(), AgentError>),
    /// The agent panicked.
    Panicked,
}

/// What an attempt to resume a task found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// The task waited in AUTH_REQUIRED and goes on.
    Resumed,
    /// The task is in this state and does not wait for an authorisation.
    NotWaiting(TaskState),
}

/// The turn that the log of a task says was the last to begin.
pub(in crate::engine) struct LastTurn {
    /// The message that it began with.
    pub(in crate::engine) message: QueuedMessage,
    /// The messages behind that one, in order. The turn may have read some of them.
    pub(in crate::engine) queued: VecDeque<QueuedMessage>,
    /// How often a run of it began.
    pub(in crate::engine) attempts: u32,
}

/// A follow-up message that was appended.
pub(in crate::engine) struct FollowUp {
    /// The seq of the message.
    pub(in crate::engine) seq: u64,
    /// The sender's registration.
    pub(in crate::engine) watcher: Watcher,
    /// The run that the message began; `None` if it went to the live one.
    pub(in crate::engine) run: Option<(StartedRun, Permit)>,
}
