//! gRPC-Web over HTTP/1.1, byte by byte: no HTTP/2, no trailers of HTTP, in binary and in base64.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tricord::schema::stream_response::Payload;
use tricord::schema::{GetTaskRequest, SendMessageRequest, SendMessageResponse, StreamResponse};

use crate::raw::{Reply, http, open};
use crate::support::{Server, artifact_text, request, task_of};

const BINARY: &str = "application/grpc-web+proto";
const TEXT: &str = "application/grpc-web-text+proto";

fn path(method: &str) -> String {
    format!("/lf.a2a.v1.A2AService/{method}")
}

/// Returns a message in a frame, encoded for the content type.
fn framed(message: &impl prost::Message, content_type: &str) -> Bytes {
    let message = message.encode_to_vec();
    let frame = [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), &message].concat();
    match content_type.contains("text") {
        true => base64_simd::STANDARD.encode_to_string(frame).into(),
        false => frame.into(),
    }
}

/// Decodes a body. In base64 each piece that was sent has its own padding, so the pieces are decoded one by one.
fn binary(body: &[u8], content_type: &str) -> Vec<u8> {
    if !content_type.contains("text") {
        return body.to_vec();
    }
    let pieces = body.chunks(4).map(|four| base64_simd::STANDARD.decode_to_vec(four).unwrap());
    pieces.collect::<Vec<_>>().concat()
}

