//! Terminal states are final, and a cancel really stops the work.

use std::time::Duration;

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{http, on_every_wire, say, say_at_once, say_to};
use crate::streams::gists;
use crate::support::Server;

/// Returns one task for each terminal state.
async fn ended(server: &Server, wire: Binding) -> Vec<(&'static str, Value)> {
    let canceled = server.ask(wire, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
    let canceled = server.ask(wire, "CancelTask", json!({"id": canceled["task"]["id"]})).send().await.ok();
    vec![
        ("TASK_STATE_COMPLETED", server.make(wire, "echo hi").await),
        ("TASK_STATE_FAILED", server.make(wire, "fail").await),
        ("TASK_STATE_REJECTED", server.make(wire, "reject").await),
        ("TASK_STATE_FAILED", server.make(wire, "boom").await),
        ("TASK_STATE_CANCELED", canceled),
    ]
}

#[tokio::test]
async fn c01_c02_c33_s02_s13_an_ended_task_does_not_change() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for (state, task) in ended(server, wire).await {
            assert_eq!(task["status"]["state"], state, "{wire}");
            let id = task["id"].as_str().unwrap();
            for method in ["SendMessage", "SendStreamingMessage"] {
                let refusal = server.ask(wire, method, say_to(id, "echo more")).send().await;
                let refusal = refusal.refused("UNSUPPORTED_OPERATION");
                assert!(refusal.message.contains(state), "{refusal:?}");
            }
            server.ask(wire, "SubscribeToTask", json!({"id": id})).send().await.refused("UNSUPPORTED_OPERATION");
            for _ in 0..2 {
                let refusal = server.ask(wire, "CancelTask", json!({"id": id})).send().await;
                assert!(refusal.refused("TASK_NOT_CANCELABLE").message.contains(state), "{wire}");
            }
            assert_eq!(server.task(wire, id).await, task, "{wire}: the task has changed");
        }
    })
    .await;
}

#[tokio::test]
async fn c31_a_cancel_stops_the_work_and_ends_every_stream() {
    let server = Server::shared();
    let ticks = async |id: &str| {
        let counted = http(&server.admin, "GET", &format!("/test/ticks/{id}"), &[], "").await;
        counted.text().trim().parse::<u64>().unwrap()
    };
    on_every_wire(|wire| async move {
        let mut own = server.ask(wire, "SendStreamingMessage", say("slow 30")).stream().await;
        let first = own.event().await;
        let id = first.value["task"]["id"].as_str().unwrap();
        assert_eq!(gists(&[own.event().await]), ["working"], "{wire}");
        let mut other = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
        other.event().await;
        let mut counted = 0;
        while counted < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if http(&server.admin, "GET", &format!("/test/ticks/{id}"), &[], "").await.status == 200 {
                counted = ticks(id).await;
            }
        }
        // Several cancels at once: each gets the canceled task or the error that it has already ended.
        let cancel = server.ask(wire, "CancelTask", json!({"id": id}));
        let answers = futures::future::join_all((0..3).map(|_| cancel.send())).await;
        let canceled = answers.into_iter().filter_map(|answer| match answer.outcome() {
            Ok(task) => {
                assert_eq!(task["status"]["state"], "TASK_STATE_CANCELED", "{wire}");
                Some(())
            }
            Err(refusal) => {
                assert_eq!(refusal.reason, "TASK_NOT_CANCELABLE", "{wire}");
                None
            }
        });
        assert!(canceled.count() > 0, "{wire}");
        assert_eq!(gists(&own.rest().await), ["canceled"], "{wire}");
        assert_eq!(gists(&other.rest().await), ["canceled"], "{wire}");
        tokio::time::sleep(Duration::from_millis(150)).await;
        let counted = ticks(id).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(ticks(id).await, counted, "{wire}: the work continued");
        let task = server.task(wire, id).await;
        server.ask(wire, "CancelTask", json!({"id": id})).send().await.refused("TASK_NOT_CANCELABLE");
        assert_eq!(server.task(wire, id).await, task, "{wire}");
    })
    .await;
}

#[tokio::test]
async fn c31_a_blocking_send_returns_when_its_task_is_canceled() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let context = crate::raw::fresh();
        let params = crate::raw::with(say("tck-cancel"), json!({"message": {"contextId": context}}));
        let send = server.ask(wire, "SendMessage", params);
        let cancel = async {
            loop {
                let list = server.ask(wire, "ListTasks", json!({"contextId": context})).send().await.ok();
                if let Some(id) = list["tasks"][0]["id"].as_str() {
                    return server.ask(wire, "CancelTask", json!({"id": id})).send().await.ok();
                }
            }
        };
        let (answer, canceled) = futures::future::join(send.send(), cancel).await;
        assert_eq!(answer.ok()["task"], canceled, "{wire}");
    })
    .await;
}
