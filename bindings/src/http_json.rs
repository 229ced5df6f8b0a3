//! HTTP+JSON: request in, reply out, error out, stream out. Which rpc a verb and path mean is decided by generated code.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde::Serialize;

use crate::body::{Body, BudgetPermit, discard};
use crate::call::{Binding, Call, Principal, version};
use crate::details::{Detail, details};
use crate::error::{Error, Protocol, kinds};
use crate::host::{AuthorizedCall, Host, Request, scope_in_json, scope_in_query};
use crate::query::{self, FromQuery};
use crate::reply::{Events, Reply};
use crate::{proto_json, sse};

/// A request that passed the checks that come before its route.
#[derive(Debug)]
pub struct Exchange<'h, S> {
    host: &'h Arc<Host<S>>,
    head: Parts,
    body: Bytes,
    principal: Principal,
    version: &'static str,
    media_type: HeaderValue,
    _held: Option<BudgetPermit>,
}

impl<'h, S: Send + Sync + 'static> Exchange<'h, S> {
    /// Judges the headers, reads the body where the verb has one, and finds the version.
    ///
    /// # Errors
    /// The whole answer, when a check fails.
    pub async fn request_in<B>(host: &'h Arc<Host<S>>, head: Parts, mut body: B) -> Result<Self, Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    {
        let media_type = answer_type(host.protocol, &head.headers);
        match read(host, &head, &mut body).await {
            Ok((principal, version, body, _held)) => {
                Ok(Self { host, head, body, principal, version, media_type, _held })
            }
            Err(error) => {
                discard(&head.headers, body);
                host.count_refused(Binding::HttpJson, &error);
                Err(error_out(host.protocol, media_type, &error))
            }
        }
    }

    /// The verb.
    pub fn verb(&self) -> &'static str {
        match self.head.method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::DELETE => "DELETE",
            Method::PATCH => "PATCH",
            Method::HEAD => "HEAD",
            _ => "",
        }
    }

    /// The raw path, without its first `skip` bytes.
    pub fn path(&self, skip: usize) -> &str {
        self.head.uri.path().get(skip..).unwrap_or_default()
    }

    /// A request of `rpc` whose fields stand in the query; `bind` sets those that the path holds, `scope` is one of them.
    ///
    /// # Errors
    /// What the service's admission or the parameters are refused for.
    pub fn query<Q: Request + FromQuery>(
        &self,
        rpc: &'static str,
        scope: Option<&str>,
        bind: impl FnOnce(&mut Q) -> Result<(), Error>,
    ) -> Result<(AuthorizedCall, Call, Q), Error> {
        let mut request = Q::default();
        let query = self.head.uri.query().unwrap_or_default();
        let read = query::read(&mut request, query).and_then(|()| bind(&mut request));
        let asked = || scope.map_or_else(|| scope_in_query(&Q::SCOPE, query), str::to_owned);
        self.authorize(rpc, read.map(|()| request), asked)
    }

    /// A request of `rpc` whose fields stand in the body; `bind` sets those that the path holds, `scope` is one of them.
    ///
    /// # Errors
    /// What the service's admission or the parameters are refused for.
    pub fn body<Q: Request>(
        &self,
        rpc: &'static str,
        scope: Option<&str>,
        bind: impl FnOnce(&mut Q) -> Result<(), Error>,
    ) -> Result<(AuthorizedCall, Call, Q), Error> {
        let read = match self.body.trim_ascii().first() {
            // Clients cancel without a body.
            None => proto_json::decode::<Q>(b"{}"),
            Some(b'{') => proto_json::decode::<Q>(&self.body),
            Some(_) => Err(not_an_object(&self.body)),
        };
        let read = read.and_then(|mut request| bind(&mut request).map(|()| request));
        self.authorize(rpc, read, || scope.map_or_else(|| scope_in_json(&Q::SCOPE, &self.body), str::to_owned))
    }

    fn authorize<Q: Request>(
        &self,
        rpc: &'static str,
        request: Result<Q, Error>,
        scope: impl FnOnce() -> String,
    ) -> Result<(AuthorizedCall, Call, Q), Error> {
        let Self { host, head, principal, version, .. } = self;
        let mut call = Call::read(host.protocol, &head.headers, principal.clone(), version, Binding::HttpJson, rpc);
        let (authorized, request) = host.authorize(&mut call, request, scope)?;
        Ok((authorized, call, request))
    }

    /// Waits for the answer and writes it.
    ///
    /// # Errors
    /// The handler's, or that of a deadline that passed.
    pub async fn reply_out<A: Serialize>(
        &self,
        authorized: AuthorizedCall,
        handler: impl Future<Output = Result<Reply<A>, Error>>,
    ) -> Result<Response<Body>, Error> {
        let reply = self.host.run(&authorized, handler).await?;
        let mut out = Vec::with_capacity(1024);
        reply.write_json(&mut out)?;
        let mut response = Response::new(Body::from(out));
        response.headers_mut().insert(CONTENT_TYPE, self.media_type.clone());
        self.tell_extensions(authorized, &mut response);
        Ok(response)
    }

    /// The answer to a request that no rule fits.
    pub fn not_found(&self) -> Error {
        self.refused(Error::new(&kinds::METHOD_NOT_FOUND, "no such path"))
    }

    /// The answer to a request whose path fits rules of other verbs.
    pub fn not_allowed(&self, allow: &'static str) -> Error {
        self.refused(Error::new(&kinds::METHOD_NOT_ALLOWED, format!("this path answers {allow}")).with_allow(allow))
    }

    fn refused(&self, error: Error) -> Error {
        self.host.count_refused(Binding::HttpJson, &error);
        error
    }

    /// Writes an error.
    pub fn error_out(&self, error: &Error) -> Response<Body> {
        error_out(self.host.protocol, self.media_type.clone(), error)
    }

    /// Waits for the stream to begin and writes it as it comes.
    ///
    /// # Errors
    /// The handler's, before the stream has begun.
    pub async fn stream_out<A: Serialize + Send + Sync + 'static>(
        &self,
        authorized: AuthorizedCall,
        handler: impl Future<Output = Result<Events<A>, Error>>,
    ) -> Result<Response<Body>, Error> {
        let events = self.host.run(&authorized, handler).await?;
        let framing = Framing { protocol: self.host.protocol };
        let mut response = sse::response(events, framing, self.host.settings.ping, self.host.streams_end());
        self.tell_extensions(authorized, &mut response);
        Ok(response)
    }

    fn tell_extensions(&self, authorized: AuthorizedCall, response: &mut Response<Body>) {
        if let Some(extensions) = authorized.extensions {
            response.headers_mut().insert(self.host.protocol.extensions_header, extensions);
        }
    }
}

