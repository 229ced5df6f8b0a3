//! What clients of other protocols ask for, and gRPC's own services beside A2A's.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::json;
use tricord::client::Binding;

use crate::raw::{ask, grpc_open, grpc_refusal, http, on_every_wire, read_all, say};
use crate::support::Server;

const VERSION: (&str, &str) = ("a2a-version", "1.0");

#[tokio::test]
async fn what_nobody_serves_is_not_found_whatever_the_version() {
    let server = Server::shared();
    for version in [None, Some("1.0"), Some("0.3"), Some("9.9"), Some("x")] {
        let headers: Vec<_> = version.map(|version| ("a2a-version", version)).into_iter().collect();
        for path in [
            "/health",
            "/healthz",
            "/favicon.ico",
            "/robots.txt",
            "/.well-known/oauth-protected-resource",
            "/.well-known/openid-configuration",
            "/nobody/.well-known/agent-card.json",
            "/a/b/c/d",
        ] {
            for verb in ["GET", "HEAD", "DELETE"] {
                let reply = http(&server.url, verb, path, &headers, "").await;
                assert_eq!(reply.status, 404, "{verb} {path} {version:?}: {reply:?}");
            }
        }
        let call = ask(&server.url, Binding::JsonRpc, "mcp/list", json!({})).version(version).send_unknown().await;
        call.refused("METHOD_NOT_FOUND");
        for path in ["/lf.a2a.v1.A2AService/Nothing", "/other.v1.Service/Call"] {
            let response = read_all(grpc_open(&server.url, path, &[b""]).await).await;
            assert_eq!(response.header("grpc-status"), "12", "{path}: {response:?}");
        }
        let refusal = grpc_refusal(&server.url, "/lf.a2a.v1.A2AService/Nothing", &headers, b"").await;
        assert_eq!(refusal.reason, "METHOD_NOT_FOUND");
    }
    // What is served is still asked for its version.
    on_every_wire(|wire| async move {
        server.ask(wire, "ListTasks", json!({})).version(None).send().await.refused("VERSION_NOT_SUPPORTED");
    })
    .await;
    // An endpoint tells its verb.
    assert_eq!(http(&server.url, "GET", "/kit", &[VERSION], "").await.header("allow"), "POST");
}

#[tokio::test]
async fn a_content_encoding_is_refused_by_its_name() {
    let server = Server::shared();
    for wire in [Binding::JsonRpc, Binding::HttpJson] {
        for encoding in ["gzip", "br", "zstd"] {
            let sent =
                server.ask(wire, "SendMessage", say("echo hi")).header("content-encoding", encoding).send().await;
            let refusal = sent.refused("CONTENT_TYPE_NOT_SUPPORTED");
            assert!(refusal.message.contains(encoding), "{wire}: {refusal:?}");
        }
        server.ask(wire, "SendMessage", say("echo hi")).header("content-encoding", "identity").send().await.ok();
    }
}

#[tokio::test]
async fn json_that_is_too_deep_names_no_field() {
    let server = Server::shared();
    for wire in [Binding::JsonRpc, Binding::HttpJson] {
        let deep = format!("{{\"unknown\":{}{}}}", "[".repeat(100), "]".repeat(100));
        let sent = server.ask(wire, "SendMessage", say("echo hi")).params_text(deep).send().await;
        let refusal = sent.refused("INVALID_PARAMS");
        assert!(refusal.fields.is_empty() && refusal.message.contains("nested deeper"), "{wire}: {refusal:?}");
    }
}

#[tokio::test]
async fn an_event_source_that_has_seen_the_end_is_told_to_stop() {
    let server = Server::shared();
    let mut stream = server.ask(Binding::HttpJson, "SendStreamingMessage", say("chunks 2")).stream().await;
    let events = stream.rest().await;
    let id = events[0].value["task"]["id"].as_str().unwrap().to_owned();
    let last = events.last().unwrap().id.clone().unwrap();
    let path = format!("/tasks/{id}:subscribe");
    let source = ("accept", "text/event-stream");
    let ended = http(&server.url, "GET", &path, &[VERSION, source, ("last-event-id", &last)], "").await;
    assert_eq!((ended.status, ended.text()), (204, ""));
    // Everybody else reads why.
    for (verb, headers) in [
        ("GET", &[VERSION, ("last-event-id", &*last)][..]),
        ("GET", &[VERSION, source]),
        ("GET", &[VERSION, ("accept", "application/json, text/event-stream"), ("last-event-id", &last)]),
        ("POST", &[VERSION, source, ("last-event-id", &last)]),
    ] {
        let reply = http(&server.url, verb, &path, headers, "").await;
        assert_eq!(reply.json()["error"]["details"][0]["reason"], "UNSUPPORTED_OPERATION", "{verb} {headers:?}");
    }
    // One that has missed something gets it first.
    let first = events[0].id.clone().unwrap();
    let rest = http(&server.url, "GET", &path, &[VERSION, source, ("last-event-id", &first)], "").await;
    assert_eq!((rest.status, rest.header("content-type")), (200, "text/event-stream"));
}

/// Returns the next status of a health watch; `None` at its end.
async fn next_status(body: &mut Incoming) -> Option<u8> {
    let frame = tokio::time::timeout(crate::raw::PATIENCE, body.frame()).await.expect("a status in time")?.unwrap();
    match frame.into_data() {
        // A frame of five bytes, and field 1.
        Ok(data) => Some(data[6]),
        Err(trailers) => {
            assert_eq!(trailers.into_trailers().unwrap()["grpc-status"], "0");
            None
        }
    }
}

#[tokio::test]
async fn health_watchers_see_the_end_and_do_not_hold_it() {
    let server = Server::start("[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n");
    let watch = "/grpc.health.v1.Health/Watch";
    let mut known = grpc_open(&server.url, watch, &[b"\x0a\x14lf.a2a.v1.A2AService"]).await.into_body();
    let mut unknown = grpc_open(&server.url, watch, &[b"\x0a\x04none"]).await.into_body();
    assert_eq!(next_status(&mut known).await, Some(1), "SERVING");
    assert_eq!(next_status(&mut unknown).await, Some(3), "SERVICE_UNKNOWN");
    server.terminate();
    for body in [&mut known, &mut unknown] {
        assert_eq!(next_status(body).await, Some(2), "NOT_SERVING");
        assert_eq!(next_status(body).await, None);
    }
    let mut server = server;
    assert!(tokio::task::spawn_blocking(move || server.wait()).await.unwrap());
}

#[tokio::test]
async fn reflection_answers_an_unknown_symbol_and_goes_on() {
    let server = Server::shared();
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        // Field 4 is a symbol.
        let reply = read_all(grpc_open(&server.url, &path, &[b"\x22\x04none", b"\x22\x0elf.a2a.v1.Task"]).await).await;
        assert_eq!(reply.trailers["grpc-status"], "0", "{version}: {reply:?}");
        let text = reply.text_lossy();
        let (unknown, found) = (text.find("no such symbol").unwrap(), text.find("TASK_STATE_WORKING").unwrap());
        assert!(unknown < found, "{version}: {text}");
    }
}

#[tokio::test]
async fn a_second_message_of_a_unary_call_is_refused() {
    let server = Server::shared();
    let response = read_all(grpc_open(&server.url, "/lf.a2a.v1.A2AService/ListTasks", &[b"", b""]).await).await;
    assert_eq!(response.header("grpc-status"), "3", "{response:?}");
}
