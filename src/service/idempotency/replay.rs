//! The answer of a retry.

use std::sync::Arc;

use futures::StreamExt as _;
use prost::Message as _;
use tricord_bindings::{Encoded, Error, Events, Reply};
use uuid::Uuid;

use crate::engine::{Engine, EngineError, Outcome, Sent};
use crate::schema::stream_response::Payload;
use crate::schema::{Message, StreamResponse, Task};
use crate::service::failure::refused;
use crate::service::read::limited;
use crate::store::ClaimKey;
use crate::task::fold;
use crate::task::lifecycle::is_terminal;

/// A retry, and where its answer comes from.
pub(in crate::service) struct Replay(Source);

enum Source {
    /// The first request is under way, or its task is not at its end.
    Joined { sent: Sent, agent: Arc<str>, owner: Arc<str> },
    /// The task of the first request has ended.
    Ended(Arc<Encoded<Task>>),
    /// The first request was answered with this message.
    Message(Arc<Encoded<StreamResponse>>),
}

impl Replay {
    /// Returns the retry of a request that was submitted.
    pub(super) fn joined(sent: Sent, key: ClaimKey) -> Self {
        Self(Source::Joined { sent, agent: key.agent, owner: key.owner })
    }

    /// Returns the retry of a request whose task is in the store.
    ///
    /// # Errors
    ///
    /// When the task was deleted, or the store cannot be read.
    pub(super) async fn task(engine: &Engine, key: ClaimKey, id: Uuid) -> Result<Self, Error> {
        let task = engine.read(&key.agent, &key.owner, id).await.map_err(refused)?;
        if is_terminal(fold::state(task.value())) {
            return Ok(Self(Source::Ended(task)));
        }
        let sent = engine.join(&key.agent, &key.owner, id).await.map_err(refused)?;
        Ok(Self::joined(sent, key))
    }

    /// Returns the retry of a request that was answered with a message, given in its stored encoding.
    pub(super) fn message(bytes: &[u8]) -> Result<Self, Error> {
        let message = Message::decode(bytes).map_err(|_| Error::internal())?;
        Ok(Self(Source::Message(Arc::new(Encoded::new(StreamResponse::from(Payload::Message(message)))))))
    }

    /// Waits for the outcome of the first request.
    pub(super) async fn outcome(self, wait: bool) -> Result<Outcome, Error> {
        match self.0 {
            Source::Joined { sent, .. } => sent.outcome(wait).await.map_err(refused),
            Source::Ended(task) => Ok(Outcome::Task(task)),
            Source::Message(reply) => Ok(Outcome::Message(reply)),
        }
    }

    /// Returns the task as it is now and the events that follow; or only the ended task, or the message.
    pub(super) async fn stream(self, engine: &Engine, history: Option<u32>) -> Result<Events<StreamResponse>, Error> {
        let (sent, agent, owner) = match self.0 {
            Source::Joined { sent, agent, owner } => (sent, agent, owner),
            Source::Ended(task) => return Ok(only(Reply::wrapped(limited(task, history), None))),
            Source::Message(reply) => return Ok(only(Reply::shared(reply))),
        };
        let id = sent.task();
        let task = match sent.outcome(false).await.map_err(refused)? {
            Outcome::Message(reply) => return Ok(only(Reply::shared(reply))),
            Outcome::Task(task) => task,
        };
        match engine.subscribe(&agent, &owner, id, None, history).await {
            Ok(events) => Ok(Events::new(events.map(|event| event.map_err(refused)))),
            // The task has ended meanwhile, so no event follows.
            Err(EngineError::Ended(_)) => {
                let task = engine.read(&agent, &owner, id).await.unwrap_or(task);
                Ok(only(Reply::wrapped(limited(task, history), None)))
            }
            Err(error) => Err(refused(error)),
        }
    }
}

/// Returns a stream of one event.
fn only(event: Reply<StreamResponse>) -> Events<StreamResponse> {
    Events::new(futures::stream::iter([Ok(event)]))
}
