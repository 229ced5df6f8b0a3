//! Methods that a program adds to those of the schema, in a jsonrpsee `RpcModule`.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use http::Extensions;
use jsonrpsee::ConnectionId;
use jsonrpsee::core::server::{MethodCallback, Methods};
use jsonrpsee::types::{Id, Params};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::authenticator::Principal;
use crate::error::{Error, kinds};

/// Calls a method of this name. It finds its caller, a [`Principal`], in its extensions. Returns the name of
/// the member that the JSON-RPC response has, `result` or `error`, and its value.
///
/// # Errors
/// [`kinds::METHOD_NOT_FOUND`] if there is no such method. Subscriptions do not count: they need a connection of their own.
pub(super) async fn call(
    methods: &Methods,
    method: &str,
    params: &[u8],
    principal: &Principal,
) -> Result<(&'static str, Box<RawValue>), Error> {
    let mut extensions = Extensions::new();
    extensions.insert(principal.clone());
    let params = Params::new(std::str::from_utf8(params).ok());
    let response = async {
        match methods.method(method) {
            Some(MethodCallback::Sync(callback)) => Ok(callback(Id::Null, params, usize::MAX, extensions)),
            Some(MethodCallback::Async(callback)) => {
                Ok(callback(Id::Null, params.into_owned(), ConnectionId(0), usize::MAX, extensions).await)
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
    let response = response?.into_json();
    // Without its id: the client's goes back as it came, which jsonrpsee's type does not keep.
    let Members { error, result } = serde_json::from_str(response.get()).map_err(|_| Error::internal())?;
    Ok(match error {
        Some(error) => ("error", error),
        None => ("result", result.unwrap_or_default()),
    })
}

/// The members of a response.
#[derive(Deserialize)]
struct Members {
    error: Option<Box<RawValue>>,
    /// `None` stands for `null`.
    result: Option<Box<RawValue>>,
}
