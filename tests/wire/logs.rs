//! The lines of the log: one for every call that has ended, whatever its end.

use std::time::Duration;

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{PATIENCE, http, say};
use crate::support::Server;

const CONFIG: &str =
    "[log]\nformat = \"json\"\nlevel = \"LEVEL\"\n[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n";

fn lines(server: &Server) -> Vec<Value> {
    let log = std::fs::read_to_string(server.dir().join("server.log")).unwrap();
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Waits for a line and returns it.
async fn line(server: &Server, is: impl Fn(&Value) -> bool) -> Value {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(line) = lines(server).into_iter().find(&is) {
            return line;
        }
        assert!(tokio::time::Instant::now() < until, "{:?}", lines(server));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_call(line: &Value, rpc: &str, binding: &str, code: &str) -> bool {
    line["target"] == "access" && line["rpc"] == rpc && line["binding"] == binding && line["code"] == code
}

#[tokio::test]
async fn every_finished_call_is_a_line_by_default() {
    let server = Server::logged(&CONFIG.replace("LEVEL", "info"));
    for (wire, name) in [(Binding::Grpc, "grpc"), (Binding::JsonRpc, "jsonrpc"), (Binding::HttpJson, "http")] {
        let task = server.make(wire, "echo hi").await;
        let sent = line(&server, |line| is_call(line, "SendMessage", name, "OK")).await;
        assert_eq!((&sent["agent"], &sent["task"]), (&json!("kit"), &task["id"]));
        assert_eq!(sent["state"], "TASK_STATE_COMPLETED");
        assert!(sent["ms"].is_number() && sent.get("events").is_none(), "{sent}");

        let mut stream = server.ask(wire, "SendStreamingMessage", say("chunks 3")).stream().await;
        let events = stream.rest().await.len();
        let streamed = line(&server, |line| is_call(line, "SendStreamingMessage", name, "OK")).await;
        assert_eq!((&streamed["events"], &streamed["state"]), (&json!(events), &json!("TASK_STATE_COMPLETED")));

        server.ask(wire, "GetTask", json!({"id": "none"})).send().await.refused("TASK_NOT_FOUND");
        line(&server, |line| is_call(line, "GetTask", name, "TASK_NOT_FOUND") && line["task"] == "none").await;
        server
            .ask(wire, "GetTask", json!({"id": "none"}))
            .version(Some("9.0"))
            .send()
            .await
            .refused("VERSION_NOT_SUPPORTED");
        let refused = |line: &Value| line["code"] == "VERSION_NOT_SUPPORTED" && line["binding"] == name;
        line(&server, refused).await;

        // A client that leaves is recorded as such.
        let mut left = server.ask(wire, "SendStreamingMessage", say("tck-cancel")).stream().await;
        left.event().await;
        drop(left);
        line(&server, |line| is_call(line, "SendStreamingMessage", name, "CANCELLED")).await;
    }
}

#[tokio::test]
async fn more_detailed_levels_say_more() {
    let mut counts = Vec::new();
    for level in ["info", "debug", "trace"] {
        let server = Server::logged(&CONFIG.replace("LEVEL", level));
        let mut stream = server.ask(Binding::JsonRpc, "SendStreamingMessage", say("chunks 3")).stream().await;
        stream.rest().await;
        line(&server, |line| is_call(line, "SendStreamingMessage", "jsonrpc", "OK")).await;
        counts.push(lines(&server).len());
    }
    assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
}

#[tokio::test]
async fn a_panic_is_one_line() {
    let server = Server::logged(&CONFIG.replace("LEVEL", "info"));
    server.make(Binding::HttpJson, "boom").await;
    let panic = line(&server, |line| line.get("panic").is_some()).await;
    assert_eq!((&panic["level"], &panic["message"]), (&json!("ERROR"), &json!("a panic")));
    assert!(panic["location"].as_str().unwrap().contains(".rs:"), "{panic}");
    // What ends a line elsewhere is an escape here.
    let headers = [("a2a-version", "1.0"), ("x-request-id", "plain")];
    http(&server.url, "GET", "/tasks/a%E2%80%A8%C2%9Bb", &headers, "").await;
    line(&server, |line| line["task"] == "a\u{2028}\u{9b}b").await;
    let log = std::fs::read_to_string(server.dir().join("server.log")).unwrap();
    assert!(!log.contains(['\u{2028}', '\u{9b}']), "{log}");
}
