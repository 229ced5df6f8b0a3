//! SendMessage and SendStreamingMessage: what a client may ask, and what it is answered.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use prost::Message as _;
use ring::digest;
use tricord_bindings::{Call, Error, Events, Reply};
use uuid::Uuid;

use crate::engine::{EngineError, Incoming, Outcome, Sent};
use crate::protocol;
use crate::schema::send_message_response::Payload;
use crate::schema::{Message, SendMessageRequest, SendMessageResponse, StreamResponse, Task, stream_response};
use crate::store::{Claim, ClaimEnd, ClaimKey, Claimed, ClaimedAs};
use crate::task::fold;
use crate::task::lifecycle::is_terminal;

use super::parts::{history_length, violation};
use super::{Service, failure, push};

/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 256;

/// A request that may go on, and what it wishes of the answer.
struct Wish {
    history: Option<u32>,
    wait: bool,
}

pub(super) async fn send(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
) -> Result<Reply<SendMessageResponse>, Error> {
    let wish = check(service, &call, &request)?;
    let deadline = call.deadline;
    let begun = begin(service, call, request, false).await?;
    let payload = match begun {
        Begun::Sent(sent, claim) => match sent.outcome(wish.wait, deadline).await.map_err(refused)? {
            Outcome::Task(task) => Payload::Task(limited(task, wish.history)),
            Outcome::Message(reply) => {
                let message = message_of(reply.value())?;
                if let Some(key) = claim {
                    keep_message(service, key, &message).await?;
                }
                Payload::Message(message)
            }
        },
        Begun::Joined(joined) => match joined.sent.outcome(wish.wait, deadline).await.map_err(refused)? {
            Outcome::Task(task) => Payload::Task(limited(task, wish.history)),
            Outcome::Message(reply) => Payload::Message(message_of(reply.value())?),
        },
        Begun::Ended(task) => Payload::Task(limited(task, wish.history)),
        Begun::Answered(message) => Payload::Message(message),
    };
    Ok(SendMessageResponse { payload: Some(payload) }.into())
}

pub(super) async fn stream(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
) -> Result<Events<StreamResponse>, Error> {
    let wish = check(service, &call, &request)?;
    let deadline = call.deadline;
    match begin(service, call, request, true).await? {
        Begun::Sent(sent, claim) => {
            let events = sent.stream(&service.engine, wish.history).map_err(refused)?;
            let Some(key) = claim else { return Ok(Events::new(events.map(|event| event.map_err(refused)))) };
            let service = service.clone();
            Ok(Events::new(events.then(move |event| {
                let (service, key) = (service.clone(), key.clone());
                async move {
                    let event = event.map_err(refused)?;
                    if let Some(stream_response::Payload::Message(message)) = &event.value().payload {
                        keep_message(&service, key, message).await?;
                    }
                    Ok(event)
                }
            })))
        }
        Begun::Answered(message) => {
            let event = StreamResponse::from(stream_response::Payload::Message(message));
            Ok(Events::new(futures::stream::iter([Ok(Reply::Owned(event))])))
        }
        Begun::Joined(joined) => join_stream(service, joined, wish.history, deadline).await,
        Begun::Ended(task) => {
            Ok(Events::new(futures::stream::iter([Ok(Reply::Owned(limited(task, wish.history).into()))])))
        }
    }
}

/// A retry of a stream: the task as it stands, then what follows; or the message, or the ended task, alone.
async fn join_stream(
    service: &Service,
    joined: Joined,
    history: Option<u32>,
    deadline: Option<Instant>,
) -> Result<Events<StreamResponse>, Error> {
    let Joined { sent, agent, owner, task } = joined;
    let only = |event: StreamResponse| Ok(Events::new(futures::stream::iter([Ok(Reply::Owned(event))])));
    let stands = match sent.outcome(false, deadline).await.map_err(refused)? {
        Outcome::Message(reply) => return only(reply.value().clone()),
        Outcome::Task(task) => task,
    };
    match service.engine.subscribe(&agent, &owner, task, None, history).await {
        Ok(events) => Ok(Events::new(events.map(|event| event.map_err(refused)))),
        // It has ended meanwhile: the task as it stands is all there is to tell.
        Err(EngineError::Ended(_)) => match service.engine.read(&agent, &owner, task) {
            Ok(snapshot) => only(limited(snapshot.into_task(), history).into()),
            Err(_) => only(limited(stands, history).into()),
        },
        Err(error) => Err(refused(error)),
    }
}

fn message_of(event: &StreamResponse) -> Result<Message, Error> {
    match &event.payload {
        Some(stream_response::Payload::Message(message)) => Ok(message.clone()),
        _ => Err(Error::internal()),
    }
}

fn check(service: &Service, call: &Call, request: &SendMessageRequest) -> Result<Wish, Error> {
    let configuration = request.configuration.as_ref();
    if configuration.is_some_and(|c| c.task_push_notification_config.is_some()) {
        return Err(push::not_supported());
    }
    let history = history_length("configuration.historyLength", configuration.and_then(|c| c.history_length))?;
    let agent = service.agent(&call.agent)?;
    if let Some(message) = &request.message {
        agent.input.check(message)?;
    }
    Ok(Wish { history, wait: !configuration.is_some_and(|c| c.return_immediately) })
}

