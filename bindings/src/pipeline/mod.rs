//! The way of a call, the same for every binding: from the head of a request to the bytes of its answer.
//!
//! ```text
//! head ─► authenticate ─► read body ─► find rpc and codec ─► decode ─► authorize ─► validate ─► service ─► encode
//! ```
//!
//! `Pipeline::call` runs these steps. What differs between the bindings is behind the `Exchange` trait, which gRPC,
//! JSON-RPC and HTTP+JSON implement side by side; what differs between services is behind [`Service`], which generated
//! code implements. The order of the steps is the order of checks: a request with several faults gets the same error by
//! every binding. The rpc is found after the body is read because JSON-RPC names it there.

mod exchange;
mod record;
mod service;
mod settings;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use http::Response;
use http::request::Parts;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::authenticator::{AnyAuthenticator, Authenticator, Peer, Principal, RequestHead};
use crate::body::{Body, discard};
use crate::budget::{Budget, BudgetPermit};
use crate::call::{Call, choose_codec};
use crate::codec::Codec;
use crate::error::{Error, Protocol, kinds};
use crate::meter::{CallStats, Meter};
use crate::reply::{Events, Reply};
use crate::request::Request;
use crate::{Binding, Rpc};

pub use exchange::{Exchange, ReplyMessage, RequestBody};
pub use record::{CallRecord, Subject};
pub use service::{AgentCall, PendingCall, Service};
pub use settings::BindingSettings;

/// The target of the line that every finished call logs, and of the span that tells which call another line belongs to.
pub const ACCESS: &str = "access";

/// A service with what its bindings need.
pub struct Pipeline<S> {
    service: S,
    protocol: &'static Protocol,
    authenticator: AnyAuthenticator,
    settings: BindingSettings,
    streams_end: CancellationToken,
    meter: Arc<Meter>,
}

impl<S> std::fmt::Debug for Pipeline<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("protocol", self.protocol)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S: Service> Pipeline<S> {
    /// Makes the pipeline of a service.
    pub fn new(
        service: S,
        protocol: &'static Protocol,
        authenticator: impl Authenticator,
        settings: BindingSettings,
    ) -> Self {
        Self {
            service,
            protocol,
            authenticator: AnyAuthenticator::new(authenticator),
            settings,
            streams_end: CancellationToken::new(),
            meter: Arc::default(),
        }
    }

