//! SendMessage and SendStreamingMessage: what a client may ask, and what it is answered.

use std::sync::Arc;

use futures::StreamExt as _;
use prost::Message as _;
use ring::digest;
use tokio::sync::watch;
use tricord_bindings::{Encoded, Error, Events, Reply};
use uuid::Uuid;

use crate::clock::new_id;
use crate::engine::{EngineError, Incoming, Outcome, Sent};
use crate::protocol;
use crate::schema::send_message_response::Payload;
use crate::schema::service::capability::PUSH_NOTIFICATIONS;
use crate::schema::{Message, SendMessageRequest, SendMessageResponse, StreamResponse, Task, stream_response};
use crate::store::{Claim, ClaimEnd, ClaimKey, Claimed, ClaimedAs, StoreError};
use crate::task::event::parse_id;
use crate::task::fold;
use crate::task::lifecycle::is_terminal;

use super::claims::{ClaimGuard, ClaimLookup};
use super::parts::{history_length, violation};
use super::read::limited;
use super::{Call, Service, failure};

/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 256;

/// The longest name that a client may give a conversation, in bytes: every event of its tasks carries it.
const MAX_CONTEXT: usize = 1024;

/// A request that may go on, and what it wishes of the answer.
struct SendOptions {
    history: Option<u32>,
    wait: bool,
}

pub(super) async fn send(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
) -> Result<Reply<SendMessageResponse>, Error> {
    let options = check(&call, &request)?;
    let begun = begin(service, call, request, false).await?;
    let outcome = match begun {
        Submission::Sent(sent, kept) => match sent.outcome(options.wait).await.map_err(refused)? {
            Outcome::Message(reply) => {
                kept.wait().await?;
                Outcome::Message(reply)
            }
            task => task,
        },
        Submission::Replay(joined) => joined.sent.outcome(options.wait).await.map_err(refused)?,
        Submission::Ended(task) => Outcome::Task(task),
        Submission::Answered(message) => return Ok(answer(message)),
    };
    match outcome {
        Outcome::Task(task) => Ok(Reply::wrapped(limited(task, options.history), None)),
        Outcome::Message(reply) => message_of(reply.value()).map(answer),
    }
}

fn answer(message: Message) -> Reply<SendMessageResponse> {
    Reply::Owned(SendMessageResponse { payload: Some(Payload::Message(message)) })
}

pub(super) async fn stream(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
) -> Result<Events<StreamResponse>, Error> {
    let options = check(&call, &request)?;
    match begin(service, call, request, true).await? {
        Submission::Sent(sent, kept) => {
            let events = sent.stream(&service.engine, options.history).map_err(refused)?;
            Ok(Events::new(events.then(move |event| {
                let kept = kept.clone();
                async move {
                    let event = event.map_err(refused)?;
                    if let Reply::Shared { message, .. } = &event
                        && matches!(message.value().payload, Some(stream_response::Payload::Message(_)))
                    {
                        kept.wait().await?;
                    }
                    Ok(event)
                }
            })))
        }
        Submission::Answered(message) => {
            let event = StreamResponse::from(stream_response::Payload::Message(message));
            Ok(only(Reply::Owned(event)))
        }
        Submission::Replay(joined) => join_stream(service, joined, options.history).await,
        Submission::Ended(task) => Ok(only(Reply::wrapped(limited(task, options.history), None))),
    }
}

/// A retry of a stream: the task as it stands, then what follows; or the message, or the ended task, alone.
async fn join_stream(service: &Service, joined: Replay, history: Option<u32>) -> Result<Events<StreamResponse>, Error> {
    let Replay { sent, agent, owner, task } = joined;
    let stands = match sent.outcome(false).await.map_err(refused)? {
        Outcome::Message(reply) => return Ok(only(Reply::shared(reply))),
        Outcome::Task(task) => task,
    };
    match service.engine.subscribe(&agent, &owner, task, None, history).await {
        Ok(events) => Ok(Events::new(events.map(|event| event.map_err(refused)))),
        // It has ended meanwhile: the task as it stands is all there is to tell.
        Err(EngineError::Ended(_)) => match service.engine.read(&agent, &owner, task).await {
            Ok(task) => Ok(only(Reply::wrapped(limited(task, history), None))),
            Err(_) => Ok(only(Reply::wrapped(limited(stands, history), None))),
        },
        Err(error) => Err(refused(error)),
    }
}

