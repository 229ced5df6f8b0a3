//! The key of a request, and the hash that tells its retries from other requests.

use std::sync::Arc;

use prost::Message as _;
use ring::digest::{SHA256, digest};

use crate::clock::new_id;
use crate::schema::SendMessageRequest;
use crate::service::Call;
use crate::service::parts::violation;
use crate::store::{Claim, ClaimKey};
use crate::task::event::parse_id;
use tricord_bindings::Error;

/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 256;

/// Returns the claim that a request makes, or `None` if it has no key.
///
/// # Errors
///
/// A violation of `Idempotency-Key` when that is empty or too long.
pub(in crate::service) fn claim_of(call: &Call, request: &SendMessageRequest) -> Result<Option<Claim>, Error> {
    let Some(key) = key(call, request)? else { return Ok(None) };
    let key = ClaimKey { agent: Arc::clone(&call.agent.name), owner: Arc::clone(call.principal.owner()), key };
    // A follow-up is answered with its own task.
    let follow_up = request.message.as_ref().and_then(|message| parse_id(&message.task_id));
    Ok(Some(Claim { key, hash: hash(request), reserve: follow_up.unwrap_or_else(new_id) }))
}

/// Returns the key as it is stored. The prefix keeps the keys of clients apart from message ids.
fn key(call: &Call, request: &SendMessageRequest) -> Result<Option<Arc<str>>, Error> {
    let key = match &call.idempotency_key {
        Some(key) if key.is_empty() || key.len() > MAX_KEY => {
            return Err(violation("Idempotency-Key", "must have 1 to 256 bytes"));
        }
        Some(key) => format!("k:{key}"),
        None if call.agent.dedupe_message_id => {
            let message_id = request.message.as_ref().map(|message| message.message_id.as_str()).unwrap_or_default();
            match message_id.len() {
                ..=MAX_KEY => format!("m:{message_id}"),
                _ => format!("d:{:?}", digest(&SHA256, message_id.as_bytes())),
            }
        }
        None => return Ok(None),
    };
    Ok(Some(key.into()))
}

/// Returns the digest of a request's protobuf encoding. That is deterministic (maps are sorted) and the same for all
/// bindings, so a retry may use another binding.
fn hash(request: &SendMessageRequest) -> [u8; 32] {
    let mut canonical = request.clone();
    // The agent is part of the key. A client may name it or, if it is the default agent, leave it out.
    canonical.tenant.clear();
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, &canonical.encode_to_vec()).as_ref());
    hash
}
