//! Single calls: what is sent on each wire, and what becomes of answers that no server should give.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tricord::client::{Binding, Client, ClientSettings, ConnectError};
use tricord::schema::{GetTaskRequest, ListTasksRequest, TaskState};
use tricord_bindings::client::{CallOptions, ClientError, Code};

use crate::peer::{Peer, Seen, answer, error_answer, json_answer, task};

fn get(id: &str) -> GetTaskRequest {
    GetTaskRequest { id: id.into(), ..GetTaskRequest::default() }
}

async fn get_from(peer: &Peer) -> Result<String, ClientError> {
    let client = Client::connect(&peer.url, ClientSettings::default()).await.unwrap();
    client.get_task(get("t1")).await.map(|task| task.id)
}

fn jsonrpc(request: &Seen, key: &str, value: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request.body["id"], key: value})
}

#[tokio::test]
async fn http_json_puts_fields_where_the_schema_says() {
    let page = json!({"tasks": [], "nextPageToken": "", "pageSize": 5, "totalSize": 0});
    let peer = Peer::http(move |_, _| json_answer(200, &page));
    let settings = ClientSettings {
        tenant: Some("kit/2".into()),
        options: CallOptions::new().extension("urn:a").extension("urn:b").idempotency_key("k").unwrap(),
        ..ClientSettings::default()
    };
    let client = Client::connect(&peer.url, settings).await.unwrap();
    let request = ListTasksRequest {
        status: TaskState::Working.into(),
        page_size: Some(5),
        history_length: Some(0),
        context_id: "a&b".into(),
        ..ListTasksRequest::default()
    };
    client.list_tasks(request).await.unwrap();
    let seen = &peer.seen()[0];
    let expected = "GET /kit%2F2/tasks?contextId=a%26b&historyLength=0&pageSize=5&status=TASK_STATE_WORKING";
    assert_eq!(seen.line, expected);
    assert_eq!(seen.header("a2a-version"), Some("1.0"));
    assert_eq!(seen.header("a2a-extensions"), Some("urn:a, urn:b"));
    assert_eq!(seen.header("idempotency-key"), Some("k"));
    assert_eq!(seen.header("content-type"), None);
}

#[tokio::test]
async fn json_rpc_names_the_method_and_sends_the_request_as_params() {
    let peer = Peer::new(&[("JSONRPC", "/rpc")], |request, _| {
        json_answer(200, &jsonrpc(request, "result", task("TASK_STATE_WORKING", "")))
    });
    assert_eq!(get_from(&peer).await.as_deref(), Ok("t1"));
    let seen = &peer.seen()[0];
    assert_eq!(seen.line, "POST /rpc");
    assert_eq!(seen.body["jsonrpc"], "2.0");
    assert_eq!(seen.body["method"], "GetTask");
    assert_eq!(seen.body["params"], json!({"id": "t1"}));
}

#[tokio::test]
async fn a_servers_error_reads_the_same_on_both_json_wires() {
    let details = json!([
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org"},
        {"@type": "type.googleapis.com/google.rpc.BadRequest",
         "fieldViolations": [{"field": "id", "description": "is required"}]},
    ]);
    let over_http = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "m", "details": details}});
    let peer = Peer::http(move |_, _| json_answer(400, &over_http));
    let first = get_from(&peer).await.unwrap_err();
    let failure = json!({"code": -32602, "message": "m", "data": details});
    let peer =
        Peer::new(&[("JSONRPC", "")], move |request, _| json_answer(200, &jsonrpc(request, "error", failure.clone())));
    let second = get_from(&peer).await.unwrap_err();
    let (first, mut second) = (first.server().unwrap().clone(), second.server().unwrap().clone());
    assert_eq!((first.code, second.code), (Code::Http(400), Code::JsonRpc(-32602)));
    second.code = first.code;
    assert_eq!(first, second);
    assert_eq!(first.violations[0].field, "id");
}

