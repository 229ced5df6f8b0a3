//! JSON-RPC 2.0 over HTTP POST: request in, reply out, error out, stream out.
//!
//! jsonrpsee's `RpcModule` is the table of methods. The envelope is ours: ids go back as they came, and neither the
//! parameters nor the answers pass through a JSON value in between. Both travel in one `Exchange` that a method's
//! callback finds in its extensions.

pub(crate) mod envelope;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Extensions, HeaderMap, Response, StatusCode};
use jsonrpsee::ConnectionId;
use jsonrpsee::RpcModule;
use jsonrpsee::core::server::{AsyncMethod, MethodCallback, MethodResponse};
use jsonrpsee::types::{Id, Params};
use serde::Serialize;

use crate::body::{Body, BudgetPermit, discard};
use crate::call::{Binding, Call, Principal, version};
use crate::details::{Detail, details};
use crate::error::{Error, Protocol, kinds};
use crate::host::{AuthorizedCall, Host, Request, bind, scope_in_json};
use crate::http_json::is_json;
use crate::reply::{Events, Reply};
use crate::{proto_json, sse};
use envelope::Envelope;

/// The methods of a service, by their names.
pub struct JsonRpc<S> {
    host: Arc<Host<S>>,
    methods: RpcModule<()>,
}

impl<S> std::fmt::Debug for JsonRpc<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.methods.method_names()).finish()
    }
}