/// Answers a request that is not for the service with an error, as the service would.
pub fn refuse<S: Send + Sync + 'static>(host: &Host<S>, headers: &HeaderMap, error: &Error) -> Response<Body> {
    host.count_refused(Binding::HttpJson, error);
    error_out(host.protocol, answer_type(host.protocol, headers), error)
}

type Received = (Principal, &'static str, Bytes, Option<BudgetPermit>);

async fn read<S, B>(host: &Host<S>, head: &Parts, body: &mut B) -> Result<Received, Error>
where
    S: Send + Sync + 'static,
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let principal = host.authenticate(head)?;
    host.settings.body.announced(&head.headers)?;
    let (bytes, held) = if body.is_end_stream() || !matches!(head.method, Method::POST | Method::PUT | Method::PATCH) {
        (Bytes::new(), None)
    } else {
        if head.headers.get(CONTENT_TYPE).is_some_and(|found| !is_json(host.protocol, found)) {
            let message = format!("the request must be {} or application/json", host.protocol.media_type);
            return Err(Error::new(host.protocol.content_type_not_supported, message));
        }
        let (bytes, held) = host.settings.body.read(body).await?;
        (bytes, Some(held))
    };
    Ok((principal, version(host.protocol, &head.headers, head.uri.query())?, bytes, held))
}

/// Whether a `Content-Type` is one of the protocol's JSON types, whatever its parameters.
pub(crate) fn is_json(protocol: &Protocol, content_type: &HeaderValue) -> bool {
    let found = content_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    found.eq_ignore_ascii_case("application/json") || found.eq_ignore_ascii_case(protocol.media_type)
}

/// The JSON type that this client reads: the protocol's own, unless it speaks only of plain JSON or of streams.
fn answer_type(protocol: &'static Protocol, headers: &HeaderMap) -> HeaderValue {
    let lines = || headers.get_all(ACCEPT).iter().chain(headers.get(CONTENT_TYPE)).filter_map(|v| v.to_str().ok());
    let named = |media_type: &str| {
        let mut types =
            lines().flat_map(|line| line.split(',')).map(|t| t.split(';').next().unwrap_or_default().trim());
        types.any(|t| t.eq_ignore_ascii_case(media_type))
    };
    let only_streams = || {
        let mut accepted = headers.get_all(ACCEPT).iter().peekable();
        accepted.peek().is_some()
            && accepted.all(|line| {
                let mut types = line.to_str().unwrap_or_default().split(',');
                types.all(|t| t.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream"))
            })
    };
    if !named(protocol.media_type) && (named("application/json") || only_streams()) {
        HeaderValue::from_static("application/json")
    } else {
        HeaderValue::from_static(protocol.media_type)
    }
}

fn not_an_object(body: &[u8]) -> Error {
    let Ok(text) = std::str::from_utf8(body) else {
        return Error::new(&kinds::PARSE_ERROR, "not JSON: the text is not UTF-8");
    };
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Error::invalid("", "the body must be a JSON object"),
        Err(error) => Error::new(&kinds::PARSE_ERROR, format!("not JSON: {error}")),
    }
}

fn error_out(protocol: &Protocol, media_type: HeaderValue, error: &Error) -> Response<Body> {
    let mut out = Vec::new();
    write_error(&mut out, protocol, error);
    let mut response = Response::new(Body::from(out));
    *response.status_mut() = StatusCode::from_u16(error.kind().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    error.add_headers(response.headers_mut());
    response
}

fn write_error(out: &mut Vec<u8>, protocol: &Protocol, error: &Error) {
    #[derive(Serialize)]
    struct Document<'a> {
        error: Status<'a>,
    }
    #[derive(Serialize)]
    struct Status<'a> {
        code: u16,
        status: &'static str,
        message: &'a str,
        details: Vec<Detail>,
    }
    let kind = error.kind();
    let status = Status {
        code: kind.http,
        status: status_name(kind.grpc),
        message: error.message(),
        details: details(error, protocol),
    };
    // Strings and numbers into a Vec: nothing here can fail.
    let _ = serde_json::to_writer(out, &Document { error: status });
}

/// The name of a gRPC code as `google.rpc.Status` writes it in JSON.
fn status_name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

struct Framing {
    protocol: &'static Protocol,
}

impl<A: Serialize> sse::Framing<A> for Framing {
    const ERROR_EVENT: Option<&'static str> = Some("error");

    fn event(&self, out: &mut Vec<u8>, reply: &Reply<A>) -> Result<(), Error> {
        reply.write_json(out)
    }

    fn error(&self, out: &mut Vec<u8>, error: &Error) {
        write_error(out, self.protocol, error);
    }
}
