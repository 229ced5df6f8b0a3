//! The end of a request under way: with the commit of its task, or by storing the message that is its answer.

use prost::Message as _;
use tokio::sync::watch;
use tricord_bindings::Error;

use crate::engine::{Outcome, Sent};
use crate::schema::stream_response::Payload;
use crate::service::failure::{self, refused};
use crate::store::{ClaimEnd, Store, StoreError};

use super::under_way::ClaimGuard;

/// Waits until a message is stored as the answer to retries, where the request has a key.
#[derive(Debug, Clone)]
pub(in crate::service) struct ReplyPersisted(Option<watch::Receiver<Option<Result<(), StoreError>>>>);

impl ReplyPersisted {
    /// Returns a wait that is over, for a request without a key.
    pub(super) fn not_needed() -> Self {
        Self(None)
    }

    /// Returns a wait that is over when the result of storing the message is sent.
    pub(super) fn pending() -> (watch::Sender<Option<Result<(), StoreError>>>, Self) {
        let (stored, persisted) = watch::channel(None);
        (stored, Self(Some(persisted)))
    }

    /// Waits until the message is stored.
    ///
    /// # Errors
    ///
    /// Unavailable when the store failed. The key is free then.
    pub(super) async fn wait(mut self) -> Result<(), Error> {
        let Some(persisted) = &mut self.0 else { return Ok(()) };
        match persisted.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err(error))) => Err(failure::write(error)),
            Ok(None) | Err(_) => Err(Error::internal()),
        }
    }
}

/// Waits for the outcome of a request. A message is stored before it is returned.
pub(super) async fn outcome(sent: Sent, persisted: ReplyPersisted, wait: bool) -> Result<Outcome, Error> {
    let outcome = sent.outcome(wait).await.map_err(refused)?;
    if let Outcome::Message(_) = &outcome {
        persisted.wait().await?;
    }
    Ok(outcome)
}

/// Moves a key to Submitted, and holds it until its state is in the store, whether or not a client still waits.
///
/// The commit of a task has written the state already; a message is written here. If the request ends without either,
/// the key is free.
pub(super) fn persist(store: Store, sent: &Sent, guard: ClaimGuard) -> ReplyPersisted {
    let outcome = sent.subscribe_again().outcome(false);
    let (stored, persisted) = ReplyPersisted::pending();
    guard.submitted(sent, &persisted);
    tokio::spawn(async move {
        if let Ok(Outcome::Message(reply)) = outcome.await
            && let Some(Payload::Message(message)) = &reply.value().payload
        {
            let end = ClaimEnd::Message(message.encode_to_vec());
            stored.send_replace(Some(store.end_claim(guard.key().clone(), end).await));
        }
        drop(guard);
    });
    persisted
}