impl<S: Send + Sync + 'static> JsonRpc<S> {
    /// No methods yet.
    pub fn new(host: Arc<Host<S>>) -> Self {
        Self { host, methods: RpcModule::new(()) }
    }

    /// Adds an rpc that answers once.
    pub fn unary<Q, A, F, Fut>(&mut self, name: &'static str, handler: F)
    where
        Q: Request,
        A: Serialize + Send + Sync,
        F: Fn(Arc<S>, Call, Q) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply<A>, Error>> + Send,
    {
        self.method(name, move |host, asked| async move {
            let id = asked.id.clone();
            let (authorized, call, request) = host.ask(asked)?;
            let reply = host.run(&authorized, handler(host.service.clone(), call, request)).await;
            Ok((authorized, reply.and_then(|reply| reply_out(id.as_deref(), &reply))))
        });
    }

    /// Adds an rpc that answers with a stream.
    pub fn streaming<Q, A, F, Fut>(&mut self, name: &'static str, handler: F)
    where
        Q: Request,
        A: Serialize + Send + Sync + 'static,
        F: Fn(Arc<S>, Call, Q) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<Events<A>, Error>> + Send,
    {
        self.method(name, move |host, asked| async move {
            let id = asked.id.clone();
            let (authorized, call, request) = host.ask(asked)?;
            let events = host.run(&authorized, handler(host.service.clone(), call, request)).await;
            Ok((authorized, events.map(|events| stream_out(&host, id, events))))
        });
    }

    fn method<F, Fut>(&mut self, name: &'static str, handler: F)
    where
        F: Fn(Arc<Host<S>>, PendingCall) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<(AuthorizedCall, Answer), Error>> + Send,
    {
        let host = self.host.clone();
        let callback = move |_: Id<'_>, _: Params<'_>, _: ConnectionId, _: usize, mut extensions: Extensions| {
            let (host, exchange) = (host.clone(), extensions.remove::<Exchange>());
            let done = async move {
                if let Some((exchange, asked)) =
                    exchange.and_then(|exchange| exchange.take().map(|asked| (exchange, asked)))
                {
                    exchange.give(host.protocol, handler(host.clone(), asked).await);
                }
                MethodResponse::notification()
            };
            Box::pin(done) as futures::future::BoxFuture<'static, MethodResponse>
        };
        let inserted = self.methods.verify_and_insert(name, MethodCallback::Async(Arc::new(callback)));
        assert!(inserted.is_ok(), "the method {name} is registered twice");
    }

    /// Answers a POST. `scope` is what the path says, if it says something.
    pub async fn serve<B>(&self, head: Parts, mut body: B, scope: Option<&str>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    {
        match self.request_in(&head, &mut body).await {
            Ok((principal, bytes, held)) => {
                let response = self.answer(&head, principal, &bytes, scope).await;
                drop(held);
                response
            }
            Err(error) => {
                discard(&head.headers, body);
                self.refused_out(None, &error)
            }
        }
    }

    /// Judges the headers, then reads the body.
    async fn request_in<B>(&self, head: &Parts, body: &mut B) -> Result<(Principal, Bytes, BudgetPermit), Error>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let principal = self.host.authenticate(head)?;
        self.host.settings.body.announced(&head.headers)?;
        media_type(self.host.protocol, &head.headers)?;
        let (bytes, held) = self.host.settings.body.read(body).await?;
        Ok((principal, bytes, held))
    }

    async fn answer(&self, head: &Parts, principal: Principal, body: &Bytes, scope: Option<&str>) -> Response<Body> {
        let envelope = match Envelope::read(body) {
            Ok(envelope) => envelope,
            Err((id, error)) => return self.refused_out(id, &error),
        };
        let id = envelope.id.map(|id| body.slice_ref(id.as_bytes()));
        let response = match self.call(head, principal, body, &envelope, id.clone(), scope).await {
            Ok(response) => response,
            Err(error) => error_out(self.host.protocol, id.as_deref(), &error),
        };
        // A request without id is a notification: it was carried out, and nothing is said about it.
        if id.is_some() { response } else { no_content() }
    }

    async fn call(
        &self,
        head: &Parts,
        principal: Principal,
        body: &Bytes,
        envelope: &Envelope<'_>,
        id: Option<Bytes>,
        scope: Option<&str>,
    ) -> Result<Response<Body>, Error> {
        let found = self.find(head, &envelope.method);
        let (version, rpc, callback) = found.inspect_err(|error| self.host.count_refused(Binding::JsonRpc, error))?;
        let call = Call::read(self.host.protocol, &head.headers, principal, version, Binding::JsonRpc, rpc);
        let params = envelope.params.map_or(Bytes::from_static(b"{}"), |raw| body.slice_ref(raw.as_bytes()));
        let exchange = Exchange::new(PendingCall { call, params, id, scope: scope.map(str::to_owned) });
        let mut extensions = Extensions::new();
        extensions.insert(exchange.clone());
        callback(Id::Null, Params::new(None), ConnectionId(0), usize::MAX, extensions).await;
        exchange.answer()
    }

    /// The version asked for, and the method.
    fn find(&self, head: &Parts, method: &str) -> Result<(&'static str, &'static str, &AsyncMethod<'static>), Error> {
        let version = version(self.host.protocol, &head.headers, head.uri.query())?;
        match self.methods.method_with_name(method) {
            Some((rpc, MethodCallback::Async(callback))) => Ok((version, rpc, callback)),
            _ => {
                let method: String = method.chars().take(64).collect();
                Err(Error::new(&kinds::METHOD_NOT_FOUND, format!("no method {method:?}")))
            }
        }
    }

    /// An error that was found before a method was asked.
    fn refused_out(&self, id: Option<&[u8]>, error: &Error) -> Response<Body> {
        self.host.count_refused(Binding::JsonRpc, error);
        error_out(self.host.protocol, id, error)
    }
}

impl<S: Send + Sync + 'static> Host<S> {
    fn ask<Q: Request>(&self, asked: PendingCall) -> Result<(AuthorizedCall, Call, Q), Error> {
        let PendingCall { mut call, params, scope, .. } = asked;
        let request = match params.first() {
            Some(b'{') => proto_json::decode::<Q>(&params),
            Some(b'[') => Err(Error::new(&kinds::INVALID_PARAMS, "params are given by name, as an object")),
            _ => Err(Error::new(&kinds::INVALID_PARAMS, "params must be an object")),
        };
        let request = match &scope {
            Some(scope) => request.and_then(|mut q| bind(q.scope_mut(), Q::SCOPE.json, scope).map(|()| q)),
            None => request,
        };
        let lenient = || scope.unwrap_or_else(|| scope_in_json(&Q::SCOPE, &params));
        let (authorized, request) = self.authorize(&mut call, request, lenient)?;
        Ok((authorized, call, request))
    }
}

/// Any JSON media type will do; one that is not JSON, or not even a media type, is an error.
fn media_type(protocol: &Protocol, headers: &HeaderMap) -> Result<(), Error> {
    match headers.get(CONTENT_TYPE) {
        Some(found) if !is_json(protocol, found) => {
            Err(Error::new(protocol.content_type_not_supported, "the request must be application/json"))
        }
        _ => Ok(()),
    }
}

/// A call on its way to its method.
struct PendingCall {
    call: Call,
    params: Bytes,
    /// As the client wrote it; `None` for a notification.
    id: Option<Bytes>,
    scope: Option<String>,
}

type Answer = Result<Response<Body>, Error>;

/// Where a method finds what it is asked, and leaves its answer.
#[derive(Clone)]
struct Exchange(Arc<Mutex<Stage>>);

enum Stage {
    PendingCall(PendingCall),
    Taken,
    Answered(Answer),
}

impl Exchange {
    fn new(asked: PendingCall) -> Self {
        Self(Arc::new(Mutex::new(Stage::PendingCall(asked))))
    }

    fn swap(&self, stage: Stage) -> Stage {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), stage)
    }

    fn take(&self) -> Option<PendingCall> {
        match self.swap(Stage::Taken) {
            Stage::PendingCall(asked) => Some(asked),
            _ => None,
        }
    }

    fn give(&self, protocol: &Protocol, answer: Result<(AuthorizedCall, Answer), Error>) {
        let answer = answer.and_then(|(authorized, answer)| {
            let mut response = answer?;
            if let Some(extensions) = authorized.extensions {
                response.headers_mut().insert(protocol.extensions_header, extensions);
            }
            Ok(response)
        });
        self.swap(Stage::Answered(answer));
    }

    fn answer(&self) -> Answer {
        match self.swap(Stage::Taken) {
            Stage::Answered(answer) => answer,
            _ => Err(Error::internal()),
        }
    }
}

