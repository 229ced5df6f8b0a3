//! The JSON-RPC transport: one URL, the rpc's name as the method, answers in an envelope.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Code;
use super::http_json::{decode, expect_event_stream};
use super::transport::{HttpClient, collect, excerpt, json_request, media_type, retry_after, uri};
use super::{CallOptions, ClientError, EventStream, ServerError, Transport, WireMessage, stream};
use crate::error::Protocol;
use crate::rpc::Rpc;

/// Calls a server over JSON-RPC.
#[derive(Debug, Clone)]
pub struct JsonRpc {
    http: HttpClient,
    url: String,
    protocol: &'static Protocol,
    next_id: Arc<AtomicU64>,
}

#[derive(Serialize)]
struct Envelope<'a, Q> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: &'a Q,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    id: Value,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Value,
}

impl JsonRpc {
    /// Creates a transport for the endpoint at `url`.
    ///
    /// # Errors
    /// When `url` is not an `http` or `https` URL.
    pub fn new(http: HttpClient, url: &str, protocol: &'static Protocol) -> Result<Self, ClientError> {
        uri(url)?;
        Ok(Self { http, url: url.to_owned(), protocol, next_id: Arc::new(AtomicU64::new(1)) })
    }

    fn request<Q: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
        accept: &'static str,
    ) -> Result<(http::Request<bytes::Bytes>, u64), ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let envelope = Envelope { jsonrpc: "2.0", id, method: rpc.name, params: request };
        let body = serde_json::to_vec(&envelope)
            .map_err(|error| ClientError::Request(format!("cannot write the request as JSON: {error}")))?;
        let mut headers = options.headers(self.protocol)?;
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        Ok((json_request(Method::POST, &self.url, headers, Some(("application/json", body)))?, id))
    }
}

impl Transport for JsonRpc {
    async fn unary<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<A, ClientError> {
        let (request, id) = self.request(rpc, request, options, "application/json")?;
        let (parts, body) = self.http.whole(request, options.deadline()).await?;
        read(rpc, id, parts.status, &parts.headers, &body)
    }

    async fn stream<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<EventStream<A>, ClientError> {
        let (request, id) = self.request(rpc, request, options, "text/event-stream, application/json")?;
        let deadline = options.deadline();
        let (parts, body) = self.http.open(request, deadline).await?.into_parts();
        if !parts.status.is_success() || media_type(&parts.headers) == "application/json" {
            let body = deadline.bound(collect(body)).await??;
            // The server may refuse a stream with a plain error response. A plain result breaks the protocol.
            read::<A>(rpc, id, parts.status, &parts.headers, &body)?;
            return Err(ClientError::BadAnswer(format!(
                "{} answered with a single response, expected a stream",
                rpc.name
            )));
        }
        expect_event_stream(&parts.headers)?;
        Ok(stream::events(body, deadline, move |event| answer(rpc, id, event.data.as_bytes())))
    }
}

/// Reads a whole answer. The body may be JSON-RPC even if the status is not a success.
fn read<A: WireMessage>(
    rpc: &Rpc,
    id: u64,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<A, ClientError> {
    let mut error = match answer(rpc, id, body) {
        Err(ClientError::Server(error)) => *error,
        Err(_) if !status.is_success() => {
            ServerError::new(Code::Http(status.as_u16()), status.canonical_reason().unwrap_or_default())
        }
        other => return other,
    };
    error.read_retry_after(retry_after(headers));
    Err(error.into())
}

/// Reads one JSON-RPC response.
fn answer<A: WireMessage>(rpc: &Rpc, id: u64, body: &[u8]) -> Result<A, ClientError> {
    let bad = |what: &str| ClientError::BadAnswer(format!("{} answered with {what}: {}", rpc.name, excerpt(body)));
    let answer: Answer<'_> =
        serde_json::from_slice(body).map_err(|_| bad("something other than a JSON-RPC response"))?;
    match (answer.result, answer.error) {
        (_, Some(failure)) => {
            let mut error = ServerError::new(Code::JsonRpc(failure.code), failure.message);
            error.read_json(&failure.data);
            Err(error.into())
        }
        // An error may have the id null, where the server could not read ours. A result must have our id.
        (Some(_), None) if answer.id != id => Err(bad("a response to another request")),
        (Some(result), None) => decode(rpc, result.get().as_bytes()),
        (None, None) => Err(bad("a response with neither result nor error")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wkt::Struct;

    static RPC: Rpc = crate::testing::rpc("Get", "/p.S/Get", &[]);

    fn fails(body: &str) -> ClientError {
        answer::<Struct>(&RPC, 7, body.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_result_is_read() {
        let read: Struct = answer(&RPC, 7, br#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#).unwrap();
        assert_eq!(read.fields.len(), 1);
    }

    #[test]
    fn an_error_is_read_whatever_its_id() {
        let error = fails(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"m","data":[
            {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"d"}]}}"#,
        );
        let error = error.server().unwrap();
        assert_eq!((error.reason.as_deref(), error.code), (Some("TASK_NOT_FOUND"), Code::JsonRpc(-32001)));
    }

    #[test]
    fn an_invalid_response_is_reported_with_its_fault() {
        assert_eq!(
            fails("<html>").to_string(),
            "invalid answer: Get answered with something other than a JSON-RPC response: <html>"
        );
        let text = fails(r#"{"id":8,"result":{}}"#).to_string();
        assert!(text.starts_with("invalid answer: Get answered with a response to another request"), "{text}");
        let text = fails(r#"{"id":7}"#).to_string();
        assert!(
            text.starts_with("invalid answer: Get answered with a response with neither result nor error"),
            "{text}"
        );
        let text = fails(r#"{"id":7,"result":5}"#).to_string();
        assert!(text.starts_with("invalid answer: cannot read the answer to Get: "), "{text}");
    }

    #[test]
    fn a_body_that_is_not_json_rpc_leaves_the_http_status_as_the_error() {
        let error = read::<Struct>(&RPC, 7, StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>").unwrap_err();
        assert_eq!(error.server().unwrap().code, Code::Http(502));
    }
}
