//! A service that says what it was asked, behind a real port, and clients that send bytes as they are told.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tricord::internals::server::{Anonymous, Builder, Server};
use tricord::protocol::TASK_NOT_FOUND;
use tricord::schema::*;
use tricord_bindings::wkt::Empty;
use tricord_bindings::{Authenticator, Binding, Encoded, Error, EventId, Events, Reply};

/// A call whose agent, a name, is known.
pub(crate) type Call = tricord_bindings::Call<Arc<String>>;

/// What a handler was called with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) wire: Binding,
    pub(crate) rpc: &'static str,
    pub(crate) agent: String,
    pub(crate) owner: String,
    /// The task's id, or the message's text.
    pub(crate) about: String,
    pub(crate) last_event_id: Option<String>,
}

/// Serves the agents `""` and `t1`. What it answers depends on the id or text that it is asked about.
#[derive(Default)]
pub(crate) struct Dummy {
    seen: Mutex<Vec<Seen>>,
}

impl Dummy {
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn note(&self, call: &Call, about: &str) {
        let (wire, rpc, agent) = (call.binding, call.rpc.name, call.agent.to_string());
        let last_event_id = call.last_event_id.clone();
        let owner = call.principal.owner().to_string();
        self.seen.lock().unwrap().push(Seen { wire, rpc, agent, owner, about: about.to_owned(), last_event_id });
    }

    async fn task(&self, call: Call, about: &str) -> Result<Reply<Task>, Error> {
        self.note(&call, about);
        match about {
            "missing" => Err(Error::new(&TASK_NOT_FOUND, "no such task")),
            "busy" => Err(Error::unavailable("busy", Duration::from_millis(1500))),
            "panic" => panic!("as asked"),
            "never" => pending().await,
            "shared" => Ok(Reply::shared(Arc::new(Encoded::new(task(about))))),
            _ => Ok(task(about).into()),
        }
    }

    async fn events(&self, call: Call, about: &str) -> Result<Events<StreamResponse>, Error> {
        self.task(call, about).await?;
        let event = |seq: u64, id: &str| {
            let payload = Some(stream_response::Payload::Task(task(id)));
            let message = Arc::new(Encoded::new(StreamResponse { payload }));
            Ok(Reply::event(message, EventId { generation: 1, seq }))
        };
        let first = event(1, about);
        Ok(match about {
            "fails" => Events::new(futures::stream::iter([first, Err(Error::new(&TASK_NOT_FOUND, "gone"))])),
            "waits" => Events::new(futures::stream::iter([first]).chain(futures::stream::pending())),
            "many" => Events::new(futures::stream::iter((1..=1000).map(move |seq| event(seq, "many")))),
            _ => Events::new(futures::stream::iter([first, event(2, "second")])),
        })
    }
}

pub(crate) fn task(id: &str) -> Task {
    let status = TaskStatus { state: TaskState::Working.into(), ..TaskStatus::default() };
    Task { id: id.to_owned(), status: Some(status), ..Task::default() }
}

fn text(request: &SendMessageRequest) -> &str {
    match request.message.as_ref().and_then(|m| m.parts.first()).and_then(|p| p.content.as_ref()) {
        Some(part::Content::Text(text)) => text,
        _ => "",
    }
}

impl A2aService for Dummy {
    type Agent = String;

    fn authorize(&self, call: &mut tricord_bindings::Call, scope: &str) -> Result<Arc<String>, Error> {
        if !matches!(scope, "" | "t1") {
            return Err(Error::invalid("tenant", "no such agent"));
        }
        call.extensions.retain(|uri| uri.starts_with("known"));
        Ok(Arc::new(scope.to_owned()))
    }

    async fn send_message(&self, call: Call, request: SendMessageRequest) -> Result<Reply<SendMessageResponse>, Error> {
        let Reply::Owned(task) = self.task(call, text(&request)).await? else { unreachable!() };
        Ok(SendMessageResponse { payload: Some(send_message_response::Payload::Task(task)) }.into())
    }

    async fn send_streaming_message(
        &self,
        call: Call,
        request: SendMessageRequest,
    ) -> Result<Events<StreamResponse>, Error> {
        self.events(call, text(&request)).await
    }

    async fn get_task(&self, call: Call, request: GetTaskRequest) -> Result<Reply<Task>, Error> {
        self.task(call, &request.id).await
    }

    async fn list_tasks(&self, call: Call, request: ListTasksRequest) -> Result<Reply<ListTasksResponse>, Error> {
        self.note(&call, &request.context_id);
        let total_size = request.status_timestamp_after.map_or(0, |at| i32::try_from(at.seconds).unwrap());
        Ok(ListTasksResponse { page_size: request.page_size.unwrap_or(50), total_size, ..Default::default() }.into())
    }

    async fn cancel_task(&self, call: Call, request: CancelTaskRequest) -> Result<Reply<Task>, Error> {
        self.task(call, &request.id).await
    }

    async fn subscribe_to_task(
        &self,
        call: Call,
        request: SubscribeToTaskRequest,
    ) -> Result<Events<StreamResponse>, Error> {
        self.events(call, &request.id).await
    }

    async fn create_task_push_notification_config(
        &self,
        call: Call,
        request: TaskPushNotificationConfig,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        self.note(&call, &request.task_id);
        Ok(request.into())
    }

    async fn get_task_push_notification_config(
        &self,
        call: Call,
        request: GetTaskPushNotificationConfigRequest,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        self.note(&call, &request.task_id);
        Ok(TaskPushNotificationConfig { id: request.id, url: "http://x".into(), ..Default::default() }.into())
    }

