//! JSON-RPC 2.0 over HTTP POST: envelopes in, envelopes out, alone or as server-sent events.
//!
//! The envelope is ours: ids go back as they came, and neither parameters nor answers pass through a JSON value. A body is
//! scanned twice: `Envelope::read` checks its syntax and finds the members, without looking into them; the codec then
//! decodes the parameters in place. Methods that a program adds are those of a jsonrpsee `RpcModule`.

pub(crate) mod envelope;
mod error;
mod methods;

use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use jsonrpsee::core::server::Methods;
use tokio_util::sync::CancellationToken;

use crate::authenticator::{Peer, Principal};
use crate::body::{Body, BodyLimits};
use crate::budget::BudgetPermit;
use crate::codec::Codec;
use crate::error::{Error, Protocol, kinds};
use crate::http_json;
use crate::output::{Output, Pieces};
use crate::pipeline::{BindingSettings, CallRecord, Exchange, Pipeline, ReplyMessage, RequestBody, Service};
use crate::reply::{Events, Reply};
use crate::request::{Request, Scope, scope_in_json, set_from_path};
use crate::weight::Weight;
use crate::{Binding, Rpc, sse};
use envelope::Envelope;

pub(crate) use error::write_error_object;

/// Answers a POST. `scope` is the one that its path names, if any; `methods` are those that the schema does not have.
pub async fn serve<S: Service>(
    pipeline: &Pipeline<S>,
    head: Parts,
    peer: &Peer,
    body: impl RequestBody,
    scope: Option<&str>,
    methods: &Methods,
) -> Response<Body> {
    let exchange = JsonRpc {
        protocol: pipeline.protocol(),
        head: &head,
        path_scope: scope,
        methods,
        id: Id::Unknown,
        method: Bytes::new(),
        params: Bytes::new(),
    };
    pipeline.call(&head, peer, body, exchange).await
}

/// Answers a request that is not read with an error, as the service would.
pub fn refuse<S: Service>(pipeline: &Pipeline<S>, error: &Error) -> Response<Body> {
    pipeline.count_refused(Binding::JsonRpc, error);
    let protocol = pipeline.protocol();
    error_response(protocol, protocol.newest(), b"null", error)
}

/// One request by JSON-RPC.
struct JsonRpc<'h> {
    protocol: &'static Protocol,
    head: &'h Parts,
    path_scope: Option<&'h str>,
    methods: &'h Methods,
    id: Id,
    method: Bytes,
    params: Bytes,
}

/// The id of a request.
enum Id {
    /// Not read, or not to be read.
    Unknown,
    /// None: the request is run, and not answered.
    Notification,
    /// As the client wrote it.
    Text(Bytes),
}

impl JsonRpc<'_> {
    fn method(&self) -> &str {
        std::str::from_utf8(&self.method).unwrap_or_default()
    }
}

