//! Claims of idempotency keys, as the store keeps them. The service says what they are for.
//!
//! A claim is open until it is fulfilled or released. The append that creates the task or adds the message to it fulfils the
//! claim ([`Append::claims`](super::Append::claims)); so does [`ClaimEnd::Message`] if the agent answered with a message.
//! [`ClaimEnd::Release`] deletes the claim of a request that was refused. A key whose claim is open may be claimed again: the
//! caller has to make sure that no two requests of one process claim it at the same time.

use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a claim is kept after it was made.
pub(super) const KEEP_CLAIM: Duration = Duration::from_secs(24 * 3600);

/// An idempotency key within its agent and owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// The agent's name.
    pub agent: Arc<str>,
    /// The owner of the tasks that the caller creates.
    pub owner: Arc<str>,
    /// The key.
    pub key: Arc<str>,
}

/// A request's claim of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: ClaimKey,
    /// A digest of the request, which tells a retry from another request with the same key.
    pub hash: [u8; 32],
    /// The id of the task that the request continues or may create.
    pub reserve: Uuid,
}

/// The result of claiming a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The key was free and is claimed now.
    New,
    /// An earlier request has fulfilled its claim of the key.
    Existing {
        /// The digest of that request.
        hash: [u8; 32],
        /// The id that it reserved.
        task: Uuid,
        /// How it was answered.
        state: ClaimedAs,
    },
}

/// The answer that fulfilled a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedAs {
    /// The task with the reserved id.
    Task,
    /// This message, in the encoding that was given.
    Message(Vec<u8>),
}

/// The end of a claim that no task fulfils.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimEnd {
    /// The answer is the message with this encoding, which retries get too.
    Message(Vec<u8>),
    /// The request was refused. The key is free again.
    Release,
}