#[tokio::test]
async fn retry_after_is_read_where_json_rpc_keeps_the_status() {
    let peer = Peer::new(&[("JSONRPC", "")], |_, _| {
        let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "busy", "data": []}});
        answer(503, "content-type: application/json\r\nretry-after: 3\r\n", &body.to_string())
    });
    let error = get_from(&peer).await.unwrap_err();
    assert_eq!(error.server().unwrap().retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn bad_answers_are_named() {
    for (reply, expected) in [
        (answer(200, "", "<html>"), "invalid answer: cannot read the answer to GetTask: not JSON"),
        (json_answer(200, &json!({"id": 5})), "invalid answer: cannot read the answer to GetTask: id: "),
        (answer(302, "location: https://b.example/\r\n", ""), "invalid answer: http://127.0.0.1:"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}".to_owned(), "the connection broke: "),
        ("SSH-2.0-x\r\n".to_owned(), "the connection broke: "),
        (answer(413, "content-type: text/html\r\n", "<html>"), "Payload Too Large (HTTP status 413)"),
    ] {
        let told = reply.clone();
        let peer = Peer::http(move |_, _| reply.clone());
        let error = get_from(&peer).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\nof {told}");
    }
}

#[tokio::test]
async fn a_plain_answer_where_a_stream_belongs_is_named() {
    let peer = Peer::http(|_, _| json_answer(200, &task("TASK_STATE_WORKING", "")));
    let client = Client::connect(&peer.url, ClientSettings::default()).await.unwrap();
    let error = client.follow("t1", None).await.unwrap_err().to_string();
    assert_eq!(error, "invalid answer: media type application/json, expected text/event-stream");
}

#[tokio::test]
async fn nobody_there_and_nobody_answering_are_told_apart() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Client::connect(&format!("http://{free}"), ClientSettings::default()).await.unwrap_err();
    let expected = ClientError::Unreachable { url: format!("http://{free}"), why: "Connection refused".into() };
    assert_eq!(error, ConnectError::Call(expected));

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let wait = Duration::from_millis(50);
    let settings = ClientSettings { options: CallOptions::new().timeout(wait), ..ClientSettings::default() };
    let url = format!("http://{}", silent.local_addr().unwrap());
    let error = Client::connect(&url, settings).await.unwrap_err();
    assert_eq!(error, ConnectError::Call(ClientError::Deadline(wait)));
}

#[tokio::test]
async fn grpc_to_a_peer_that_speaks_no_http_2_is_told() {
    let peer = Peer::new(&[("GRPC", "")], |_, _| answer(400, "", ""));
    let error = get_from(&peer).await.unwrap_err();
    assert!(matches!(error, ClientError::Broken(_)), "{error:?}");
}

#[tokio::test]
async fn credentials_go_with_the_call_but_not_to_another_host() {
    let peer = Peer::http(|_, _| json_answer(200, &task("TASK_STATE_WORKING", "")));
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer x"))]);
    let settings = ClientSettings::default().with_headers(headers);
    let client = Client::connect(&peer.url, settings.clone()).await.unwrap();
    client.get_task(get("t1")).await.unwrap();
    assert_eq!(peer.seen()[0].header("authorization"), Some("Bearer x"));

    // The document of another path is answered by the script, and names another host.
    let card = json!({"name": "x", "supportedInterfaces": [
        {"url": "http://b.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
    let peer = Peer::http(move |_, _| json_answer(200, &card));
    let error = Client::connect(&format!("{}/card.json", peer.url), settings).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_no_card_is_told() {
    for (reply, expected) in [
        (answer(200, "", "<html>"), "is not an agent card: not JSON"),
        (json_answer(200, &json!({})), "is not an agent card: it has neither a name nor interfaces"),
        (error_answer(404, "METHOD_NOT_FOUND", "m"), "/card.json: 404 Not Found (HTTP status 404)"),
    ] {
        let peer = Peer::http(move |_, _| reply.clone());
        let error = Client::connect(&format!("{}/card.json", peer.url), ClientSettings::default()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_wanted_binding_is_taken() {
    let peer = Peer::new(&[("JSONRPC", "/rpc"), ("HTTP+JSON", "/v1")], |_, _| {
        json_answer(200, &task("TASK_STATE_WORKING", ""))
    });
    let settings = ClientSettings { binding: Some(Binding::HttpJson), ..ClientSettings::default() };
    let client = Client::connect(&peer.url, settings).await.unwrap();
    client.get_task(get("a:b")).await.unwrap();
    assert_eq!(peer.seen()[0].line, "GET /v1/tasks/a%3Ab");
}
