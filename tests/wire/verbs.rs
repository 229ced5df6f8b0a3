//! The verbs of the conformance agent, over every binding.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{Event, on_every_wire, say, say_at_once, say_to, with};
use crate::streams::gists;
use crate::support::Server;

/// The expected result of a verb.
struct Row {
    words: &'static str,
    /// The events after the first one.
    stream: &'static [&'static str],
    /// The text of the last status message.
    says: Option<&'static str>,
    /// The parts of all artifacts.
    parts: Value,
}

fn row(words: &'static str, stream: &'static [&'static str], says: Option<&'static str>, parts: Value) -> Row {
    Row { words, stream, says, parts }
}

fn table() -> Vec<Row> {
    let none = || json!([]);
    let file = || json!([{"raw": "dGNr", "filename": "output.txt", "mediaType": "text/plain"}]);
    let link = json!([{"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}]);
    let text = |text: &str| json!([{"text": text}]);
    let whole = &["piece last", "completed"];
    let worked = &["working", "piece last", "completed"];
    let chunked = &["working", "piece", "piece append last", "completed"];
    vec![
        row("tck-complete-task", &["completed"], Some("Hello from TCK"), none()),
        row("tck-artifact-text", whole, None, text("Generated text content")),
        row("tck-artifact-file", whole, None, file()),
        row("tck-artifact-file-url", whole, None, link),
        row("tck-artifact-data", whole, None, json!([{"data": {"key": "value", "count": 42}}])),
        row("tck-input-required", &["input_required"], None, none()),
        row("tck-multi-turn", &["input_required"], Some(""), none()),
        row("tck-reject-task", &["rejected"], Some(""), none()),
        row("tck-task-failure", &["failed"], Some(""), none()),
        row("tck-delayed-complete", &["working", "completed"], None, none()),
        row("tck-long-running", worked, None, text("Long-running result")),
        row("test-resubscribe-message-id", &["working", "completed"], None, none()),
        row("tck-stream-001", worked, None, text("Stream hello from TCK")),
        row("tck-stream-002", &["completed"], None, none()),
        row("tck-stream-003", worked, None, text("Stream task lifecycle")),
        row("tck-stream-ordering-001", worked, None, text("Ordered output")),
        row("tck-stream-artifact-text", worked, None, text("Streamed text content")),
        row("tck-stream-basic", worked, None, text("Streamed text content")),
        row("tck-stream-artifact-file", worked, None, file()),
        row("tck-stream-artifact-chunked", chunked, None, json!([{"text": "chunk-1 "}, {"text": "chunk-2"}])),
        row("tck-stream-chunked", chunked, None, json!([{"text": "chunk-1 "}, {"text": "chunk-2"}])),
        row("echo some words", worked, None, text("some words")),
        row("slow 0.1", worked, None, text("slow 0.1")),
        row("silent 0.1", whole, None, text("slow 0.1")),
        row("ask", &["input_required"], Some(""), none()),
        row("fail", &["failed"], Some(""), none()),
        row("reject", &["rejected"], Some(""), none()),
        row("boom", &["working", "failed"], Some(""), none()),
        row("anything else", &["completed"], Some("Unhandled messageId prefix: m-1"), none()),
        row("", &["completed"], Some("Unhandled messageId prefix: m-1"), none()),
    ]
}

fn check(wire: Binding, row: &Row, events: &[Event], task: &Value) {
    assert_eq!(gists(events)[0], "task submitted", "{wire} {}", row.words);
    assert_eq!(gists(&events[1..]), row.stream, "{wire} {}", row.words);
    let said = task["status"].get("message").map(|message| message["parts"][0]["text"].as_str().unwrap());
    match row.says {
        Some("") => assert!(said.is_some_and(|said| !said.is_empty()), "{wire} {}: {task}", row.words),
        says => assert_eq!(said, says, "{wire} {}: {task}", row.words),
    }
    let artifacts = task["artifacts"].as_array().cloned().unwrap_or_default();
    let parts: Vec<_> = artifacts.iter().flat_map(|artifact| artifact["parts"].as_array().unwrap().clone()).collect();
    // Numbers in a Struct are doubles, which a JSON library may treat differently from integers.
    let comparable = |parts: &Value| parts.to_string().replace("42.0", "42");
    assert_eq!(comparable(&Value::Array(parts)), comparable(&row.parts), "{wire} {}", row.words);
    for artifact in &artifacts {
        assert_ne!(artifact["artifactId"].as_str().unwrap(), "", "{wire} {}", row.words);
    }
    if row.words == "boom" {
        assert!(!said.unwrap().contains("panic"), "{said:?}");
    }
}

#[tokio::test]
async fn verbs_have_the_expected_results() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let table = table();
        let rows = table.iter().map(|row| async move {
            let words = with(say(row.words), json!({"message": {"messageId": "m-1"}}));
            let events = server.ask(wire, "SendStreamingMessage", words).stream().await.rest().await;
            let task = server.task(wire, events[0].value["task"]["id"].as_str().unwrap()).await;
            check(wire, row, &events, &task);
            // The message id selects the verb too. Then the text is ignored.
            if row.words.starts_with("tck-stream-0") || row.words == "tck-artifact-file-url" {
                let id = format!("{}-{wire}", row.words);
                let by_id = with(say("echo not this"), json!({"message": {"messageId": id}}));
                let task = server.ask(wire, "SendMessage", by_id).send().await.ok()["task"].take();
                check(wire, row, &events, &task);
            }
        });
        futures::future::join_all(rows).await;
    })
    .await;
}

#[tokio::test]
async fn verbs_without_a_task_answer_with_a_message() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for (words, text) in [("tck-message-response", "Direct message response"), ("msg hello you", "hello you")] {
            let answer = server.ask(wire, "SendMessage", say(words)).send().await.ok();
            assert_eq!(answer["message"]["parts"], json!([{"text": text}]), "{wire} {words}");
        }
    })
    .await;
}