/// A stream of one event.
fn only(event: Reply<StreamResponse>) -> Events<StreamResponse> {
    Events::new(futures::stream::iter([Ok(event)]))
}

fn message_of(event: &StreamResponse) -> Result<Message, Error> {
    match &event.payload {
        Some(stream_response::Payload::Message(message)) => Ok(message.clone()),
        _ => Err(Error::internal()),
    }
}

fn check(call: &Call, request: &SendMessageRequest) -> Result<SendOptions, Error> {
    let configuration = request.configuration.as_ref();
    if configuration.is_some_and(|c| c.task_push_notification_config.is_some()) {
        call.agent.offer(PUSH_NOTIFICATIONS)?;
    }
    let history = history_length("configuration.historyLength", configuration.and_then(|c| c.history_length))?;
    if let Some(message) = &request.message {
        if message.context_id.len() > MAX_CONTEXT {
            return Err(violation("message.contextId", "must have at most 1024 bytes"));
        }
        call.agent.input.check(message)?;
    }
    Ok(SendOptions { history, wait: !configuration.is_some_and(|c| c.return_immediately) })
}

/// What a request led to.
enum Submission {
    /// It was submitted.
    Sent(Sent, ReplyPersisted),
    /// It is a retry: the earlier one is under way, or waits for the client.
    Replay(Replay),
    /// It is a retry: the earlier one was answered with this message.
    Answered(Message),
    /// It is a retry, and the task of the earlier one has ended.
    Ended(Arc<Encoded<Task>>),
}

/// A retry, and what it waits for.
struct Replay {
    sent: Sent,
    agent: Arc<str>,
    owner: Arc<str>,
    task: Uuid,
}

/// Resolves when a message that is the answer is kept for retries, where there is a key to keep it under.
#[derive(Clone)]
struct ReplyPersisted(Option<watch::Receiver<Option<Result<(), StoreError>>>>);

impl ReplyPersisted {
    async fn wait(mut self) -> Result<(), Error> {
        let Some(kept) = &mut self.0 else { return Ok(()) };
        match kept.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err(error))) => Err(failure::store(error)),
            Ok(None) | Err(_) => Err(Error::internal()),
        }
    }
}

async fn begin(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
    streaming: bool,
) -> Result<Submission, Error> {
    let Some(claim) = claim_of(&call, &request)? else {
        return Ok(Submission::Sent(admit(service, call, request, streaming, None).await?, ReplyPersisted(None)));
    };
    loop {
        let changed = service.claims.changed();
        let hash = match service.claims.enter(&claim) {
            ClaimLookup::Free(held) => {
                // It goes on even if the client leaves: half done, the key would stand for nothing.
                let begun = begin_claimed(service.clone(), call, request, streaming, claim, held);
                return tokio::spawn(begun).await.unwrap_or_else(|_| Err(Error::internal()));
            }
            ClaimLookup::Submitted(hash, sent) if hash == claim.hash => {
                let (owner, task) = (Arc::clone(call.principal.owner()), sent.task());
                return Ok(Submission::Replay(Replay { sent, agent: Arc::clone(&call.agent.name), owner, task }));
            }
            ClaimLookup::Submitted(hash, _) | ClaimLookup::Pending(hash) => hash,
        };
        if hash != claim.hash {
            return Err(refused(EngineError::OtherRequest));
        }
        // It is submitted, or refused, any moment now.
        changed.await;
    }
}

