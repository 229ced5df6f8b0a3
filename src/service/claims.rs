//! Requests with an idempotency key that are under way: of each key one at a time, and all others join it.
//!
//! What was carried out stands in the store; this is what keeps a second request from slipping in before it does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::engine::Sent;
use crate::store::{Claim, ClaimKey};

/// The keys of requests that are under way.
#[derive(Debug, Default)]
pub(super) struct Claims {
    under_way: Mutex<HashMap<ClaimKey, UnderWay>>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct UnderWay {
    hash: [u8; 32],
    /// Once it is submitted.
    sent: Option<Sent>,
}

/// What a request finds under its key.
pub(super) enum ClaimLookup {
    /// Nothing: the key is its own until it drops this.
    Free(ClaimGuard),
    /// Another request, and what comes of it.
    Submitted([u8; 32], Sent),
    /// Another request that is not submitted yet.
    Pending([u8; 32]),
}

impl Claims {
    /// Resolves when something has changed since this was called.
    pub(super) fn changed(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }

    /// Takes a key, or finds who has it.
    pub(super) fn enter(self: &Arc<Self>, claim: &Claim) -> ClaimLookup {
        match self.lock().entry(claim.key.clone()) {
            Entry::Occupied(entry) => match entry.get() {
                UnderWay { hash, sent: Some(sent) } => ClaimLookup::Submitted(*hash, sent.subscribe_again()),
                UnderWay { hash, sent: None } => ClaimLookup::Pending(*hash),
            },
            Entry::Vacant(entry) => {
                entry.insert(UnderWay { hash: claim.hash, sent: None });
                ClaimLookup::Free(ClaimGuard { claims: Arc::clone(self), key: claim.key.clone() })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClaimKey, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that a request has for itself, until this is dropped.
pub(super) struct ClaimGuard {
    claims: Arc<Claims>,
    key: ClaimKey,
}

impl ClaimGuard {
    /// The key.
    pub(super) fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Lets others join the request.
    pub(super) fn submitted(&self, sent: &Sent) {
        if let Some(under_way) = self.claims.lock().get_mut(&self.key) {
            under_way.sent = Some(sent.subscribe_again());
        }
        self.claims.changed.notify_waiters();
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        // Dropped after the lock is given back.
        let under_way = self.claims.lock().remove(&self.key);
        drop(under_way);
        self.claims.changed.notify_waiters();
    }
}
