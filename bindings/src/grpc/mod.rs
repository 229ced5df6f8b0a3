//! gRPC: length-prefixed protobuf in and out, with statuses as errors.
//!
//! Statuses and their details are tonic's. Its servers are not used: they would encode an event once for every subscriber,
//! and decode a request before the checks that come first on the other bindings.

mod events;
mod frame;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Response, StatusCode};
use prost::Message as _;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::authenticator::{Peer, Principal};
use crate::body::{Body, BodyLimits, discard};
use crate::budget::BudgetPermit;
use crate::codec::Codec;
use crate::details;
use crate::error::{Error, Kind, Protocol, kinds};
use crate::media_type::is;
use crate::offload;
use crate::output::Output;
use crate::pipeline::{BindingSettings, CallRecord, Exchange, Pipeline, ReplyMessage, RequestBody, Service};
use crate::reply::{Events, Reply};
use crate::request::{Request, Scope, scope_in_protobuf};
use crate::weight::Weight;
use crate::{Binding, Rpc};
use events::GrpcEvents;

/// Answers a request.
pub async fn serve<S: Service>(
    pipeline: &Pipeline<S>,
    head: Parts,
    peer: &Peer,
    body: impl RequestBody,
) -> Response<Body> {
    let exchange = Grpc { protocol: pipeline.protocol(), head: &head, message: Bytes::new() };
    pipeline.call(&head, peer, body, exchange).await
}

/// Answers a request for another gRPC service of the same port with an error, as this service would.
pub fn refuse<S: Service>(pipeline: &Pipeline<S>, error: &Error) -> Response<Body> {
    pipeline.count_refused(Binding::Grpc, error);
    error_response(pipeline.protocol(), error)
}

/// A content type that begins with `application/grpc` but is not one of gRPC's. The answer is a plain HTTP status.
static NOT_GRPC: Kind = Kind::new("CONTENT_TYPE_NOT_SUPPORTED", -32600, Code::InvalidArgument, 415);

/// A compression that is not supported. gRPC prescribes the status, and a header that names those that are.
static UNKNOWN_ENCODING: Kind = Kind::new("CONTENT_TYPE_NOT_SUPPORTED", -32600, Code::Unimplemented, 415);

/// One request by gRPC.
struct Grpc<'h> {
    protocol: &'static Protocol,
    head: &'h Parts,
    message: Bytes,
}