/// Returns the messages of an answer and the trailers after them.
fn frames(mut bytes: &[u8]) -> (Vec<Vec<u8>>, String) {
    let (mut messages, mut trailers) = (Vec::new(), String::new());
    while let Some((head, rest)) = bytes.split_at_checked(5) {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let (frame, rest) = rest.split_at(length);
        match head[0] {
            0 => {
                assert!(trailers.is_empty(), "data after the trailers");
                messages.push(frame.to_vec());
            }
            0x80 => trailers = String::from_utf8(frame.to_vec()).unwrap(),
            other => panic!("a frame of kind {other}"),
        }
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a frame: {bytes:?}");
    (messages, trailers)
}

async fn call(server: &Server, method: &str, message: &impl prost::Message, content_type: &str) -> Reply {
    let headers =
        [("content-type", content_type), ("accept", content_type), ("x-grpc-web", "1"), ("a2a-version", "1.0")];
    http(&server.url, "POST", &path(method), &headers, framed(message, content_type)).await
}

#[tokio::test]
async fn s21_an_answer_has_the_encoding_of_its_request() {
    let server = Server::shared();
    for content_type in [BINARY, "application/grpc-web", TEXT, "application/grpc-web-text"] {
        let reply = call(server, "SendMessage", &request("echo hi"), content_type).await;
        assert_eq!(reply.status, 200, "{content_type}: {reply:?}");
        assert!(reply.header("content-type").starts_with(content_type), "{content_type}: {reply:?}");
        let (messages, trailers) = frames(&binary(&reply.body, content_type));
        let answer = SendMessageResponse::decode(messages[0].as_slice()).unwrap();
        assert_eq!((messages.len(), artifact_text(&task_of(answer))), (1, "hi".to_owned()), "{content_type}");
        assert!(trailers.contains("grpc-status:0\r\n"), "{content_type}: {trailers}");
    }
}

#[tokio::test]
async fn s21_a_stream_arrives_frame_by_frame() {
    let server = Server::two_agents();
    for (content_type, key) in [(BINARY, "binary"), (TEXT, "text")] {
        let headers: Vec<_> = [("content-type", content_type), ("accept", content_type), ("a2a-version", "1.0")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let ask: SendMessageRequest = request(&format!("gate {key} chunks 3"));
        let body = framed(&ask, content_type);
        let mut answer = open(&server.url, "POST", &path("SendStreamingMessage"), &headers, body).await.into_body();
        let mut received = Vec::new();
        let mut opened = false;
        while let Some(frame) = answer.frame().await {
            received.extend(frame.unwrap().into_data().unwrap());
            // The task waits for this call, so the frames so far were sent before the task ended.
            if !std::mem::replace(&mut opened, true) {
                call(&server, "SendMessage", &request(&format!("open {key}")), content_type).await;
            }
        }
        let (messages, trailers) = frames(&binary(&received, content_type));
        let events =
            messages.iter().map(|message| StreamResponse::decode(message.as_slice()).unwrap().payload.unwrap());
        let kinds: String = events
            .map(|event| match event {
                Payload::Task(_) => 't',
                Payload::StatusUpdate(_) => 's',
                Payload::ArtifactUpdate(_) => 'a',
                Payload::Message(_) => 'm',
            })
            .collect();
        assert_eq!(kinds, "tsaaas", "{content_type}");
        assert!(trailers.contains("grpc-status:0\r\n"), "{content_type}: {trailers}");
    }
}

#[tokio::test]
async fn s21_errors_are_grpc_statuses() {
    let server = Server::shared();
    let none = GetTaskRequest { id: "none".to_owned(), ..GetTaskRequest::default() };
    for content_type in [BINARY, TEXT] {
        let lost = call(server, "GetTask", &none, content_type).await;
        assert_eq!((lost.status, lost.header("grpc-status")), (200, "5"), "{content_type}: {lost:?}");
        let details = base64_simd::STANDARD_NO_PAD.decode_to_vec(lost.header("grpc-status-details-bin")).unwrap();
        assert!(String::from_utf8_lossy(&details).contains("TASK_NOT_FOUND"), "{lost:?}");
        let unknown = call(server, "NoSuchMethod", &none, content_type).await;
        assert_eq!((unknown.status, unknown.header("grpc-status")), (200, "12"), "{content_type}: {unknown:?}");
        let headers = [("content-type", content_type)];
        let old = http(&server.url, "POST", &path("GetTask"), &headers, framed(&none, content_type)).await;
        assert_eq!((old.status, old.header("grpc-status")), (200, "9"), "no version: {old:?}");
        let headers = [("content-type", content_type), ("a2a-version", "1.0")];
        let broken = http(&server.url, "POST", &path("GetTask"), &headers, "AAAA").await;
        assert_eq!((broken.status, broken.header("grpc-status")), (200, "3"), "half a frame: {broken:?}");
        let got = http(&server.url, "GET", &path("GetTask"), &headers, "").await;
        assert_eq!(got.status, 405, "{got:?}");
    }
    let headers = [("content-type", "application/grpc-web+proto; charset=utf-8"), ("a2a-version", "1.0")];
    let with_parameter = http(&server.url, "POST", &path("GetTask"), &headers, framed(&none, BINARY)).await;
    assert_eq!((with_parameter.status, with_parameter.header("grpc-status")), (200, "5"), "{with_parameter:?}");
    let headers = [("content-type", "application/grpc-web+thrift"), ("a2a-version", "1.0")];
    let other = http(&server.url, "POST", &path("GetTask"), &headers, framed(&none, BINARY)).await;
    assert_eq!(other.status, 415, "{other:?}");
}

#[tokio::test]
async fn s21_preflight_requests_succeed_only_for_allowed_origins() {
    let server = Server::start(
        "[server]\ncors_origins = [\"https://app.example\"]\ncors_credentials = true\n[[agents]]\nkind = \"echo\"\n",
    );
    let ask = |origin: &'static str, path: &'static str| {
        let url = server.url.clone();
        async move {
            let headers = [
                ("origin", origin),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "a2a-version,content-type,x-grpc-web"),
            ];
            http(&url, "OPTIONS", path, &headers, "").await
        }
    };
    for path in ["/lf.a2a.v1.A2AService/SendMessage", "/message:send", "/", "/.well-known/agent-card.json"] {
        let may = ask("https://app.example", path).await;
        assert_eq!((may.status, may.header("access-control-allow-origin")), (204, "https://app.example"), "{path}");
        assert_eq!(may.header("access-control-allow-headers"), "a2a-version,content-type,x-grpc-web", "{path}");
        assert_eq!((may.header("access-control-allow-credentials"), may.header("vary")), ("true", "origin"), "{path}");
        let not = ask("https://evil.example", path).await;
        assert_eq!(not.header("access-control-allow-origin"), "", "{path}");
        assert_ne!(not.status, 204, "{path}");
    }
}