impl Exchange for JsonRpc<'_> {
    const BINDING: Binding = Binding::JsonRpc;

    fn check_head(&self, limits: &BodyLimits) -> Result<(), Error> {
        limits.announced(&self.head.headers)?;
        if !self.head.headers.contains_key(CONTENT_TYPE) {
            return Err(http_json::missing(self.protocol));
        }
        http_json::check(self.protocol, &self.head.headers)
    }

    async fn read_body(&mut self, body: impl RequestBody, settings: &BindingSettings) -> Result<BudgetPermit, Error> {
        let (body, permit) = settings.body.read_or_discard(&self.head.headers, body, 0).await?;
        let shared = |part: &str| body.slice_ref(part.as_bytes());
        // The id is copied: a stream keeps it, and would keep the whole body with it.
        let read = settings.offload.run(body.len(), || Envelope::read(&body)).await;
        let Envelope { id, method, params } = read.map_err(|(id, error)| {
            self.id = id.map_or(Id::Unknown, |id| Id::Text(Bytes::copy_from_slice(id)));
            error
        })?;
        self.id = id.map_or(Id::Notification, |id| Id::Text(Bytes::copy_from_slice(id.as_bytes())));
        self.method = match method {
            std::borrow::Cow::Borrowed(method) => shared(method),
            std::borrow::Cow::Owned(method) => method.into(),
        };
        self.params = params.map_or(Bytes::from_static(b"{}"), shared);
        Ok(permit)
    }

    fn find_rpc(&mut self, codec: &'static dyn Codec) -> Result<Option<&'static Rpc>, Error> {
        Ok(codec.jsonrpc_rpc(self.method()))
    }

    fn is_rpc(&self) -> bool {
        self.protocol.codecs.iter().any(|codec| codec.jsonrpc_rpc(self.method()).is_some())
    }

    async fn call_other(&mut self, principal: &Principal, record: &mut CallRecord) -> Result<Response<Body>, Error> {
        if self.methods.method(self.method()).is_some() {
            record.additional();
        }
        let (member, value) = methods::call(self.methods, self.method(), &self.params, principal).await?;
        let Id::Text(id) = &self.id else { return Ok(no_content()) };
        let mut out = Vec::with_capacity(value.get().len() + 64);
        open_response(&mut out, id, member);
        out.extend_from_slice(value.get().as_bytes());
        out.push(b'}');
        Ok(json(StatusCode::OK, out))
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn length(&self) -> usize {
        self.params.len()
    }

    fn weigh<Q: Request>(&self) -> Weight {
        Weight::of_json(&self.params)
    }

    fn decode<Q: Request>(&mut self, codec: &'static dyn Codec, rpc: &'static Rpc) -> Result<Q, Error> {
        let mut request = Q::default();
        match self.params.first() {
            Some(b'{') => codec.read_json(rpc, &self.params, &mut request)?,
            Some(b'[') => return Err(Error::new(&kinds::INVALID_PARAMS, "params are given by name, as an object")),
            _ => return Err(Error::new(&kinds::INVALID_PARAMS, "params must be an object")),
        }
        if let Some(scope) = self.path_scope {
            set_from_path(request.scope_mut(), Q::SCOPE.json, scope)?;
        }
        (self.method, self.params) = Default::default();
        Ok(request)
    }

    fn find_scope(&self, scope: &Scope) -> String {
        self.path_scope.map_or_else(|| scope_in_json(scope, &self.params), str::to_owned)
    }

    fn write_reply<A: ReplyMessage>(
        &mut self,
        codec: &'static dyn Codec,
        reply: Reply<A>,
        settings: &BindingSettings,
    ) -> Result<Response<Body>, Error> {
        let Id::Text(id) = &self.id else { return Ok(no_content()) };
        let mut out = Output::new(Some(&settings.answers));
        out.reserve(1024);
        open_response(&mut out, id, "result");
        reply.write_json(codec, &mut out)?;
        out.push(b'}');
        Ok(json(StatusCode::OK, out.finish()?))
    }

    fn write_stream<A: ReplyMessage>(
        &mut self,
        codec: &'static dyn Codec,
        events: Events<A>,
        settings: &BindingSettings,
        shutdown: &CancellationToken,
    ) -> Response<Body> {
        let Id::Text(id) = &self.id else { return no_content() };
        let framing = Framing { protocol: self.protocol, codec, id: id.clone() };
        sse::response(events, framing, settings, shutdown)
    }

    fn write_error(&mut self, codec: &'static dyn Codec, error: &Error) -> Response<Body> {
        let id: &[u8] = match &self.id {
            Id::Notification => return no_content(),
            Id::Unknown => b"null",
            Id::Text(id) => id,
        };
        error_response(self.protocol, codec, id, error)
    }
}

fn error_response(protocol: &Protocol, codec: &dyn Codec, id: &[u8], error: &Error) -> Response<Body> {
    let mut out = Vec::new();
    write_error_response(&mut out, protocol, codec, id, error);
    let kind = error.kind();
    let status = if kind.jsonrpc_keeps_http_status {
        StatusCode::from_u16(kind.http).unwrap_or_default()
    } else {
        StatusCode::OK
    };
    let mut response = json(status, out);
    error.add_headers(response.headers_mut());
    response
}

/// Writes a response up to the value of its member `result` or `error`.
fn open_response(out: &mut Vec<u8>, id: &[u8], member: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id);
    out.extend_from_slice(b",\"");
    out.extend_from_slice(member.as_bytes());
    out.extend_from_slice(b"\":");
}

fn write_error_response(out: &mut Vec<u8>, protocol: &Protocol, codec: &dyn Codec, id: &[u8], error: &Error) {
    open_response(out, id, "error");
    codec.write_jsonrpc_error(protocol, error, out);
    out.push(b'}');
}

fn json(status: StatusCode, body: impl Into<Pieces>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Events and errors as whole JSON-RPC responses.
struct Framing {
    protocol: &'static Protocol,
    codec: &'static dyn Codec,
    id: Bytes,
}

impl<A: ReplyMessage> sse::Framing<A> for Framing {
    const ERROR_EVENT: Option<&'static str> = None;

    fn unencoded(&self, reply: &Reply<A>) -> usize {
        reply.unencoded(Some(self.codec))
    }

    fn event(&self, out: &mut Output, reply: &Reply<A>) -> Result<(), Error> {
        open_response(out, &self.id, "result");
        reply.write_json(self.codec, out)?;
        out.push(b'}');
        Ok(())
    }

    fn error(&self, out: &mut Vec<u8>, error: &Error) {
        write_error_response(out, self.protocol, self.codec, &self.id, error);
    }
}
