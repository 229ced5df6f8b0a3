//! HTTP+JSON: verbs and paths in, JSON documents and server-sent events out.

mod error;
mod media_type;

use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::authenticator::{Peer, Principal};
use crate::body::{Body, BodyLimits, discard};
use crate::budget::BudgetPermit;
use crate::codec::Codec;
use crate::error::{Error, Protocol, kinds};
use crate::output::Output;
use crate::pipeline::{BindingSettings, CallRecord, Exchange, Pipeline, ReplyMessage, RequestBody, Service};
use crate::query::{HttpRoute, Route};
use crate::reply::{Events, Reply};
use crate::request::{Request, Scope, scope_in_json, scope_in_query, set_from_path};
use crate::weight::Weight;
use crate::{Binding, Rpc, sse};

pub(crate) use error::write_error_document;
use media_type::{accepts_only_streams, answer_type};
pub(crate) use media_type::{check, missing};

/// Answers a request. The first `skip` bytes of its path belong to the caller.
pub async fn serve<S: Service>(
    pipeline: &Pipeline<S>,
    head: Parts,
    peer: &Peer,
    body: impl RequestBody,
    skip: usize,
) -> Response<Body> {
    pipeline.call(&head, peer, body, HttpJson::new(pipeline.protocol(), &head, skip)).await
}

/// Answers a request that is not for the service with an error, as the service would.
pub fn refuse<S: Service>(pipeline: &Pipeline<S>, headers: &HeaderMap, error: &Error) -> Response<Body> {
    pipeline.count_refused(Binding::HttpJson, error);
    let protocol = pipeline.protocol();
    error_response(protocol, protocol.newest(), answer_type(protocol, headers), error)
}

/// One request by HTTP+JSON.
struct HttpJson<'h> {
    protocol: &'static Protocol,
    head: &'h Parts,
    path: &'h str,
    /// The JSON type of the answer.
    media_type: HeaderValue,
    body: Bytes,
    route: Option<HttpRoute<'h>>,
}

impl<'h> HttpJson<'h> {
    fn new(protocol: &'static Protocol, head: &'h Parts, skip: usize) -> Self {
        let path = head.uri.path().get(skip..).unwrap_or_default();
        let media_type = answer_type(protocol, &head.headers);
        Self { protocol, head, path, media_type, body: Bytes::new(), route: None }
    }

    /// Returns whether the method is one whose body is read.
    fn has_body(&self) -> bool {
        matches!(self.head.method, Method::POST | Method::PUT | Method::PATCH)
    }

    fn query(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }
}