/// Carries out a request that has its key for itself, or finds what was answered under it.
async fn begin_claimed(
    service: Service,
    call: Call,
    request: SendMessageRequest,
    streaming: bool,
    claim: Claim,
    held: ClaimGuard,
) -> Result<Submission, Error> {
    let (task, state) = match service.engine.claim(claim.clone()).await.map_err(refused)? {
        Claimed::New => {
            return match admit(&service, call, request, streaming, Some((claim.key, claim.reserve))).await {
                Ok(sent) => {
                    let kept = keep(&service, &sent, held);
                    Ok(Submission::Sent(sent, kept))
                }
                Err(error) => {
                    // A refused request stores nothing: the key is free for the corrected one.
                    let released = service.engine.store().end_claim(held.key().clone(), ClaimEnd::Release).await;
                    Err(released.map_err(|e| failure::store(&e)).err().unwrap_or(error))
                }
            };
        }
        Claimed::Existing { hash, .. } if hash != claim.hash => return Err(refused(EngineError::OtherRequest)),
        Claimed::Existing { task, state, .. } => (task, state),
    };
    if let ClaimedAs::Message(bytes) = state {
        return Message::decode(bytes.as_slice()).map(Submission::Answered).map_err(|_| Error::internal());
    }
    let owner = Arc::clone(call.principal.owner());
    let stands = service.engine.read(&call.agent.name, &owner, task).await.map_err(refused)?;
    if is_terminal(fold::state(stands.value())) {
        return Ok(Submission::Ended(stands));
    }
    let sent = service.engine.join(&call.agent.name, &owner, task).await.map_err(refused)?;
    Ok(Submission::Replay(Replay { sent, agent: Arc::clone(&call.agent.name), owner, task }))
}

/// Holds the key until the claim has ended, whoever still waits for it: with the task, which ends it in the same commit,
/// or with the message that is the answer.
fn keep(service: &Service, sent: &Sent, held: ClaimGuard) -> ReplyPersisted {
    held.submitted(sent);
    let (outcome, store) = (sent.subscribe_again().outcome(false), service.engine.store().clone());
    let (kept, receiver) = watch::channel(None);
    tokio::spawn(async move {
        if let Ok(Outcome::Message(reply)) = outcome.await {
            let end = ClaimEnd::Message(message_of(reply.value()).unwrap_or_default().encode_to_vec());
            kept.send_replace(Some(store.end_claim(held.key().clone(), end).await));
        }
        drop(held);
    });
    ReplyPersisted(Some(receiver))
}

async fn admit(
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
        agent: Arc::clone(&call.agent.name),
        message,
        metadata: request.metadata,
        extensions: call.extensions,
        accepted_output_modes,
        streaming,
        claim,
    };
    let (agent, owner, task) = (incoming.agent.clone(), incoming.owner.clone(), parse_id(&incoming.message.task_id));
    let sent = service.engine.send(incoming).await;
    if let (Err(EngineError::Ended(_)), Some(task)) = (&sent, task) {
        let state = service.engine.ended(&agent, &owner, task).await.map_err(refused)?;
        return Err(refused(EngineError::Ended(state)));
    }
    sent.map_err(refused)
}

/// The claim that a request makes: by its key, or by its message id where the agent wants that.
fn claim_of(call: &Call, request: &SendMessageRequest) -> Result<Option<Claim>, Error> {
    let message_id = request.message.as_ref().map(|m| m.message_id.as_str()).unwrap_or_default();
    let key = match &call.idempotency_key {
        Some(key) if key.is_empty() || key.len() > MAX_KEY => {
            return Err(violation("Idempotency-Key", "must have 1 to 256 bytes"));
        }
        Some(key) => format!("k:{key}"),
        None if call.agent.dedupe_message_id => match message_id.len() {
            ..=MAX_KEY => format!("m:{message_id}"),
            _ => format!("d:{:?}", digest::digest(&digest::SHA256, message_id.as_bytes())),
        },
        None => return Ok(None),
    };
    let key =
        ClaimKey { agent: Arc::clone(&call.agent.name), owner: Arc::clone(call.principal.owner()), key: key.into() };
    // The deterministic encoding (maps are sorted): a retry over another wire has the same digest. The scope is part of
    // the key already, under whichever of its names it was sent.
    let mut canonical = request.clone();
    canonical.tenant.clear();
    let digest = digest::digest(&digest::SHA256, &canonical.encode_to_vec());
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    // A follow-up is answered with its own task.
    let follow_up = request.message.as_ref().and_then(|m| parse_id(&m.task_id));
    Ok(Some(Claim { key, hash, reserve: follow_up.unwrap_or_else(new_id) }))
}

fn refused(error: EngineError) -> Error {
    failure::error(error, &protocol::UNSUPPORTED_OPERATION)
}
