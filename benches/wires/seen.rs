//! Checks the events of a stream.

use std::rc::Rc;

use memchr::memmem;
use tricord::schema::stream_response::Payload;
use tricord::schema::{StreamResponse, Task, TaskState};

/// The state that a request must end in, as JSON has it.
pub const COMPLETED: &[u8] = b"\"TASK_STATE_COMPLETED\"";

type First = Rc<dyn Fn(&str)>;

/// The events of one stream.
#[derive(Default, Clone)]
pub struct Seen {
    /// The number of artifact pieces.
    pub pieces: usize,
    /// Whether the task was completed.
    completed: bool,
    events: usize,
    /// Called with the task's id when the first event arrives.
    first: Option<First>,
}

impl Seen {
    /// Creates a checker. It calls `first` with the task's id when the first event arrives.
    pub fn telling(first: impl Fn(&str) + 'static) -> Self {
        Self { first: Some(Rc::new(first)), ..Self::default() }
    }

    /// Checks that all requested pieces arrived.
    pub fn check(&self, pieces: usize) -> Result<(), String> {
        if self.completed && self.pieces == pieces {
            return Ok(());
        }
        let end = if self.completed { "completed" } else { "not completed" };
        Err(format!("a stream of {pieces} pieces brought {}, in {} events, {end}", self.pieces, self.events))
    }

    /// Adds a JSON event, which may be inside a JSON-RPC response. Looks only at its beginning and does not parse it.
    pub fn json(&mut self, data: &[u8]) {
        self.events += 1;
        if self.events == 1
            && let Some(first) = &self.first
        {
            first(task_in(data).as_deref().unwrap_or_default());
        }
        if memmem::find(&data[..data.len().min(100)], b"\"artifactUpdate\"").is_some() {
            self.pieces += 1;
        } else if memmem::find(data, COMPLETED).is_some() {
            self.completed = true;
        }
    }

    /// Adds an event that is a message.
    pub fn message(&mut self, event: &StreamResponse) {
        self.events += 1;
        let status = match &event.payload {
            Some(Payload::Task(task)) => task.status.as_ref(),
            Some(Payload::StatusUpdate(update)) => update.status.as_ref(),
            Some(Payload::ArtifactUpdate(_)) => {
                self.pieces += 1;
                None
            }
            _ => None,
        };
        self.completed |= status.is_some_and(|status| status.state() == TaskState::Completed);
        if self.events == 1
            && let Some(first) = &self.first
        {
            match &event.payload {
                Some(Payload::Task(task)) => first(&task.id),
                _ => first(""),
            }
        }
    }
}

/// Returns whether a task is completed.
pub fn completed(task: &Task) -> bool {
    task.status.as_ref().is_some_and(|status| status.state() == TaskState::Completed)
}

/// Returns the task's id in an answer or an event.
pub fn task_in(json: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    let task = &value.get("result").unwrap_or(&value)["task"];
    Some(task["id"].as_str()?.to_owned())
}