impl Exchange for Grpc<'_> {
    const BINDING: Binding = Binding::Grpc;

    fn check_head(&self, _: &BodyLimits) -> Result<(), Error> {
        let media_type = self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match ["application/grpc", "application/grpc+proto"].iter().any(|expected| is(media_type, expected)) {
            true => Ok(()),
            false => Err(Error::new(&NOT_GRPC, "the request must be application/grpc")),
        }
    }

    async fn read_body(&mut self, body: impl RequestBody, settings: &BindingSettings) -> Result<BudgetPermit, Error> {
        let limits = &settings.body;
        if !self.is_rpc() {
            // The answer must not wait for a client that goes on sending.
            discard(&self.head.headers, body);
            return Ok(BudgetPermit::none(&limits.budget));
        }
        let is_gzip = match self.head.headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
            None | Some(b"identity") => false,
            Some(b"gzip") => true,
            Some(_) => return Err(Error::new(&UNKNOWN_ENCODING, "grpc-encoding must be gzip or identity")),
        };
        let (body, mut permit) = limits.read_or_discard(&self.head.headers, body, frame::HEADER).await?;
        let work = || frame::message(body, is_gzip, limits, &mut permit);
        // What is compressed may be as large as it is allowed to be.
        self.message = settings.offload.run(if is_gzip { offload::LARGE } else { 0 }, work).await?;
        permit.resize(self.message.len())?;
        Ok(permit)
    }

    fn find_rpc(&mut self, codec: &'static dyn Codec) -> Result<Option<&'static Rpc>, Error> {
        Ok(codec.grpc_rpc(self.head.uri.path()))
    }

    fn is_rpc(&self) -> bool {
        self.protocol.codecs.iter().any(|codec| codec.grpc_rpc(self.head.uri.path()).is_some())
    }

    async fn call_other(&mut self, _: &Principal, _: &mut CallRecord) -> Result<Response<Body>, Error> {
        Err(Error::new(&kinds::METHOD_NOT_FOUND, "no such method"))
    }

    fn deadline(&self) -> Option<Instant> {
        deadline(&self.head.headers)
    }

    fn length(&self) -> usize {
        self.message.len()
    }

    fn weigh<Q: Request>(&self) -> Weight {
        Weight::of_protobuf(&self.message, Q::SHAPE)
    }

    fn decode<Q: Request>(&mut self, _: &'static dyn Codec, _: &'static Rpc) -> Result<Q, Error> {
        // From `Bytes`, so that blobs are slices of what was received.
        let decoded = Q::decode(self.message.clone());
        let decoded = decoded
            .map_err(|error| Error::new(&kinds::INVALID_PARAMS, format!("not the request's message: {error}")))?;
        self.message = Bytes::new();
        Ok(decoded)
    }

    fn find_scope(&self, scope: &Scope) -> String {
        scope_in_protobuf(scope, &self.message)
    }

    fn write_reply<A: ReplyMessage>(
        &mut self,
        _: &'static dyn Codec,
        reply: Reply<A>,
        settings: &BindingSettings,
    ) -> Result<Response<Body>, Error> {
        let mut out = Output::new(Some(&settings.answers));
        write_message(&mut out, &reply)?;
        Ok(response(Body::Unary(out.finish()?, Some(Box::new(trailers(self.protocol, None))))))
    }

    fn write_stream<A: ReplyMessage>(
        &mut self,
        _: &'static dyn Codec,
        events: Events<A>,
        settings: &BindingSettings,
        shutdown: &CancellationToken,
    ) -> Response<Body> {
        response(Body::stream(GrpcEvents::new(self.protocol, events, settings, shutdown)))
    }

    fn write_error(&mut self, _: &'static dyn Codec, error: &Error) -> Response<Body> {
        if error.kind() == &NOT_GRPC {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        error_response(self.protocol, error)
    }
}

/// Reads when the client stops waiting: `grpc-timeout` is up to eight digits and a unit.
fn deadline(headers: &HeaderMap) -> Option<Instant> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let after = match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    };
    Instant::now().checked_add(after)
}

/// Writes a message as gRPC sends it: uncompressed, behind a flag and its length.
fn write_message<A: ReplyMessage>(out: &mut Output, reply: &Reply<A>) -> Result<(), Error> {
    let length = u32::try_from(reply.protobuf_len()).map_err(|_| {
        tracing::error!("an answer is larger than gRPC can send");
        Error::internal()
    })?;
    out.push(0);
    out.extend_from_slice(&length.to_be_bytes());
    reply.write_protobuf(out)
}

/// Returns the trailers after the last message.
fn trailers(protocol: &Protocol, error: Option<&Error>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let status = error.map_or_else(|| Status::ok(""), |error| status(protocol, error));
    if let Err(failed) = status.add_header(&mut trailers) {
        // Only a status with metadata that no header can hold fails.
        tracing::error!(error = %failed, "a status cannot be sent");
        trailers.insert("grpc-status", HeaderValue::from(Code::Internal as i32));
    }
    trailers
}

fn response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn error_response(protocol: &Protocol, error: &Error) -> Response<Body> {
    status(protocol, error).into_http::<tonic::body::Body>().map(Body::Grpc)
}

/// Returns an error as a status with `google.rpc` details.
fn status(protocol: &Protocol, error: &Error) -> Status {
    let details = details::status(error, protocol).encode_to_vec();
    let mut metadata = HeaderMap::new();
    if let Some(challenge) = error.challenge().and_then(|challenge| HeaderValue::from_str(challenge).ok()) {
        metadata.insert(WWW_AUTHENTICATE, challenge);
    }
    let kind = error.kind();
    if kind == &UNKNOWN_ENCODING {
        metadata.insert("grpc-accept-encoding", HeaderValue::from_static("gzip,identity"));
    }
    Status::with_details_and_metadata(kind.grpc, error.message(), details.into(), MetadataMap::from_headers(metadata))
}
