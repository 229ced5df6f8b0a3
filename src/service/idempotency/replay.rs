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
use crate::store::ClaimKey;
use crate::task::fold;
use crate::task::lifecycle::is_terminal;

use super::reply::{self, ReplyPersisted};

/// A retry, and where its answer comes from.
pub(in crate::service) struct Replay(Source);

enum Source {
    /// The first request is under way, or its task is not at its end.
    Joined { sent: Sent, persisted: ReplyPersisted, key: ClaimKey },
    /// The task of the first request has ended.
    Ended(Arc<Encoded<Task>>),
    /// The first request was answered with this message.
    Message(Arc<Encoded<StreamResponse>>),
}

impl Replay {
    /// Returns the retry of a request that was submitted.
    pub(super) fn joined(sent: Sent, persisted: ReplyPersisted, key: ClaimKey) -> Self {
        Self(Source::Joined { sent, persisted, key })
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
        Ok(Self::joined(sent, ReplyPersisted::not_needed(), key))
    }

    /// Returns the retry of a request that was answered with a message, given in its stored encoding.
    pub(super) fn message(bytes: &[u8]) -> Result<Self, Error> {
        let message = Message::decode(bytes).map_err(|_| Error::internal())?;
        Ok(Self(Source::Message(Arc::new(Encoded::new(StreamResponse::from(Payload::Message(message)))))))
    }

    /// Waits for the outcome of the first request.
    pub(super) async fn outcome(self, wait: bool) -> Result<Outcome, Error> {
        match self.0 {
            Source::Joined { sent, persisted, .. } => reply::outcome(sent, persisted, wait).await,
            Source::Ended(task) => Ok(Outcome::Task(task)),
            Source::Message(reply) => Ok(Outcome::Message(reply)),
        }
    }

    /// Returns the task as it is now and the events that follow; or only the ended task, or the message.
    pub(super) async fn stream(self, engine: &Engine, history: Option<u32>) -> Result<Events<StreamResponse>, Error> {
        let (sent, persisted, key) = match self.0 {
            Source::Joined { sent, persisted, key } => (sent, persisted, key),
            Source::Ended(task) => {
                let task = engine.limited(&task, history).map_err(refused)?;
                return Ok(only(Reply::wrapped(task, None)));
            }
            Source::Message(reply) => return Ok(only(Reply::shared(reply))),
        };
        let id = sent.task();
        let task = match reply::outcome(sent, persisted, false).await? {
            Outcome::Message(reply) => return Ok(only(Reply::shared(reply))),
            Outcome::Task(task) => task,
        };
        match engine.subscribe(&key.agent, &key.owner, id, None, history).await {
            Ok(events) => Ok(Events::new(events.map(|event| event.map_err(refused)))),
            // The task has ended meanwhile, so no event follows.
            Err(EngineError::Ended(_)) => {
                let task = engine.read(&key.agent, &key.owner, id).await.unwrap_or(task);
                let task = engine.limited(&task, history).map_err(refused)?;
                Ok(only(Reply::wrapped(task, None)))
            }
            Err(error) => Err(refused(error)),
        }
    }
}

/// Returns a stream of one event.
fn only(event: Reply<StreamResponse>) -> Events<StreamResponse> {
    Events::new(futures::stream::iter([Ok(event)]))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;
    use crate::agents::{BoxAgent, OnRestart, from_fn, text_part};
    use crate::engine::{AgentSpec, EngineLimits, Incoming};
    use crate::store::{Options, Store, StoreUrl};

    /// Sends a message to an agent that answers with a message, and waits until it has.
    async fn answered() -> (Engine, Sent) {
        let agent = BoxAgent::new(from_fn(async |task| task.reply(vec![text_part("hi")]).await));
        let spec = AgentSpec { name: "a".into(), agent, on_restart: OnRestart::Fail, cancel_grace: Duration::ZERO };
        let store = Store::open(&Options::new(StoreUrl::memory())).unwrap();
        let engine = Engine::start(store, vec![spec], EngineLimits::default()).await.unwrap();
        let incoming = Incoming {
            agent: "a".into(),
            owner: "ann".into(),
            message: Message { message_id: "m".into(), ..Message::default() },
            metadata: None,
            extensions: Vec::new(),
            accepted_output_modes: Vec::new(),
            bytes: 0,
            streaming: false,
            claim: None,
        };
        let sent = engine.send(incoming).await.unwrap();
        assert!(matches!(sent.subscribe_again().outcome(true).await, Ok(Outcome::Message(_))));
        (engine, sent)
    }

    #[tokio::test]
    async fn a_joined_retry_gets_a_message_only_when_it_is_stored() {
        let (engine, sent) = answered().await;
        let key = ClaimKey { agent: "a".into(), owner: "ann".into(), key: "k:1".into() };
        let (stored, persisted) = ReplyPersisted::pending();
        let retry = || Replay::joined(sent.subscribe_again(), persisted.clone(), key.clone());
        let mut outcome = Box::pin(retry().outcome(true));
        let mut stream = Box::pin(retry().stream(&engine, None));
        assert!((&mut outcome).now_or_never().is_none());
        assert!((&mut stream).now_or_never().is_none());
        stored.send_replace(Some(Ok(())));
        assert!(matches!(outcome.await, Ok(Outcome::Message(_))));
        assert_eq!(stream.await.unwrap().count().await, 1);
    }
}
