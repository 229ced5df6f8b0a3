//! Idempotency: a request is carried out once, and each retry of it gets the same answer.
//!
//! A request has a key if the client sent one in `Idempotency-Key`, or if the agent is configured to take the message
//! id as one. A key counts within its agent and owner. A request with the key of an earlier one and the same content is
//! a retry; with other content it is refused.
//!
//! A key is in one of these states:
//!
//! ```text
//!           claim             submit              commit of the task
//!   Free ──────────► Claimed ─────────► Submitted ───────────────────► Task
//!    ▲                  │                   │
//!    │  refused         │                   │     commit of the message
//!    ├──────────────────┘                   ├────────────────────────► Message
//!    │  store failed, or process ended      │
//!    ├──────────────────────────────────────┘
//!    │  24 hours after the claim, or the task was deleted
//!    └──────────────────────────────────────────────────────── Task, Message
//! ```
//!
//! | State | What a retry gets | In the store | After a crash |
//! |---|---|---|---|
//! | Free | It is carried out as the first request | No row | Free |
//! | Claimed | It waits for the next state | An open row | Free: nothing was done |
//! | Submitted | It waits for the outcome of the first request | An open row | Free: nobody has seen an answer, but the agent may have begun to work |
//! | Task | The task as it is now; it waits with the first request if a run is live | A row with the task's id, written by the commit that creates the task or appends the follow-up | Task |
//! | Message | The same message | A row with the message, written before anybody is answered | Message |
//!
//! Claimed and Submitted also exist in memory, in [`UnderWay`], and only there do they keep a second request out. The
//! store gives the key of an open row to whoever asks, because a process that asks holds the key in memory: the row is
//! from a process that ended, or from a request that failed. So a crash never blocks a key.

mod key;
mod replay;
mod reply;
mod under_way;

use std::future::Future;
use std::sync::Arc;

use futures::StreamExt as _;
use tricord_bindings::{Error, Events, Reply};

use crate::engine::{Engine, Outcome, Sent};
use crate::schema::{StreamResponse, stream_response};
use crate::store::{Claim, ClaimEnd, Claimed, ClaimedAs};

use super::failure::{self, refused};
use replay::Replay;
use reply::ReplyPersisted;
use under_way::{ClaimGuard, Lookup, UnderWay};

pub(super) use key::claim_of;

/// Carries out each request with a key once, and answers its retries.
#[derive(Debug, Clone)]
pub(super) struct Idempotency {
    engine: Engine,
    under_way: Arc<UnderWay>,
}

/// A request that was submitted, or the retry of one.
pub(super) enum Submission {
    /// The first request with its key, or a request without one.
    First(Sent, ReplyPersisted),
    /// A retry.
    Replay(Replay),
}

impl Idempotency {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine, under_way: Arc::default() }
    }

    /// Runs `submit` if this is the first request with its key, and joins the first request otherwise.
    ///
    /// `submit` has to hand the claim to the engine, which fulfils it in the commit of the task.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAMS` when the key belongs to another request; what `submit` returns, after which the key is free;
    /// and unavailable when the store fails.
    pub(super) async fn submit_once<F>(
        &self,
        claim: Claim,
        submit: impl FnOnce(Claim) -> F + Send + 'static,
    ) -> Result<Submission, Error>
    where
        F: Future<Output = Result<Sent, Error>> + Send,
    {
        let guard = loop {
            // Created before the lookup, so that no change between the two is missed.
            let changed = self.under_way.changed();
            match self.under_way.enter(&claim)? {
                Lookup::Free(guard) => break guard,
                Lookup::Claimed => changed.await,
                Lookup::Submitted(sent, persisted) => {
                    return Ok(Submission::Replay(Replay::joined(sent, persisted, claim.key)));
                }
            }
        };
        // Goes on even if the client leaves: the key never stays claimed for a request that nobody carries out.
        let this = self.clone();
        let claimed = tokio::spawn(async move { this.submit_claimed(claim, guard, submit).await });
        claimed.await.unwrap_or_else(|_| Err(Error::internal()))
    }

    /// Claims the key in the store, then submits the request, or returns what the store knows of an earlier one.
    async fn submit_claimed<F>(
        &self,
        claim: Claim,
        guard: ClaimGuard,
        submit: impl FnOnce(Claim) -> F,
    ) -> Result<Submission, Error>
    where
        F: Future<Output = Result<Sent, Error>>,
    {
        match self.engine.claim(claim.clone()).await.map_err(refused)? {
            Claimed::New => self.submit_first(claim, guard, submit).await,
            Claimed::Existing { hash, .. } if hash != claim.hash => Err(failure::other_request()),
            Claimed::Existing { state: ClaimedAs::Message(bytes), .. } => {
                Replay::message(&bytes).map(Submission::Replay)
            }
            Claimed::Existing { state: ClaimedAs::Task, task, .. } => {
                Replay::task(&self.engine, claim.key, task).await.map(Submission::Replay)
            }
        }
    }

    /// Submits a request whose claim is in the store.
    async fn submit_first<F>(
        &self,
        claim: Claim,
        guard: ClaimGuard,
        submit: impl FnOnce(Claim) -> F,
    ) -> Result<Submission, Error>
    where
        F: Future<Output = Result<Sent, Error>>,
    {
        match submit(claim).await {
            Ok(sent) => {
                let persisted = reply::persist(self.engine.store().clone(), &sent, guard);
                Ok(Submission::First(sent, persisted))
            }
            Err(error) => {
                // A refused request stores nothing: the key is free for the corrected one.
                let released = self.engine.store().end_claim(guard.key().clone(), ClaimEnd::Release).await;
                Err(released.map_err(|e| failure::write(&e)).err().unwrap_or(error))
            }
        }
    }
}

impl Submission {
    /// Returns a request without a key. Its answer is not kept for retries.
    pub(super) fn without_key(sent: Sent) -> Self {
        Self::First(sent, ReplyPersisted::not_needed())
    }

    /// Waits for the outcome: of a task its pause or end if `wait` is set, otherwise its creation. A message is stored
    /// before it is returned.
    pub(super) async fn outcome(self, wait: bool) -> Result<Outcome, Error> {
        let (sent, persisted) = match self {
            Self::First(sent, persisted) => (sent, persisted),
            Self::Replay(replay) => return replay.outcome(wait).await,
        };
        reply::outcome(sent, persisted, wait).await
    }

    /// Returns the events from the request's message on. A message of the agent is stored before it is sent.
    pub(super) async fn stream(self, engine: &Engine, history: Option<u32>) -> Result<Events<StreamResponse>, Error> {
        let (sent, persisted) = match self {
            Self::First(sent, persisted) => (sent, persisted),
            Self::Replay(replay) => return replay.stream(engine, history).await,
        };
        let events = sent.stream(engine, history).map_err(refused)?;
        Ok(Events::new(events.then(move |event| {
            let persisted = persisted.clone();
            async move {
                let event = event.map_err(refused)?;
                if let Reply::Shared { message, .. } = &event
                    && matches!(message.value().payload, Some(stream_response::Payload::Message(_)))
                {
                    persisted.wait().await?;
                }
                Ok(event)
            }
        })))
    }
}
