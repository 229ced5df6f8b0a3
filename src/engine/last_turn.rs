//! The last turn of a task, as its log tells it: the message that it began with, and those that came behind.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::schema::TaskState;
use crate::schema::store::record::Event;
use crate::store::{Tail, TaskHandle};

use super::cell::{LastTurn, QueuedMessage};
use super::error::EngineError;
use super::load::Tasks;

/// Reads the last turn of a task. Returns `None` if the log has no message.
///
/// It reads the whole log: a checkpoint holds the task, and not how it came to be.
pub(super) async fn read(tasks: &Tasks, task: TaskHandle) -> Result<Option<LastTurn>, EngineError> {
    let (mut found, mut at) = (Scan::default(), 0);
    loop {
        let Tail::Records(batches) = tasks.store.log_since(task, at).await? else { return Ok(found.turn()) };
        let before = at;
        for record in batches.into_iter().flat_map(|batch| batch.records) {
            at = record.seq;
            if let Some(event) = record.event {
                found.take(record.seq, event);
            }
        }
        if at == before {
            return Ok(found.turn());
        }
    }
}

/// What the records so far say.
#[derive(Default)]
struct Scan {
    /// The message that the turn began with, and those behind it.
    messages: VecDeque<QueuedMessage>,
    attempts: u32,
    /// The client was asked and has not answered.
    asked: bool,
    /// The log says which messages began a turn. Logs of older versions do not.
    marked: bool,
}

impl Scan {
    fn take(&mut self, seq: u64, event: Event) {
        match event {
            Event::Message(message) => {
                if self.asked && !self.marked {
                    self.begin(seq);
                }
                self.asked = false;
                self.messages.push_back(QueuedMessage { seq, message: Arc::new(message) });
                self.attempts = self.attempts.max(1);
            }
            Event::TurnStarted(turn) => {
                self.marked = true;
                self.begin(turn.message_seq);
            }
            Event::Resumed(resumed) => self.attempts = resumed.attempt,
            Event::Status(status) => self.asked = status.state() == TaskState::InputRequired,
            Event::Created(_) | Event::Artifact(_) => {}
        }
    }

    /// Forgets the messages of earlier turns.
    fn begin(&mut self, seq: u64) {
        self.messages.retain(|message| message.seq >= seq);
        self.attempts = 1;
    }

    fn turn(mut self) -> Option<LastTurn> {
        let message = self.messages.pop_front()?;
        Some(LastTurn { message, queued: self.messages, attempts: self.attempts })
    }
}
