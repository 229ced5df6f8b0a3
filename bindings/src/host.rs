//! What the three wires of one service share: the service, the door, the limits, and the way of a call from its headers
//! to the handler.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http::HeaderValue;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::body::BodyLimits;
use crate::call::{Binding, Call, Identity, Principal};
use crate::error::{Error, Protocol, kinds};
use crate::meter::{CallCount, Meter};
use crate::proto_json::Validate;

/// The target of the line that every authorized call gets, and of the span that says which call another line belongs to.
pub const ACCESS: &str = "access";

/// Says who calls, from the headers alone, before anything else of a request is read.
pub trait Authenticator: Send + Sync + 'static {
    /// Finds the caller's identity.
    ///
    /// # Errors
    /// [`kinds::UNAUTHENTICATED`] with a challenge, or [`kinds::PERMISSION_DENIED`], or [`kinds::RATE_LIMITED`].
    fn authenticate(&self, head: &Parts) -> Result<Identity, Error>;
}

/// A request message of an rpc.
pub trait Request: prost::Message + Default + DeserializeOwned + Validate + 'static {
    /// The field that names the scope.
    const SCOPE: Scope;

    /// The scope that the request names; empty for none.
    fn scope(&self) -> &str;

    /// The same, to be set from a path.
    fn scope_mut(&mut self) -> &mut String;
}

/// Sets a field from a path. A request may repeat what its path says, but not contradict it.
///
/// # Errors
/// A violation of `name` when the field holds something else.
pub fn bind(field: &mut String, name: &'static str, path: &str) -> Result<(), Error> {
    if field.is_empty() {
        path.clone_into(field);
    } else if field != path {
        return Err(Error::invalid(name, "differs from the path"));
    }
    Ok(())
}

/// Names of the scope field.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// In JSON.
    pub json: &'static str,
    /// In the schema.
    pub name: &'static str,
    /// Its number.
    pub number: u32,
}

/// How the wires behave.
#[derive(Debug, Clone)]
pub struct BindingSettings {
    /// How request bodies are read.
    pub body: BodyLimits,
    /// After how much silence a stream gets a comment; `None` is never.
    pub ping: Option<Duration>,
}

impl Default for BindingSettings {
    /// [`BodyLimits::default`] and a ping after 4 s: clients are known that give up after 5.
    fn default() -> Self {
        Self { body: BodyLimits::default(), ping: Some(Duration::from_secs(4)) }
    }
}

type Authorize<S> = fn(&S, &mut Call, &str) -> Result<(), Error>;

/// A service with what its wires need.
pub struct Host<S> {
    pub(crate) service: Arc<S>,
    authorize: Authorize<S>,
    pub(crate) protocol: &'static Protocol,
    door: Box<dyn Authenticator>,
    pub(crate) settings: BindingSettings,
    streams_end: CancellationToken,
    meter: Meter,
}

impl<S> std::fmt::Debug for Host<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("protocol", self.protocol)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S: Send + Sync + 'static> Host<S> {
    /// Puts them together. `authorize` is the service's own; generated code passes it.
    pub fn new(
        service: Arc<S>,
        authorize: Authorize<S>,
        protocol: &'static Protocol,
        door: impl Authenticator,
        settings: BindingSettings,
    ) -> Arc<Self> {
        Arc::new(Self {
            service,
            authorize,
            protocol,
            door: Box::new(door),
            settings,
            streams_end: CancellationToken::new(),
            meter: Meter::default(),
        })
    }

    /// The service.
    pub fn service(&self) -> &Arc<S> {
        &self.service
    }

    /// The protocol that is spoken.
    pub fn protocol(&self) -> &'static Protocol {
        self.protocol
    }

    /// Cancelled when open streams have to end; cancel it to end them.
    pub fn streams_end(&self) -> &CancellationToken {
        &self.streams_end
    }

    /// How many calls there were, by rpc, wire and outcome.
    pub fn call_counts(&self) -> Vec<CallCount> {
        self.meter.read()
    }

    /// Counts a request that was refused before it was known which rpc it meant.
    pub(crate) fn count_refused(&self, binding: Binding, error: &Error) {
        self.meter.count::<()>(binding, "", &Err(error.clone()));
    }

    /// Asks the door who calls.
    pub(crate) fn authenticate(&self, head: &Parts) -> Result<Principal, Error> {
        self.door.authenticate(head).map(Principal::authorized)
    }

    /// Admits a call and judges its parameters, in this order, so that a request has one error on every wire. The scope
    /// of parameters that cannot be read is looked for by `scope`.
    pub(crate) fn authorize<R: Request>(
        &self,
        call: &mut Call,
        request: Result<R, Error>,
        scope: impl FnOnce() -> String,
    ) -> Result<(AuthorizedCall, R), Error> {
        let judged = self.judge(call, request, scope);
        if judged.is_err() {
            self.meter.count(call.binding, call.rpc, &judged);
        }
        judged.map(|request| (AuthorizedCall::of(call), request))
    }

    fn judge<R: Request>(
        &self,
        call: &mut Call,
        request: Result<R, Error>,
        scope: impl FnOnce() -> String,
    ) -> Result<R, Error> {
        match request {
            Ok(request) => {
                (self.authorize)(&self.service, call, request.scope())?;
                request.validate()?;
                Ok(request)
            }
            Err(error) => {
                (self.authorize)(&self.service, call, &scope())?;
                Err(error)
            }
        }
    }

    /// Runs a handler until it answers or the client's deadline passes. A panic is a fault of ours, for this call only.
    pub(crate) async fn run<T>(
        &self,
        authorized: &AuthorizedCall,
        handler: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let started = (!authorized.span.is_disabled()).then(std::time::Instant::now);
        let handler = AssertUnwindSafe(handler).catch_unwind().instrument(authorized.span.clone());
        let answer = match authorized.deadline {
            None => handler.await,
            Some(at) => {
                tokio::time::timeout_at(at.into(), handler).await.unwrap_or_else(|_| Ok(Err(deadline_passed())))
            }
        };
        let answer = answer.unwrap_or_else(|_| {
            tracing::error!(rpc = authorized.rpc, "a handler panicked");
            Err(Error::internal())
        });
        if let Some(started) = started {
            let outcome = answer.as_ref().err().map_or("OK", |error| error.kind().reason);
            tracing::info!(target: ACCESS, parent: &authorized.span, outcome, took = ?started.elapsed(), "answered");
        }
        self.meter.count(authorized.binding, authorized.rpc, &answer);
        answer
    }
}

