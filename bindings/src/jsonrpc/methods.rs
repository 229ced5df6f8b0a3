//! Methods that a program adds to those of the schema, in a jsonrpsee `RpcModule`.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use http::Extensions;
use jsonrpsee::ConnectionId;
use jsonrpsee::core::server::{MethodCallback, Methods};
use jsonrpsee::types::{Id, Params};
use serde_json::value::RawValue;

use crate::authenticator::Principal;
use crate::error::{Error, kinds};

/// Calls a method of this name. It finds its caller, a [`Principal`], in its extensions. Returns the whole JSON-RPC
/// response.
///
/// # Errors
/// [`kinds::METHOD_NOT_FOUND`] if there is no such method. Subscriptions do not count: they need a connection of their own.
pub(super) async fn call(
    methods: &Methods,
    method: &str,
    id: Option<&[u8]>,
    params: &[u8],
    principal: &Principal,
) -> Result<Box<RawValue>, Error> {
    let mut extensions = Extensions::new();
    extensions.insert(principal.clone());
    let id: Id<'_> = id.and_then(|id| serde_json::from_slice(id).ok()).unwrap_or(Id::Null);
    let params = Params::new(std::str::from_utf8(params).ok());
    let response = async {
        match methods.method(method) {
            Some(MethodCallback::Sync(callback)) => Ok(callback(id, params, usize::MAX, extensions)),
            Some(MethodCallback::Async(callback)) => {
                Ok(callback(id.into_owned(), params.into_owned(), ConnectionId(0), usize::MAX, extensions).await)
            }
            Some(MethodCallback::Subscription(_) | MethodCallback::Unsubscription(_)) | None => {
                let method: String = method.chars().take(64).collect();
                Err(Error::new(&kinds::METHOD_NOT_FOUND, format!("no method {method:?}")))
            }
        }
    };
    // A panic is an internal error of this call only, as in the handlers of the schema.
    let response = AssertUnwindSafe(response).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(method, "a JSON-RPC method panicked");
        Err(Error::internal())
    });
    Ok(response?.into_json())
}
