//! SendMessage and SendStreamingMessage.

#![expect(clippy::manual_async_fn, reason = "an async fn would keep the request twice, at every step")]

use std::sync::Arc;

use tricord_bindings::budget::BudgetPermit;
use tricord_bindings::{Error, Events, Reply};

use crate::engine::{EngineError, Incoming, Outcome, Sent};
use crate::schema::send_message_response::Payload;
use crate::schema::service::capability::PUSH_NOTIFICATIONS;
use crate::schema::{SendMessageRequest, SendMessageResponse, StreamResponse, stream_response};
use crate::store::Claim;
use crate::task::event::parse_id;

use super::failure::refused;
use super::idempotency::{Submission, claim_of};
use super::parts::{history_length, violation};
use super::{Call, Service};

/// The longest context id that a client may choose, in bytes: every event of its tasks carries it.
const MAX_CONTEXT: usize = 1024;

/// What a request says of its answer.
struct SendOptions {
    /// The number of messages of the history to return; `None` is all.
    history: Option<u32>,
    /// Whether to wait until the task has ended or needs the client.
    wait: bool,
}

/// Answers SendMessage.
pub(super) fn send(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
) -> impl Future<Output = Result<Reply<SendMessageResponse>, Error>> + Send {
    async move {
        let options = check(&call, &request)?;
        let submission = submit(service, call, request, false).await?;
        match submission.outcome(options.wait).await? {
            Outcome::Task(task) => {
                let task = service.engine.limited(&task, options.history).map_err(refused)?;
                Ok(Reply::wrapped(task, None))
            }
            Outcome::Message(reply) => match &reply.value().payload {
                Some(stream_response::Payload::Message(message)) => {
                    Ok(Reply::Owned(SendMessageResponse { payload: Some(Payload::Message(message.clone())) }))
                }
                _ => Err(Error::internal()),
            },
        }
    }
}

/// Answers SendStreamingMessage.
pub(super) fn stream(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
) -> impl Future<Output = Result<Events<StreamResponse>, Error>> + Send {
    async move {
        let options = check(&call, &request)?;
        let submission = submit(service, call, request, true).await?;
        submission.stream(&service.engine, options.history).await
    }
}

/// Checks a request before anything is stored, and returns what it says of its answer.
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

/// Submits a request: once for each key, if it has one.
fn submit(
    service: &Service,
    call: Call,
    request: SendMessageRequest,
    streaming: bool,
) -> impl Future<Output = Result<Submission, Error>> + Send {
    async move {
        let Some(claim) = claim_of(&call, &request)? else {
            let sent = submit_message(service, incoming(call, request, streaming, None)?).await?;
            return Ok(Submission::without_key(sent));
        };
        let owned = service.clone();
        let submit =
            move |claim| async move { submit_message(&owned, incoming(call, request, streaming, Some(claim))?).await };
        // In boxes, here and below: what few requests need makes no room in the future of every request.
        Box::pin(service.idempotency.submit_once(claim, submit)).await
    }
}

/// Returns the message of a request as the engine takes it, and the permit for the memory of the request.
fn incoming(
    call: Call,
    request: SendMessageRequest,
    streaming: bool,
    claim: Option<Claim>,
) -> Result<(Incoming, BudgetPermit), Error> {
    let Some(message) = request.message else { return Err(violation("message", "is required")) };
    let accepted_output_modes = request.configuration.map(|c| c.accepted_output_modes).unwrap_or_default();
    let incoming = Incoming {
        owner: Arc::clone(call.principal.owner()),
        agent: Arc::clone(&call.agent.name),
        message,
        metadata: request.metadata,
        extensions: call.extensions,
        accepted_output_modes,
        bytes: call.permit.bytes(),
        streaming,
        claim: claim.map(|claim| (claim.key, claim.reserve)),
    };
    Ok((incoming, call.permit))
}

/// Submits a message to the engine. From then on the task accounts for its memory.
fn submit_message(
    service: &Service,
    (incoming, permit): (Incoming, BudgetPermit),
) -> impl Future<Output = Result<Sent, Error>> + Send {
    async move {
        let (agent, owner) = (incoming.agent.clone(), incoming.owner.clone());
        let task = parse_id(&incoming.message.task_id);
        let sent = service.engine.send(incoming).await;
        drop(permit);
        if let (Err(EngineError::Ended(_)), Some(task)) = (&sent, task) {
            // The client may learn of the end once that is committed.
            let state = Box::pin(service.engine.ended(&agent, &owner, task)).await.map_err(refused)?;
            return Err(refused(EngineError::Ended(state)));
        }
        sent.map_err(refused)
    }
}