/// What a request led to.
enum Begun {
    /// It was admitted; with the key that it claimed, if it has one.
    Sent(Sent, Option<ClaimKey>),
    /// It is a retry: the earlier one is under way, or waits for the client.
    Joined(Joined),
    /// It is a retry: the earlier one was answered with this message.
    Answered(Message),
    /// It is a retry, and the task of the earlier one has ended.
    Ended(Task),
}

/// A retry, and what it waits for.
struct Joined {
    sent: Sent,
    agent: Arc<str>,
    owner: Arc<str>,
    task: Uuid,
}

async fn begin(service: &Service, call: Call, request: SendMessageRequest, streaming: bool) -> Result<Begun, Error> {
    let Some(claim) = claim_of(service, &call, &request)? else {
        return Ok(Begun::Sent(admit(service, call, request, streaming, None)?, None));
    };
    loop {
        let settled = service.claims_settled.notified();
        match service.engine.claim(claim.clone()).await.map_err(refused)? {
            Claimed::New => return begin_claimed(service, call, request, streaming, claim).await,
            Claimed::Existing { hash, .. } if hash != claim.hash => return Err(refused(EngineError::OtherRequest)),
            Claimed::Existing { state: ClaimedAs::Message(bytes), .. } => {
                let message = Message::decode(bytes.as_slice()).map_err(|_| Error::internal())?;
                return Ok(Begun::Answered(message));
            }
            Claimed::Existing { task, state: ClaimedAs::Task | ClaimedAs::Open, .. } => {
                let owner = call.principal.owner();
                if let Ok(snapshot) = service.engine.read(&call.agent, owner, task)
                    && let task = snapshot.task()
                    && task.status.as_ref().is_some_and(|status| is_terminal(status.state()))
                {
                    return Ok(Begun::Ended(task.clone()));
                }
                if let Some(sent) = service.engine.join(&call.agent, owner, task).map_err(refused)? {
                    let owner = Arc::clone(owner);
                    return Ok(Begun::Joined(Joined { sent, agent: call.agent, owner, task }));
                }
                // The earlier request is between its claim and its task: it is admitted, or refused, any moment now.
                settled.await;
            }
        }
    }
}

async fn begin_claimed(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
    streaming: bool,
    claim: Claim,
) -> Result<Begun, Error> {
    let begun = admit(service, call, request, streaming, Some((claim.key.clone(), claim.reserve)));
    let begun = match begun {
        Ok(sent) => Ok(Begun::Sent(sent, Some(claim.key))),
        Err(error) => {
            // A refused request stores nothing: the key is free for the corrected one.
            let released = service.engine.store().end_claim(claim.key, ClaimEnd::Release).await;
            Err(released.map_err(|e| failure::store(&e)).err().unwrap_or(error))
        }
    };
    service.claims_settled.notify_waiters();
    begun
}

fn admit(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
    streaming: bool,
    claim: Option<(ClaimKey, Uuid)>,
) -> Result<Sent, Error> {
    let Some(message) = request.message else { return Err(violation("message", "is required")) };
    let accepted_output_modes = request.configuration.map(|c| c.accepted_output_modes).unwrap_or_default();
    let incoming = Incoming {
        owner: Arc::clone(call.principal.owner()),
        agent: call.agent,
        message,
        metadata: request.metadata,
        extensions: call.extensions,
        accepted_output_modes,
        streaming,
        claim,
    };
    service.engine.send(incoming).map_err(refused)
}

/// The claim that a request makes: by its key, or by its message id where the agent wants that.
fn claim_of(service: &Service, call: &Call, request: &SendMessageRequest) -> Result<Option<Claim>, Error> {
    let message_id = request.message.as_ref().map(|m| m.message_id.as_str()).unwrap_or_default();
    let key = match &call.idempotency_key {
        Some(key) if key.is_empty() || key.len() > MAX_KEY => {
            return Err(violation("Idempotency-Key", "must have 1 to 256 bytes"));
        }
        Some(key) => format!("k:{key}"),
        None if service.agent(&call.agent)?.offer.dedupe_message_id => format!("m:{message_id}"),
        None => return Ok(None),
    };
    let key = ClaimKey { agent: Arc::clone(&call.agent), owner: Arc::clone(call.principal.owner()), key: key.into() };
    // The deterministic encoding (maps are sorted): a retry over another wire has the same digest. The scope is part of
    // the key already, under whichever of its names it was sent.
    let mut canonical = request.clone();
    canonical.tenant.clear();
    let digest = digest::digest(&digest::SHA256, &canonical.encode_to_vec());
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    // A follow-up is answered with its own task.
    let follow_up = request.message.as_ref().and_then(|m| Uuid::try_parse(&m.task_id).ok());
    Ok(Some(Claim { key, hash, reserve: follow_up.unwrap_or_else(Uuid::now_v7) }))
}

async fn keep_message(service: &Service, key: ClaimKey, message: &Message) -> Result<(), Error> {
    let end = ClaimEnd::Message(message.encode_to_vec());
    service.engine.store().end_claim(key, end).await.map_err(|e| failure::store(&e))
}

fn limited(mut task: Task, history: Option<u32>) -> Task {
    fold::limit_history(&mut task, history);
    task
}

fn refused(error: EngineError) -> Error {
    failure::error(error, &protocol::UNSUPPORTED_OPERATION)
}
