//! Claims: what makes a retry of a send return the first one's answer.
//!
//! A send with an `Idempotency-Key` claims the key before anything runs. The claim reserves the id of the task that it may
//! lead to. It is fulfilled by the append that creates the task ([`Append::claims`](super::Append::claims)), by
//! [`ClaimEnd::Message`] when the agent answered with a message, or given back with [`ClaimEnd::Release`] when the
//! request was refused. A claim that is still open belongs to a request that was never carried out, and may be taken again:
//! whoever uses the store asks for one key once at a time, until the claim has ended.

use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a key is remembered, from the first claim on.
pub(super) const KEEP_CLAIM: Duration = Duration::from_secs(24 * 3600);

/// A key, within its caller and agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// The agent's name.
    pub agent: Arc<str>,
    /// The caller.
    pub owner: Arc<str>,
    /// What the client sent as the key.
    pub key: Arc<str>,
}

/// A request for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: ClaimKey,
    /// A digest of the request, to tell a retry from another request under the same key.
    pub hash: [u8; 32],
    /// The id that the task will have, if one comes of it.
    pub reserve: Uuid,
}

/// What a claim of a key found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// Nothing: the request that made the claim runs now.
    New,
    /// An earlier request.
    Existing {
        /// The digest of that request.
        hash: [u8; 32],
        /// The id that its task has or will have.
        task: Uuid,
        /// How it was answered.
        state: ClaimedAs,
    },
}

/// How an earlier request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedAs {
    /// With a task, new or with another turn.
    Task,
    /// With this message, encoded as it was given.
    Message(Vec<u8>),
}

/// How a claim ends that made no task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimEnd {
    /// The answer was a message. These bytes are what a retry gets.
    Message(Vec<u8>),
    /// The request was refused: the key is free again.
    Release,
}