fn open(id: &[u8], member: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id);
    out.extend_from_slice(member.as_bytes());
    out
}

fn reply_out<A: Serialize>(id: Option<&[u8]>, reply: &Reply<A>) -> Answer {
    let Some(id) = id else { return Ok(no_content()) };
    let mut out = open(id, ",\"result\":");
    reply.write_json(&mut out)?;
    out.push(b'}');
    Ok(json(StatusCode::OK, out))
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
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

fn error_out(protocol: &Protocol, id: Option<&[u8]>, error: &Error) -> Response<Body> {
    let mut out = Vec::new();
    write_error(&mut out, protocol, id.unwrap_or(b"null"), error);
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

fn write_error(out: &mut Vec<u8>, protocol: &Protocol, id: &[u8], error: &Error) {
    #[derive(Serialize)]
    struct ErrorObject<'a> {
        code: i32,
        message: &'a str,
        data: Vec<Detail>,
    }
    let object = ErrorObject { code: error.kind().jsonrpc, message: error.message(), data: details(error, protocol) };
    out.extend_from_slice(&open(id, ",\"error\":"));
    // Strings and numbers into a Vec: nothing here can fail.
    let _ = serde_json::to_writer(&mut *out, &object);
    out.push(b'}');
}

fn stream_out<S: Send + Sync + 'static, A: Serialize + Send + Sync + 'static>(
    host: &Host<S>,
    id: Option<Bytes>,
    events: Events<A>,
) -> Response<Body> {
    let Some(id) = id else { return no_content() };
    let framing = Framing { protocol: host.protocol, id };
    sse::response(events, framing, host.settings.ping, host.streams_end())
}

struct Framing {
    protocol: &'static Protocol,
    id: Bytes,
}

impl<A: Serialize> sse::Framing<A> for Framing {
    const ERROR_EVENT: Option<&'static str> = None;

    fn event(&self, out: &mut Vec<u8>, reply: &Reply<A>) -> Result<(), Error> {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(&self.id);
        out.extend_from_slice(b",\"result\":");
        reply.write_json(out)?;
        out.push(b'}');
        Ok(())
    }

    fn error(&self, out: &mut Vec<u8>, error: &Error) {
        write_error(out, self.protocol, &self.id, error);
    }
}
