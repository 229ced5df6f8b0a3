//! The keys of requests that are under way in this process: Claimed or Submitted. Each key is held by one request; others
//! wait for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tricord_bindings::Error;

use crate::engine::Sent;
use crate::service::failure;
use crate::store::{Claim, ClaimKey};

use super::reply::ReplyPersisted;

/// The keys of requests that are under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    keys: Mutex<HashMap<ClaimKey, Holder>>,
    changed: Arc<Notify>,
}

/// The request that holds a key.
#[derive(Debug)]
struct Holder {
    hash: [u8; 32],
    /// `None` while the key is Claimed, `Some` once it is Submitted.
    submitted: Option<(Sent, ReplyPersisted)>,
}

/// The state in which a request finds its key.
pub(super) enum Lookup {
    /// No request holds it. The caller does, until it drops the guard.
    Free(ClaimGuard),
    /// The same request holds it, and is not submitted yet.
    Claimed,
    /// The same request holds it, and was submitted.
    Submitted(Sent, ReplyPersisted),
}

impl UnderWay {
    /// Returns a future that resolves when a key has changed its state after this call.
    pub(super) fn changed(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }

    /// Takes a key if no request holds it, and returns the state in which it was.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAMS` when another request holds the key, which no retry of it can be.
    pub(super) fn enter(self: &Arc<Self>, claim: &Claim) -> Result<Lookup, Error> {
        match self.lock().entry(claim.key.clone()) {
            Entry::Occupied(entry) => match entry.get() {
                holder if holder.hash != claim.hash => Err(failure::other_request()),
                Holder { submitted: Some((sent, persisted)), .. } => {
                    Ok(Lookup::Submitted(sent.subscribe_again(), persisted.clone()))
                }
                Holder { submitted: None, .. } => Ok(Lookup::Claimed),
            },
            Entry::Vacant(entry) => {
                entry.insert(Holder { hash: claim.hash, submitted: None });
                Ok(Lookup::Free(ClaimGuard { under_way: Arc::clone(self), key: claim.key.clone() }))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClaimKey, Holder>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that one request holds until this is dropped. The store knows its state by then, or the key is free.
pub(super) struct ClaimGuard {
    under_way: Arc<UnderWay>,
    key: ClaimKey,
}

impl ClaimGuard {
    /// Returns the key.
    pub(super) fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Moves the key from Claimed to Submitted: retries join the request from now on.
    pub(super) fn submitted(&self, sent: &Sent, persisted: &ReplyPersisted) {
        if let Some(holder) = self.under_way.lock().get_mut(&self.key) {
            holder.submitted = Some((sent.subscribe_again(), persisted.clone()));
        }
        self.under_way.changed.notify_waiters();
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        let holder = self.under_way.lock().remove(&self.key);
        // Dropped after the lock is released: it may be the last owner of the task's cell.
        drop(holder);
        self.under_way.changed.notify_waiters();
    }
}