#[tokio::test]
async fn verbs_that_wait() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        // Waits until canceled.
        let task = server.ask(wire, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
        let canceled = server.ask(wire, "CancelTask", json!({"id": task["task"]["id"]})).send().await.ok();
        assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{wire}");
        // Waits for a message. That message's own verb continues the task.
        for words in ["tck-auth-required", "auth"] {
            let waits = server.make(wire, words).await;
            assert_eq!(waits["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{wire} {words}");
            let answer = say_to(waits["id"].as_str().unwrap(), "tck-artifact-text");
            let task = server.ask(wire, "SendMessage", answer).send().await.ok()["task"].take();
            assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{wire} {words}");
            assert_eq!(task["artifacts"][0]["parts"][0]["text"], "Generated text content", "{wire} {words}");
        }
        // Any text answers `ask`. A task that another verb left waiting is continued by the message's own verb.
        let waits = server.make(wire, "ask").await;
        let answer = say_to(waits["id"].as_str().unwrap(), "fail");
        let task = server.ask(wire, "SendMessage", answer).send().await.ok()["task"].take();
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
        let waits = server.make(wire, "tck-input-required").await;
        let answer = say_to(waits["id"].as_str().unwrap(), "fail");
        let task = server.ask(wire, "SendMessage", answer).send().await.ok()["task"].take();
        assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{wire}");
    })
    .await;
}

#[tokio::test]
async fn verbs_can_write_pieces_and_wait_for_a_gate() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let events = server.ask(wire, "SendStreamingMessage", say("chunks 3")).stream().await.rest().await;
        let expected = ["task submitted", "working", "piece", "piece append", "piece append last", "completed"];
        assert_eq!(gists(&events), expected, "{wire}");
        assert!(events[2..5].iter().all(|event| event.text() == "0123456789".repeat(10)), "{wire}");
        let events = server.ask(wire, "SendStreamingMessage", say("chunks 1")).stream().await.rest().await;
        assert_eq!(gists(&events), ["task submitted", "working", "piece last", "completed"], "{wire}");
        let opened = server.make(wire, &format!("open {wire}")).await;
        assert_eq!(opened["artifacts"][0]["parts"][0]["text"], wire.to_string(), "opens, then as echo");
        let gated = server.make(wire, &format!("gate {wire} chunks 2")).await;
        assert_eq!(gated["artifacts"][0]["parts"].as_array().unwrap().len(), 2, "{wire}: the gate was already open");
        for words in ["chunks x", "slow x", "data"] {
            assert_eq!(server.make(wire, words).await["status"]["state"], "TASK_STATE_FAILED", "{wire} {words}");
        }
        let data = with(say("data"), json!({"message": {"parts": [{"text": "data"}, {"data": {"a": [true]}}]}}));
        let task = server.ask(wire, "SendMessage", data).send().await.ok();
        assert_eq!(task["task"]["artifacts"][0]["parts"], json!([{"data": {"a": [true]}}]), "{wire}");
    })
    .await;
}

#[tokio::test]
async fn verbs_count_their_ticks_while_they_are_slow() {
    let server = Server::shared();
    let ticks = async |id: &str| crate::raw::http(&server.admin, "GET", &format!("/test/ticks/{id}"), &[], "").await;
    let task = server.make(Binding::JsonRpc, "slow 0.5").await;
    let counted: u64 = ticks(task["id"].as_str().unwrap()).await.text().trim().parse().unwrap();
    assert!((1..=11).contains(&counted), "{counted}");
    assert_eq!(ticks("none").await.status, 404);
}