/// An authorized call, ready to be handled.
#[derive(Debug)]
pub struct AuthorizedCall {
    binding: Binding,
    rpc: &'static str,
    deadline: Option<std::time::Instant>,
    span: tracing::Span,
    /// The header that tells the client which extensions are in use.
    pub(crate) extensions: Option<HeaderValue>,
}

impl AuthorizedCall {
    /// Notes what is needed of a call after it was handed on. The span costs nothing unless somebody listens to
    /// [`ACCESS`].
    fn of(call: &Call) -> Self {
        let Call { binding, rpc, agent, deadline, .. } = call;
        let span = tracing::info_span!(target: ACCESS, "call", binding = binding.name(), rpc, agent = &**agent);
        let extensions = match call.extensions.as_slice() {
            [] => None,
            [one] => HeaderValue::from_str(one).ok(),
            many => HeaderValue::from_str(&many.join(", ")).ok(),
        };
        Self { binding: *binding, rpc, deadline: *deadline, span, extensions }
    }
}

pub(crate) fn deadline_passed() -> Error {
    Error::new(&kinds::DEADLINE_EXCEEDED, "the deadline has passed")
}

/// Looks for the scope in JSON parameters that could not be read as a whole.
pub(crate) fn scope_in_json(scope: &Scope, json: &[u8]) -> String {
    use std::borrow::Cow;
    use std::collections::HashMap;

    let members: HashMap<Cow<'_, str>, &serde_json::value::RawValue> = serde_json::from_slice(json).unwrap_or_default();
    let found = members.get(scope.json).or_else(|| members.get(scope.name));
    found.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Looks for the scope in a query string that could not be read as a whole.
pub(crate) fn scope_in_query(scope: &Scope, query: &str) -> String {
    let found = crate::query::pairs(query).find(|(name, _)| *name == scope.json || *name == scope.name);
    found.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Looks for the scope in a protobuf message that could not be read as a whole: fields up to the first that is broken.
pub(crate) fn scope_in_protobuf(scope: &Scope, mut message: &[u8]) -> String {
    use prost::encoding::{DecodeContext, WireType, decode_key, skip_field, string};

    let mut found = String::new();
    while let Ok((number, wire_type)) = decode_key(&mut message) {
        let read = if number == scope.number && wire_type == WireType::LengthDelimited {
            string::merge(wire_type, &mut found, &mut message, DecodeContext::default())
        } else {
            skip_field(wire_type, number, &mut message, DecodeContext::default())
        };
        if read.is_err() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope = Scope { json: "theScope", name: "the_scope", number: 4 };

    #[test]
    fn the_scope_of_unreadable_json_is_found_where_it_can_be() {
        assert_eq!(scope_in_json(&SCOPE, br#"{"a":5,"theScope":"x"}"#), "x");
        assert_eq!(scope_in_json(&SCOPE, br#"{"the_scope":"x\u0041"}"#), "xA");
        for none in [&br#"{"theScope":5}"#[..], b"[1]", b"\"x\"", b"{", b""] {
            assert_eq!(scope_in_json(&SCOPE, none), "");
        }
    }

    #[test]
    fn the_scope_of_an_unreadable_query_is_found_where_it_is() {
        assert_eq!(scope_in_query(&SCOPE, "a=x&theScope=b%20c&theScope=d"), "b c");
        assert_eq!(scope_in_query(&SCOPE, "the_scope=x"), "x");
        assert_eq!(scope_in_query(&SCOPE, "a=theScope"), "");
    }

    #[test]
    fn the_scope_of_an_unreadable_message_is_found_before_the_break() {
        let message = [8, 1, 34, 2, b'h', b'i', 0x1a, 200];
        assert_eq!(scope_in_protobuf(&SCOPE, &message), "hi");
        assert_eq!(scope_in_protobuf(&SCOPE, &message[..5]), "");
    }
}
