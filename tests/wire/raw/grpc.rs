//! gRPC as bytes: frames over HTTP/2 without TLS, statuses from trailers, details by field numbers.

use std::collections::BTreeMap;

use base64_simd::STANDARD_NO_PAD;
use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::{Value, json};

use super::http::{PATIENCE, authority, connect};
use super::schema;

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    field_violations: Vec<FieldViolation>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// The status with which a call ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) details: Vec<Value>,
}

/// Calls a method with parameters in JSON.
pub(super) async fn call(url: &str, method: &str, params: &Value, headers: &[(String, String)]) -> Response<Incoming> {
    let input = schema::method(method).input();
    let message = schema::message(&input, params).unwrap_or_else(|error| panic!("{method}: {error}: {params}"));
    send(url, &format!("/lf.a2a.v1.A2AService/{method}"), headers, framed(&message.encode_to_vec())).await
}

/// Sends any bytes to any path.
pub(super) async fn send(url: &str, path: &str, headers: &[(String, String)], body: Bytes) -> Response<Incoming> {
    let io = TokioIo::new(connect(url).await);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method("POST").uri(format!("http://{}{path}", authority(url)));
    request = request.header("te", "trailers");
    if !headers.iter().any(|(name, _)| name == "content-type") {
        request = request.header("content-type", "application/grpc");
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = sender.send_request(request.body(Full::new(body)).unwrap());
    tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time").unwrap()
}

/// Returns a message in a frame.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

/// Takes the next complete message from the received bytes.
pub(super) fn next_message(received: &mut BytesMut, descriptor: &MessageDescriptor) -> Option<Value> {
    let head = received.get(..5)?;
    assert_eq!(head[0], 0, "a message was compressed although the client did not ask for it");
    let length = u32::from_be_bytes(head[1..5].try_into().unwrap()) as usize;
    if received.len() < 5 + length {
        return None;
    }
    received.advance(5);
    let message = DynamicMessage::decode(descriptor.clone(), received.split_to(length)).unwrap();
    assert_eq!(message.unknown_fields().count(), 0, "fields outside the schema: {message:?}");
    Some(schema::json(&message))
}

/// Returns the status in trailers, or in the headers of an answer without a body. `None` if there is none yet.
pub(super) fn ending(headers: &HeaderMap) -> Option<Ending> {
    let code = headers.get("grpc-status")?.to_str().unwrap().parse().unwrap();
    let message = headers.get("grpc-message").map(|text| text.to_str().unwrap()).unwrap_or_default();
    let message = percent_decoded(message);
    let details = headers.get("grpc-status-details-bin").map(|value| {
        let bytes = STANDARD_NO_PAD.decode_to_vec(value.to_str().unwrap().trim_end_matches('=')).unwrap();
        Status::decode(bytes.as_slice()).unwrap()
    });
    let details = details.map_or_else(Vec::new, |status| {
        assert_eq!(i64::from(status.code), code, "the details tell another code");
        assert_eq!(status.message, message, "the details tell another message");
        status.details.iter().map(detail).collect()
    });
    Some(Ending { code, message, details })
}

fn detail(any: &Any) -> Value {
    let value = any.value.clone();
    let mut detail = match any.type_url.as_str() {
        "type.googleapis.com/google.rpc.ErrorInfo" => {
            let ErrorInfo { reason, domain, metadata } = ErrorInfo::decode(value).unwrap();
            let mut detail = json!({"reason": reason, "domain": domain});
            if !metadata.is_empty() {
                detail["metadata"] = json!(metadata);
            }
            detail
        }
        "type.googleapis.com/google.rpc.BadRequest" => {
            let violations = BadRequest::decode(value).unwrap().field_violations;
            let violations = violations.into_iter().map(|v| json!({"field": v.field, "description": v.description}));
            json!({"fieldViolations": violations.collect::<Vec<_>>()})
        }
        "type.googleapis.com/google.rpc.RetryInfo" => {
            let delay = RetryInfo::decode(value).unwrap().retry_delay.unwrap_or_default();
            json!({"retryDelay": format!("{}s", delay.seconds)})
        }
        other => panic!("a detail of the type {other}"),
    };
    detail["@type"] = json!(any.type_url);
    detail
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let hex = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(hex, 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}