    async fn list_task_push_notification_configs(
        &self,
        call: Call,
        request: ListTaskPushNotificationConfigsRequest,
    ) -> Result<Reply<ListTaskPushNotificationConfigsResponse>, Error> {
        self.note(&call, &request.task_id);
        Ok(ListTaskPushNotificationConfigsResponse::default().into())
    }

    async fn get_extended_agent_card(
        &self,
        call: Call,
        _: GetExtendedAgentCardRequest,
    ) -> Result<Reply<AgentCard>, Error> {
        self.note(&call, "");
        Ok(AgentCard::default().into())
    }

    async fn delete_task_push_notification_config(
        &self,
        call: Call,
        request: DeleteTaskPushNotificationConfigRequest,
    ) -> Result<Reply<Empty>, Error> {
        self.note(&call, &request.task_id);
        Ok(Empty {}.into())
    }
}

/// A running server, and what it is asked.
pub(crate) struct Running {
    pub(crate) at: SocketAddr,
    pub(crate) dummy: Arc<Dummy>,
    pub(crate) server: Server<Dummy>,
}

pub(crate) async fn start() -> Running {
    start_with(|builder| builder).await
}

pub(crate) async fn start_with(change: impl FnOnce(Builder<Dummy>) -> Builder<Dummy>) -> Running {
    serve(change, Anonymous).await
}

/// Serves callers that this authenticator accepts.
pub(crate) async fn start_as(authenticator: impl Authenticator) -> Running {
    serve(|builder| builder, authenticator).await
}

/// Serves a changed server to callers that this authenticator accepts.
pub(crate) async fn serve(
    change: impl FnOnce(Builder<Dummy>) -> Builder<Dummy>,
    authenticator: impl Authenticator,
) -> Running {
    let dummy = Arc::new(Dummy::default());
    let server = change(Server::builder(dummy.clone())).build(authenticator).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, None).await });
    Running { at, dummy, server }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        Self { status: head.status, headers: head.headers, trailers, body: body.to_bytes() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    /// The gRPC status, from the trailers or, where nothing was sent, from the headers.
    #[track_caller]
    pub(crate) fn grpc_status(&self) -> i32 {
        let status = self.trailers.get("grpc-status").or(self.headers.get("grpc-status"));
        status.unwrap_or_else(|| panic!("no grpc-status: {self:?}")).to_str().unwrap().parse().unwrap()
    }

    pub(crate) fn status_details(&self) -> tricord_bindings::details::Status {
        let found = self.trailers.get("grpc-status-details-bin").or(self.headers.get("grpc-status-details-bin"));
        let text = found.map(|value| value.as_bytes()).unwrap_or_default();
        let bytes = base64_simd::STANDARD_NO_PAD.decode_to_vec(text).unwrap();
        tricord_bindings::details::Status::decode(bytes.as_slice()).unwrap()
    }

    /// The messages of a gRPC answer.
    pub(crate) fn messages<M: prost::Message + Default>(&self) -> Vec<M> {
        let mut rest = self.body.clone();
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
            messages.push(M::decode(&rest[5..5 + length]).unwrap());
            rest = rest.slice(5 + length..);
        }
        messages
    }
}

impl Running {
    /// The clients of another server, at this address.
    pub(crate) fn at(at: SocketAddr) -> Self {
        let dummy = Arc::new(Dummy::default());
        let server = Server::builder(dummy.clone()).build(Anonymous).unwrap();
        Self { at, dummy, server }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// Sends one HTTP/1.1 request with the current version's header.
    pub(crate) async fn http(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Answer::read(self.open(verb, path, headers, body).await).await
    }

    /// The same, with the answer's body still to come.
    pub(crate) async fn open(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(verb).uri(path).header("host", self.at.to_string());
        if !headers.iter().any(|(name, _)| *name == "a2a-version") {
            request = request.header("a2a-version", "1.0");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    }

    /// Sends one JSON body as `application/json`.
    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.http("POST", path, &[("content-type", "application/json")], body).await
    }

    /// Calls a JSON-RPC method at `/`.
    pub(crate) async fn rpc(&self, method: &str, params: Value) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post("/", body.to_string()).await
    }

    /// Sends one gRPC message over HTTP/2 without TLS.
    pub(crate) async fn grpc(&self, path: &str, headers: &[(&str, &str)], message: &impl prost::Message) -> Answer {
        self.grpc_bytes(path, headers, framed(&message.encode_to_vec())).await
    }

    /// The same, with any bytes for a body.
    pub(crate) async fn grpc_bytes(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Answer {
        Answer::read(self.grpc_open(path, headers, body).await).await
    }

    pub(crate) async fn grpc_open(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Response<Incoming> {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method("POST").uri(format!("http://{}{path}", self.at));
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers"), ("a2a-version", "1.0")] {
            if !headers.iter().any(|(given, _)| *given == name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap()
    }
}

/// A message in a gRPC frame.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

/// A request for SendMessage with this text.
pub(crate) fn message(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// The same as protobuf.
pub(crate) fn message_proto(text: &str) -> SendMessageRequest {
    tricord_bindings::proto_json::decode(message(text).to_string().as_bytes()).unwrap()
}

/// The gRPC path of an rpc.
pub(crate) fn grpc_path(rpc: &str) -> String {
    format!("/lf.a2a.v1.A2AService/{rpc}")
}