impl Exchange for HttpJson<'_> {
    const BINDING: Binding = Binding::HttpJson;

    fn check_head(&self, limits: &BodyLimits) -> Result<(), Error> {
        // The media type counts only if there is a body, which HTTP/2 does not say in the head.
        limits.announced(&self.head.headers)
    }

    async fn read_body(&mut self, body: impl RequestBody, settings: &BindingSettings) -> Result<BudgetPermit, Error> {
        let limits = &settings.body;
        if body.is_end_stream() || !self.has_body() {
            return Ok(BudgetPermit::none(&limits.budget));
        }
        if let Err(error) = check(self.protocol, &self.head.headers) {
            discard(&self.head.headers, body);
            return Err(error);
        }
        let (bytes, permit) = limits.read_or_discard(&self.head.headers, body, 0).await?;
        // Clients cancel without a body, and then without its type. A page could send one of no type without asking first.
        if !bytes.trim_ascii().is_empty() && !self.head.headers.contains_key(CONTENT_TYPE) {
            return Err(missing(self.protocol));
        }
        self.body = bytes;
        Ok(permit)
    }

    fn find_rpc(&mut self, codec: &'static dyn Codec) -> Result<Option<&'static Rpc>, Error> {
        match codec.http_route(&self.head.method, self.path) {
            Route::Rpc(route) => Ok(Some(self.route.insert(route).rpc)),
            Route::NotFound => Ok(None),
            Route::OtherVerbs(allow) => {
                let message = format!("this path answers {allow}");
                Err(Error::new(&kinds::METHOD_NOT_ALLOWED, message).with_allow(allow))
            }
        }
    }

    fn is_rpc(&self) -> bool {
        let mut codecs = self.protocol.codecs.iter();
        codecs.any(|codec| !matches!(codec.http_route(&self.head.method, self.path), Route::NotFound))
    }

    async fn call_other(&mut self, _: &Principal, _: &mut CallRecord) -> Result<Response<Body>, Error> {
        Err(Error::new(&kinds::METHOD_NOT_FOUND, "no such path"))
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn length(&self) -> usize {
        self.body.len()
    }

    fn weigh<Q: Request>(&self) -> Weight {
        Weight::of_json(&self.body)
    }

    fn decode<Q: Request>(&mut self, codec: &'static dyn Codec, rpc: &'static Rpc) -> Result<Q, Error> {
        let mut request = Q::default();
        let Some(route) = &self.route else { return Err(Error::internal()) };
        if route.body {
            match self.body.trim_ascii().first() {
                // Clients cancel without a body.
                None => codec.read_json(rpc, b"{}", &mut request)?,
                Some(b'{') => codec.read_json(rpc, &self.body, &mut request)?,
                Some(_) => return Err(not_an_object(&self.body)),
            }
        } else {
            codec.read_query(rpc, self.query(), &mut request)?;
        }
        for (name, value) in route.variables.iter() {
            if let Some((json, field)) = request.path_field(name) {
                set_from_path(field, json, value)?;
            }
        }
        self.body = Bytes::new();
        Ok(request)
    }

    fn find_scope(&self, scope: &Scope) -> String {
        match &self.route {
            Some(route) if route.variables.get(scope.name).is_some() => {
                route.variables.get(scope.name).unwrap_or_default().to_owned()
            }
            Some(route) if route.body => scope_in_json(scope, &self.body),
            _ => scope_in_query(scope, self.query()),
        }
    }

    fn write_reply<A: ReplyMessage>(
        &mut self,
        codec: &'static dyn Codec,
        reply: Reply<A>,
        settings: &BindingSettings,
    ) -> Result<Response<Body>, Error> {
        let mut out = Output::new(Some(&settings.answers));
        out.reserve(1024);
        reply.write_json(codec, &mut out)?;
        let mut response = Response::new(Body::from(out.finish()?));
        response.headers_mut().insert(CONTENT_TYPE, self.media_type.clone());
        Ok(response)
    }

    fn write_stream<A: ReplyMessage>(
        &mut self,
        codec: &'static dyn Codec,
        events: Events<A>,
        settings: &BindingSettings,
        shutdown: &CancellationToken,
    ) -> Response<Body> {
        let framing = Framing { protocol: self.protocol, codec };
        sse::response(events, framing, settings, shutdown)
    }

    fn write_error(&mut self, codec: &'static dyn Codec, error: &Error) -> Response<Body> {
        // The one answer after which an `EventSource` does not connect again without an error in the browser's console.
        if error.ends_stream() && self.head.method == Method::GET && accepts_only_streams(&self.head.headers) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return response;
        }
        error_response(self.protocol, codec, self.media_type.clone(), error)
    }
}

/// Returns the error of a body that is not a JSON object.
fn not_an_object(body: &[u8]) -> Error {
    let Ok(text) = std::str::from_utf8(body) else {
        return Error::new(&kinds::PARSE_ERROR, "not JSON: the text is not UTF-8");
    };
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Error::invalid("", "the body must be a JSON object"),
        Err(error) => Error::new(&kinds::PARSE_ERROR, format!("not JSON: {error}")),
    }
}

fn error_response(protocol: &Protocol, codec: &dyn Codec, media_type: HeaderValue, error: &Error) -> Response<Body> {
    let mut out = Vec::new();
    codec.write_http_error(protocol, error, &mut out);
    let mut response = Response::new(Body::from(out));
    *response.status_mut() = StatusCode::from_u16(error.kind().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    error.add_headers(response.headers_mut());
    response
}

/// Writes events as plain messages, and errors as the body of an error answer.
struct Framing {
    protocol: &'static Protocol,
    codec: &'static dyn Codec,
}

impl<A: ReplyMessage> sse::Framing<A> for Framing {
    const ERROR_EVENT: Option<&'static str> = Some("error");

    fn unencoded(&self, reply: &Reply<A>) -> usize {
        reply.unencoded(Some(self.codec))
    }

    fn event(&self, out: &mut Output, reply: &Reply<A>) -> Result<(), Error> {
        reply.write_json(self.codec, out)
    }

    fn error(&self, out: &mut Vec<u8>, error: &Error) {
        self.codec.write_http_error(self.protocol, error, out);
    }
}
