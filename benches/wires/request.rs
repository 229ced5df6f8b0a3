//! Requests that are built once and sent many times, with a new message id each time.

use std::net::SocketAddr;

use memchr::memmem;
use prost::Message as _;
use tricord::schema::part::Content;
use tricord::schema::{GetTaskRequest, Message, Part, Role, SendMessageRequest, SubscribeToTaskRequest};
use uuid::Uuid;

/// The form of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wire {
    JsonRpc,
    HttpJson,
    Grpc,
}

impl Wire {
    pub const ALL: [Self; 3] = [Self::JsonRpc, Self::HttpJson, Self::Grpc];

    pub fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSON-RPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "gRPC",
        }
    }
}

/// The call to make.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A blocking SendMessage with this text.
    Send(String),
    /// SendStreamingMessage with this text.
    Stream(String),
    /// GetTask of this task.
    Get(String),
    /// SubscribeToTask of this task.
    Subscribe(String),
}

impl Ask {
    /// Returns the name of the rpc.
    pub fn rpc(&self) -> &'static str {
        match self {
            Self::Send(_) => "SendMessage",
            Self::Stream(_) => "SendStreamingMessage",
            Self::Get(_) => "GetTask",
            Self::Subscribe(_) => "SubscribeToTask",
        }
    }

    fn json(&self, id: &str) -> String {
        match self {
            Self::Send(text) | Self::Stream(text) => {
                let request = serde_json::to_string(&message(id, text));
                request.expect("a request can be written as JSON")
            }
            Self::Get(task) | Self::Subscribe(task) => format!(r#"{{"id":"{task}"}}"#),
        }
    }

    fn protobuf(&self, id: &str) -> Vec<u8> {
        match self {
            Self::Send(text) | Self::Stream(text) => message(id, text).encode_to_vec(),
            Self::Get(task) => GetTaskRequest { id: task.clone(), ..GetTaskRequest::default() }.encode_to_vec(),
            Self::Subscribe(task) => {
                SubscribeToTaskRequest { id: task.clone(), ..SubscribeToTaskRequest::default() }.encode_to_vec()
            }
        }
    }
}

fn message(id: &str, text: &str) -> SendMessageRequest {
    let content = Some(Content::Text(text.to_owned()));
    let part = Part { content, media_type: "text/plain".into(), ..Part::default() };
    let message = Message { message_id: id.into(), role: Role::User.into(), parts: vec![part], ..Message::default() };
    SendMessageRequest { message: Some(message), ..SendMessageRequest::default() }
}

/// A request as bytes.
pub struct Prepared {
    bytes: Vec<u8>,
    /// The position of the message id.
    id: Option<usize>,
}

impl Prepared {
    /// Builds a whole HTTP/1.1 request, or the message of a gRPC request with its prefix.
    pub fn new(wire: Wire, server: SocketAddr, ask: &Ask) -> Self {
        let id = Uuid::now_v7().to_string();
        let bytes = match wire {
            Wire::Grpc => prefixed(&ask.protobuf(&id)),
            Wire::JsonRpc => {
                let (method, params) = (ask.rpc(), ask.json(&id));
                let body = format!(r#"{{"jsonrpc":"2.0","id":"1","method":"{method}","params":{params}}}"#);
                http(server, "POST /", ask, &body)
            }
            Wire::HttpJson => match ask {
                Ask::Send(_) => http(server, "POST /message:send", ask, &ask.json(&id)),
                Ask::Stream(_) => http(server, "POST /message:stream", ask, &ask.json(&id)),
                Ask::Get(task) => http(server, &format!("GET /tasks/{task}"), ask, ""),
                Ask::Subscribe(task) => http(server, &format!("GET /tasks/{task}:subscribe"), ask, ""),
            },
        };
        let id = memmem::find(&bytes, id.as_bytes());
        Self { bytes, id }
    }

    /// Returns the request with a new message id.
    pub fn fresh(&mut self) -> &[u8] {
        if let Some(at) = self.id {
            Uuid::now_v7().hyphenated().encode_lower(&mut self.bytes[at..at + 36]);
        }
        &self.bytes
    }
}

fn http(server: SocketAddr, target: &str, ask: &Ask, body: &str) -> Vec<u8> {
    let accept = match ask {
        Ask::Send(_) | Ask::Get(_) => "application/json",
        Ask::Stream(_) | Ask::Subscribe(_) => "text/event-stream",
    };
    let mut head = format!("{target} HTTP/1.1\r\nHost: {server}\r\nAccept: {accept}\r\nA2A-Version: 1.0\r\n");
    if target.starts_with("POST") {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    format!("{head}\r\n{body}").into_bytes()
}

/// Returns an uncompressed gRPC message.
fn prefixed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a request is small");
    [&[0], &length.to_be_bytes()[..], message].concat()
}
