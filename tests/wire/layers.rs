//! What stands around every answer of the port: request ids and compression.

use std::io::Read as _;

use serde_json::json;
use tricord::client::Binding;

use crate::raw::{Reply, fresh, http, say};
use crate::support::{Server, WIRES};

const GZIP: (&str, &str) = ("accept-encoding", "gzip, deflate");

fn unzipped(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*reply.body).read_to_end(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn large_documents_are_compressed_for_clients_that_accept_it() {
    let url = &Server::shared().url;
    let plain = http(url, "GET", "/openapi.json", &[], "").await;
    assert!(plain.body.len() >= 16 << 10, "the document is {} bytes long", plain.body.len());
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "accept-encoding"));
    let zipped = http(url, "GET", "/openapi.json", &[GZIP], "").await;
    assert_eq!((zipped.header("content-encoding"), zipped.header("vary")), ("gzip", "accept-encoding"));
    assert_eq!((zipped.status, zipped.header("content-length")), (200, ""));
    assert_eq!(unzipped(&zipped), plain.body);
    assert!(zipped.body.len() < plain.body.len() / 2, "{} of {} bytes", zipped.body.len(), plain.body.len());
    let tag = zipped.header("etag");
    assert_eq!(tag, format!("W/{}", plain.header("etag")));
    let known = http(url, "GET", "/openapi.json", &[GZIP, ("if-none-match", tag)], "").await;
    assert_eq!((known.status, known.text(), known.header("vary")), (304, "", "accept-encoding"));
    let head = http(url, "HEAD", "/openapi.json", &[GZIP], "").await;
    assert_eq!((head.header("content-encoding"), head.header("etag"), head.text()), ("gzip", tag, ""));
    assert_eq!(head.header("content-length"), "");
    let neither = http(url, "GET", "/openapi.json", &[("accept-encoding", "identity;q=0")], "").await;
    assert_eq!((neither.status, &neither.body), (200, &plain.body));
    let small = http(url, "GET", "/.well-known/agent-card.json", &[GZIP], "").await;
    assert_eq!((small.header("content-encoding"), small.header("vary")), ("", ""));
    assert_eq!(small.header("content-length"), small.body.len().to_string());
}

#[tokio::test]
async fn large_answers_are_compressed_and_streams_and_grpc_are_not() {
    let url = &Server::shared().url;
    let headers = [("a2a-version", "1.0"), ("content-type", "application/json"), GZIP];
    let params = say(&"word ".repeat(10_000));
    for (path, body, result) in [
        ("/other/message:send", params.clone(), "/task"),
        ("/other", json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}), "/result/task"),
    ] {
        let reply = http(url, "POST", path, &headers, body.to_string()).await;
        assert_eq!((reply.status, reply.header("content-encoding")), (200, "gzip"), "{path}");
        let answer: serde_json::Value = serde_json::from_slice(&unzipped(&reply)).unwrap();
        assert_eq!(answer.pointer(result).unwrap()["status"]["state"], "TASK_STATE_COMPLETED", "{path}");
    }
    let stream = http(url, "POST", "/other/message:stream", &headers, params.to_string()).await;
    assert_eq!((stream.header("content-type"), stream.header("content-encoding")), ("text/event-stream", ""));
    assert!(stream.text().starts_with("data: "));
    let server = Server::shared();
    let task = server.ask(Binding::Grpc, "SendMessage", params).agent("other").header(GZIP.0, GZIP.1).send().await;
    assert_eq!(task.ok()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn every_response_has_the_id_of_its_request() {
    let server = Server::start("[server]\ncors_origins = [\"https://app.example\"]\n[[agents]]\nkind = \"echo\"\n");
    let preflight = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    for (verb, path, headers) in [
        ("GET", "/livez", &[][..]),
        ("GET", "/.well-known/agent-card.json", &[]),
        ("GET", "/nothing/here", &[]),
        ("POST", "/", &[("content-type", "application/json")]),
        ("POST", "/grpc.health.v1.Health/Check", &[("content-type", "application/grpc")]),
        ("OPTIONS", "/message:send", &preflight),
    ] {
        let made = http(&server.url, verb, path, headers, "").await;
        assert!(uuid::Uuid::try_parse(made.header("x-request-id")).is_ok(), "{verb} {path}: {made:?}");
        let kept = http(&server.url, verb, path, &[headers, &[("x-request-id", "from-a-gateway")]].concat(), "").await;
        assert_eq!(kept.header("x-request-id"), "from-a-gateway", "{verb} {path}");
    }
    for wire in WIRES {
        let lost = server.ask(wire, "GetTask", json!({"id": fresh()})).header("x-request-id", "7").send().await;
        assert_eq!(lost.headers()["x-request-id"], "7", "{wire}");
    }
}

#[tokio::test]
async fn the_access_log_has_the_id_of_the_request() {
    let server = Server::logged("[log]\naccess = true\n[[agents]]\nname = \"kit\"\nkind = \"echo\"\n");
    for wire in WIRES {
        server.ask(wire, "SendMessage", say("hi")).header("x-request-id", &format!("id-{wire}")).send().await;
    }
    let log = || std::fs::read_to_string(server.dir().join("server.log")).unwrap();
    // The log is written by a thread of its own.
    while WIRES.iter().any(|wire| !log().contains(&format!("id-{wire}"))) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