    /// Returns the protocol that is spoken.
    pub fn protocol(&self) -> &'static Protocol {
        self.protocol
    }

    /// Returns the token that ends all open streams when it is cancelled.
    pub fn streams_end(&self) -> &CancellationToken {
        &self.streams_end
    }

    /// Returns the statistics of calls since the start, by rpc, binding and outcome.
    pub fn call_stats(&self) -> Vec<CallStats> {
        self.meter.read()
    }

    /// Returns the budgets of requests and of answers.
    pub fn budgets(&self) -> [&Arc<Budget>; 2] {
        [&self.settings.body.budget, &self.settings.answers]
    }

    /// Begins the record of a call.
    pub(crate) fn record(&self, binding: Binding) -> CallRecord {
        CallRecord::new(&self.meter, self.protocol, binding)
    }

    /// Begins the record of a call of something that a program serves beside the service.
    pub fn record_additional(&self, binding: Binding) -> CallRecord {
        let mut record = self.record(binding);
        record.additional();
        record
    }

    /// Records a request that is refused before its rpc is known.
    pub(crate) fn count_refused(&self, binding: Binding, error: &Error) {
        self.record(binding).end(Some(error));
    }

    /// Asks the authenticator who calls. Other services on the same port call this first, too.
    ///
    /// # Errors
    /// The authenticator's.
    pub async fn authenticate(&self, head: &Parts, peer: &Peer) -> Result<Principal, Error> {
        self.authenticator.authenticate(RequestHead { head, peer }).await
    }

    /// Runs all steps of one request.
    pub(crate) async fn call<X: Exchange>(
        &self,
        head: &Parts,
        peer: &Peer,
        body: impl RequestBody,
        mut exchange: X,
    ) -> Response<Body> {
        let mut record = self.record(X::BINDING);
        let version = choose_codec(self.protocol, &head.headers, head.uri.query());
        let codec = *version.as_ref().unwrap_or(&self.protocol.newest());
        let found = match self.receive(head, peer, body, &mut exchange, version).await {
            Ok((principal, permit, Some(rpc))) => {
                record.rpc(rpc);
                tracing::debug!(rpc = rpc.name, binding = X::BINDING.name(), "a call begins");
                let call = PendingCall { head, principal, codec, rpc, permit, record };
                return S::dispatch(self, &mut exchange, call).await;
            }
            Ok((principal, _permit, None)) => exchange.call_other(&principal, &mut record).await,
            Err(error) => Err(error),
        };
        record.end(found.as_ref().err());
        found.unwrap_or_else(|error| exchange.write_error(codec, &error))
    }

    /// The steps up to the rpc.
    async fn receive<X: Exchange>(
        &self,
        head: &Parts,
        peer: &Peer,
        body: impl RequestBody,
        exchange: &mut X,
        version: Result<&'static dyn Codec, Error>,
    ) -> Result<(Principal, BudgetPermit, Option<&'static Rpc>), Error> {
        let checked = match self.authenticate(head, peer).await {
            Ok(principal) => exchange.check_head(&self.settings.body).map(|()| principal),
            Err(error) => Err(error),
        };
        let principal = match checked {
            Ok(principal) => principal,
            Err(error) => {
                discard(&head.headers, body);
                return Err(error);
            }
        };
        let permit = exchange.read_body(body, &self.settings).await?;
        let rpc = match version {
            Ok(codec) => exchange.find_rpc(codec)?,
            Err(error) if exchange.is_rpc() => return Err(error),
            // What no version has needs no version: it is not found, or the program's own.
            Err(_) => None,
        };
        Ok((principal, permit, rpc))
    }

    /// Runs the steps after the rpc was found, for an rpc that answers once.
    pub async fn reply<'p, X, Q, A, H, F>(
        &'p self,
        exchange: &mut X,
        call: PendingCall<'_>,
        handler: H,
    ) -> Response<Body>
    where
        X: Exchange,
        Q: Request,
        A: ReplyMessage,
        H: FnOnce(&'p S, AgentCall<S>, Q) -> F + Send,
        F: Future<Output = Result<Reply<A>, Error>> + Send + 'p,
    {
        let codec = call.codec;
        let (reply, mut running) = match self.handle(exchange, call, handler).await {
            Ok(handled) => handled,
            Err(refused) => return refused,
        };
        running.record.message(reply.as_any());
        let unencoded = reply.unencoded((X::BINDING != Binding::Grpc).then_some(codec));
        let write = || exchange.write_reply(codec, reply, &self.settings);
        let written = self.settings.offload.run(unencoded, write).await;
        running.record.end(written.as_ref().err());
        let response = written.unwrap_or_else(|error| exchange.write_error(codec, &error));
        self.with_extensions(response, running.extensions)
    }

    /// Runs the steps after the rpc was found, for an rpc that answers with a stream.
    pub async fn stream<'p, X, Q, A, H, F>(
        &'p self,
        exchange: &mut X,
        call: PendingCall<'_>,
        handler: H,
    ) -> Response<Body>
    where
        X: Exchange,
        Q: Request,
        A: ReplyMessage,
        H: FnOnce(&'p S, AgentCall<S>, Q) -> F + Send,
        F: Future<Output = Result<Events<A>, Error>> + Send + 'p,
    {
        let codec = call.codec;
        let (events, running) = match self.handle(exchange, call, handler).await {
            Ok(handled) => handled,
            Err(refused) => return refused,
        };
        let events = match running.deadline {
            Some(at) => events.until(at, deadline_exceeded),
            None => events,
        };
        let Running { record, extensions, .. } = running;
        let response = exchange.write_stream(codec, record::stream(events, record), &self.settings, &self.streams_end);
        self.with_extensions(response, extensions)
    }

    /// Answers a call of an rpc that has no handler, which generated code never makes.
    pub fn fail<X: Exchange>(&self, exchange: &mut X, call: PendingCall<'_>) -> Response<Body> {
        exchange.write_error(call.codec, &Error::internal())
    }

    /// Runs the steps up to the answer of the handler, or to the response to a call that is refused.
    async fn handle<'p, X, Q, T, H, F>(
        &'p self,
        exchange: &mut X,
        call: PendingCall<'_>,
        handler: H,
    ) -> Result<(T, Running), Response<Body>>
    where
        X: Exchange,
        Q: Request,
        T: Send,
        H: FnOnce(&'p S, AgentCall<S>, Q) -> F + Send,
        F: Future<Output = Result<T, Error>> + Send + 'p,
    {
        let PendingCall { head, principal, codec, rpc, permit, mut record } = call;
        let mut call = Call::read(self.protocol, &head.headers, principal, codec, X::BINDING, rpc, permit);
        call.deadline = exchange.deadline();
        let (call, request) = match self.authorize(exchange, codec, call).await {
            Ok(authorized) => authorized,
            Err(error) => {
                record.end(Some(&error));
                return Err(exchange.write_error(codec, &error));
            }
        };
        record.handling(<S::Agent as AsRef<str>>::as_ref(&call.agent));
        record.message(&request);
        let mut running = Running::of(&call, record);
        // The one box of a call: the future of a handler is large, and would be moved with every future around it.
        let handler: HandlerFuture<'p, T> = Box::pin(handler(&self.service, call, request));
        match self.run(&running, handler).await {
            Ok(answer) => Ok((answer, running)),
            Err(error) => {
                running.record.end(Some(&error));
                Err(exchange.write_error(codec, &error))
            }
        }
    }

    /// Tells the client which extensions are in use.
    fn with_extensions(&self, mut response: Response<Body>, extensions: Option<http::HeaderValue>) -> Response<Body> {
        if let Some(extensions) = extensions {
            response.headers_mut().insert(&self.protocol.extensions_header, extensions);
        }
        response
    }

    /// Decodes the message, authorizes the call and validates the message, in the order of their errors: that a message
    /// cannot be decoded is reported only to callers who may call the rpc.
    async fn authorize<X: Exchange, Q: Request>(
        &self,
        exchange: &mut X,
        codec: &'static dyn Codec,
        mut call: Call,
    ) -> Result<(AgentCall<S>, Q), Error> {
        let length = exchange.length();
        let (decoded, valid) = {
            let decode = || {
                let decoded = self.decode::<X, Q>(exchange, codec, &mut call, length);
                let valid = decoded.as_ref().map_or(Ok(()), Q::validate);
                (decoded, valid)
            };
            self.settings.offload.run(length, decode).await
        };
        let agent = match &decoded {
            Ok(request) => self.service.authorize(&mut call, request.scope())?,
            Err(_) => self.service.authorize(&mut call, &exchange.find_scope(&Q::SCOPE))?,
        };
        let request = decoded?;
        valid?;
        Ok((call.with_agent(agent), request))
    }

    /// Decodes the message, within what a request may hold.
    fn decode<X: Exchange, Q: Request>(
        &self,
        exchange: &mut X,
        codec: &'static dyn Codec,
        call: &mut Call,
        length: usize,
    ) -> Result<Q, Error> {
        let weight = exchange.weigh::<Q>();
        let most = self.settings.body.values;
        if weight.values > most {
            let found = weight.values;
            let message =
                format!("the request holds {found} values (parts, list items, map entries); {most} are allowed");
            return Err(Error::new(&kinds::TOO_LARGE, message));
        }
        // Both are there while it is decoded.
        let held = call.permit.bytes();
        call.permit.more(length + weight.bytes())?;
        let decoded = exchange.decode::<Q>(codec, call.rpc);
        let left = if decoded.is_ok() { length + weight.bytes() } else { held };
        call.permit.resize(left)?;
        decoded
    }

    /// Runs a handler until it answers or the client's deadline passes. A panic is an internal error of this call only.
    async fn run<T>(&self, call: &Running, handler: HandlerFuture<'_, T>) -> Result<T, Error> {
        let handler = AssertUnwindSafe(handler).catch_unwind().instrument(call.span.clone());
        let answer = match call.deadline {
            None => handler.await,
            Some(at) => {
                tokio::time::timeout_at(at.into(), handler).await.unwrap_or_else(|_| Ok(Err(deadline_exceeded())))
            }
        };
        answer.unwrap_or_else(|_| {
            tracing::error!(rpc = call.rpc.name, "a handler panicked");
            Err(Error::internal())
        })
    }
}

type HandlerFuture<'p, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'p>>;

/// What is needed of a call while its handler runs and afterwards.
struct Running {
    record: CallRecord,
    rpc: &'static Rpc,
    deadline: Option<Instant>,
    span: tracing::Span,
    /// The header that tells the client which extensions are in use.
    extensions: Option<http::HeaderValue>,
}

impl Running {
    /// Notes it. The span costs nothing unless somebody listens to [`ACCESS`].
    fn of<A: AsRef<str>>(call: &Call<Arc<A>>, record: CallRecord) -> Self {
        let Call { binding, rpc, agent, deadline, .. } = call;
        let agent: &str = A::as_ref(agent);
        let span = tracing::info_span!(target: ACCESS, "call", binding = binding.name(), rpc = rpc.name, agent);
        Self { record, rpc, deadline: *deadline, span, extensions: call.extensions_header() }
    }
}

/// The error of a call, or of a stream, whose client set a deadline that has passed.
fn deadline_exceeded() -> Error {
    Error::new(&kinds::DEADLINE_EXCEEDED, "the deadline has passed")
}
