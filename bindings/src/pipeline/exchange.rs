//! The seam between the pipeline and the bindings.

use std::future::Future;
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{BindingSettings, CallRecord};
use crate::authenticator::Principal;
use crate::body::{Body, BodyLimits, BoxError};
use crate::budget::BudgetPermit;
use crate::codec::Codec;
use crate::error::Error;
use crate::reply::{Events, Reply};
use crate::request::{Request, Scope};
use crate::weight::Weight;
use crate::{Binding, Rpc};

/// One request and its answer, in the form of one binding.
///
/// `Pipeline::call` calls these functions in the order of this trait, each at most
/// once, with authentication before the first of them and the service's `authorize` after [`Exchange::decode`]. The
/// first error ends the order: it goes to [`Exchange::write_error`], and nothing else is called. So the order of the
/// functions is the order of checks, and it is the same for every binding.
///
/// An implementation holds the head of its request from the start, and keeps what one step leaves for the next. It does
/// not authenticate, count, log or time anything; that is the pipeline's work.
pub trait Exchange: Sized + Send {
    /// The binding.
    const BINDING: Binding;

    /// Checks what the head says of the body: its announced length first, then its media type where a body always follows.
    ///
    /// # Errors
    /// If a body like this is not read. The pipeline discards the body.
    fn check_head(&self, limits: &BodyLimits) -> Result<(), Error>;

    /// Reads the body to its end and keeps it. An envelope around the request is read here too. Returns the permit for what
    /// is kept; the pipeline holds it.
    ///
    /// # Errors
    /// If the body is too large, breaks off or is late, or if its envelope is wrong.
    fn read_body(
        &mut self,
        body: impl RequestBody,
        settings: &BindingSettings,
    ) -> impl Future<Output = Result<BudgetPermit, Error>> + Send;

    /// Finds the rpc that the request calls in this version; `None` if the service has no such rpc.
    ///
    /// # Errors
    /// If the rpc exists but is not called like this.
    fn find_rpc(&mut self, codec: &'static dyn Codec) -> Result<Option<&'static Rpc>, Error>;

    /// Returns whether any version has an rpc that the request could call, with this verb or another.
    fn is_rpc(&self) -> bool;

    /// Answers a request for which [`Exchange::find_rpc`] found nothing. No later step follows.
    ///
    /// # Errors
    /// If nothing else is served under this name either.
    fn call_other(
        &mut self,
        principal: &Principal,
        record: &mut CallRecord,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + Send;

    /// Returns when the client stops waiting, if it says so.
    fn deadline(&self) -> Option<Instant>;

    /// Returns how many bytes of the body are the request message.
    fn length(&self) -> usize;

    /// Judges what the request message will take once it is decoded.
    fn weigh<Q: Request>(&self) -> Weight;

    /// Decodes the request message, and lets go of the body if that succeeds.
    ///
    /// # Errors
    /// If it cannot be read. The pipeline reports this error after those of `authorize`.
    fn decode<Q: Request>(&mut self, codec: &'static dyn Codec, rpc: &'static Rpc) -> Result<Q, Error>;

    /// Looks for the scope of a request that could not be decoded; empty if it finds none.
    fn find_scope(&self, scope: &Scope) -> String;

    /// Writes the answer of an rpc that answers once.
    ///
    /// # Errors
    /// If the message cannot be written in this binding, or if it is large and the budget of answers is used up.
    fn write_reply<A: ReplyMessage>(
        &mut self,
        codec: &'static dyn Codec,
        reply: Reply<A>,
        settings: &BindingSettings,
    ) -> Result<Response<Body>, Error>;

    /// Writes a stream whose beginning succeeded. Later errors are part of the stream. It ends early, in the binding's own
    /// way, when `shutdown` is cancelled.
    fn write_stream<A: ReplyMessage>(
        &mut self,
        codec: &'static dyn Codec,
        events: Events<A>,
        settings: &BindingSettings,
        shutdown: &CancellationToken,
    ) -> Response<Body>;

    /// Writes an error. `codec` is the newest one if the request asks for a version that is not served.
    fn write_error(&mut self, codec: &'static dyn Codec, error: &Error) -> Response<Body>;
}

/// A message that every binding can write.
pub trait ReplyMessage: prost::Message + Serialize + 'static {}

impl<T: prost::Message + Serialize + 'static> ReplyMessage for T {}

/// The body of a request.
pub trait RequestBody: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}

impl<T: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> RequestBody for T {}
