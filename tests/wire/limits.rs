//! Limits: a refused request leaves nothing behind, and a task that grows too large fails with a reason.

use serde_json::json;

use crate::raw::{fresh, on_every_wire, say, say_at_once, with};
use crate::streams::gists;
use crate::support::{Server, TWO_AGENTS};

#[tokio::test]
async fn a_refused_stream_creates_no_task() {
    let server = Server::start(&format!("{TWO_AGENTS}\n[limits]\nstreams = 1"));
    let server = &server;
    let wire = tricord::client::Binding::HttpJson;
    let task = server.ask(wire, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
    let open = server.ask(wire, "SubscribeToTask", json!({"id": task["task"]["id"]})).stream().await;
    on_every_wire(|wire| async move {
        let (context, key) = (fresh(), fresh());
        let params = with(say("echo hi"), json!({"message": {"contextId": context}}));
        for _ in 0..2 {
            let ask = server.ask(wire, "SendStreamingMessage", params.clone());
            ask.send().await.refused("RATE_LIMITED");
            ask.header("idempotency-key", &key).send().await.refused("RATE_LIMITED");
        }
        let asked = server.make(wire, "ask").await;
        let answer = crate::raw::say_to(asked["id"].as_str().unwrap(), "42");
        server.ask(wire, "SendStreamingMessage", answer).send().await.refused("RATE_LIMITED");
        let list = server.ask(wire, "ListTasks", json!({"contextId": context})).send().await.ok();
        assert_eq!(list["totalSize"].as_u64().unwrap_or(0), 0, "{wire}: {list}");
        assert_eq!(server.task(wire, asked["id"].as_str().unwrap()).await, asked, "{wire}");
        // The key is still free, and calls without a stream work.
        let sent = server.ask(wire, "SendMessage", params).header("idempotency-key", &key).send().await.ok();
        assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
    })
    .await;
    drop(open);
}

#[tokio::test]
async fn a_task_that_grows_too_large_fails_with_a_reason() {
    for (limit, words) in [("task_records = 20", "chunks 100"), ("task_size = \"4KiB\"", "chunks 100")] {
        let server = Server::start(&format!("{TWO_AGENTS}\n[limits]\n{limit}"));
        let server = &server;
        on_every_wire(|wire| async move {
            let events = server.ask(wire, "SendStreamingMessage", say(words)).stream().await.rest().await;
            assert_eq!(events.last().unwrap().state(), "TASK_STATE_FAILED", "{wire} {limit}: {:?}", gists(&events));
            let task = server.task(wire, events[0].value["task"]["id"].as_str().unwrap()).await;
            let text = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
            assert!(text.contains("larger"), "{wire} {limit}: {text}");
            // Other tasks are not affected.
            assert_eq!(server.make(wire, "echo hi").await["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_task_is_found_by_its_exact_id_only() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let asked = server.make(wire, "ask").await;
        let id = asked["id"].as_str().unwrap();
        for other in
            [id.to_uppercase(), id.replace('-', ""), format!("{{{id}}}"), format!("urn:uuid:{id}"), format!(" {id}")]
        {
            if wire == tricord::client::Binding::HttpJson && other.contains([' ', '{']) {
                continue;
            }
            for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
                server.ask(wire, method, json!({"id": other})).send().await.refused("TASK_NOT_FOUND");
            }
            let answer = crate::raw::say_to(&other, "42");
            server.ask(wire, "SendMessage", answer).send().await.refused("TASK_NOT_FOUND");
        }
        assert_eq!(server.task(wire, id).await, asked, "{wire}");
    })
    .await;
}
