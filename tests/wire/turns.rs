//! Tasks that wait for the client: their answers, what resumes them, and two concurrent follow-ups.

use serde_json::{Value, json};

use crate::raw::{on_every_wire, say, say_at_once, say_to, with};
use crate::streams::gists;
use crate::support::{Server, WIRES};

#[tokio::test]
async fn c29_a_blocking_send_returns_when_the_client_must_act() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for (words, state, message) in [
            ("ask", "TASK_STATE_INPUT_REQUIRED", true),
            ("auth", "TASK_STATE_AUTH_REQUIRED", true),
            ("tck-input-required", "TASK_STATE_INPUT_REQUIRED", false),
            ("tck-auth-required", "TASK_STATE_AUTH_REQUIRED", true),
        ] {
            let task = server.make(wire, words).await;
            assert_eq!(task["status"]["state"], state, "{wire} {words}");
            assert_eq!(task["status"].get("message").is_some(), message, "{wire} {words}");
            if message {
                check_message(&task["status"]["message"], &task);
            }
            assert_eq!(task["history"].as_array().unwrap().len(), 1, "{wire} {words}");
            // It can be cancelled.
            let canceled = server.ask(wire, "CancelTask", json!({"id": task["id"]})).send().await.ok();
            assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{wire} {words}");
            // Another one can be continued.
            let task = server.make(wire, words).await;
            let id = task["id"].as_str().unwrap();
            let answered = server.ask(wire, "SendMessage", say_to(id, "echo more")).send().await.ok();
            assert_eq!(answered["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire} {words}");
            assert_eq!(answered["task"]["id"], id, "{wire} {words}");
        }
    })
    .await;
}

/// Checks that a message of the server has an id, a role, its context, its task and a part.
fn check_message(message: &Value, task: &Value) {
    assert_eq!(message["role"], "ROLE_AGENT", "{message}");
    assert_eq!((&message["contextId"], &message["taskId"]), (&task["contextId"], &task["id"]), "{message}");
    assert_ne!(message["messageId"].as_str().unwrap(), "", "{message}");
    assert!(!message["parts"].as_array().unwrap().is_empty(), "{message}");
}

async fn resume(server: &Server, task: &str) -> u16 {
    crate::raw::http(&server.admin, "POST", &format!("/test/resume/{task}"), &[], "").await.status
}

#[tokio::test]
async fn c30_a_stream_continues_when_the_authorization_is_given() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let mut stream = server.ask(wire, "SendStreamingMessage", say("auth")).stream().await;
        let first = stream.event().await;
        let id = first.value["task"]["id"].as_str().unwrap();
        let waits = stream.event().await;
        assert_eq!(gists(&[first.clone(), waits.clone()]), ["task submitted", "auth_required"], "{wire}");
        check_message(&waits.value["statusUpdate"]["status"]["message"], &first.value["task"]);
        // This stream stays open, and so does one that is opened later.
        let mut later = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
        assert_eq!(gists(&[later.event().await]), ["task auth_required"], "{wire}");
        assert_eq!(resume(server, id).await, 204);
        assert_eq!(gists(&stream.rest().await), ["working", "completed"], "{wire}");
        assert_eq!(gists(&later.rest().await), ["working", "completed"], "{wire}");
        let task = server.task(wire, id).await;
        assert_eq!(task["history"].as_array().unwrap().len(), 2, "{wire}: no message came from the client");
        // There is nothing to resume any more. The task may still be in memory for its readers.
        assert!(matches!(resume(server, id).await, 404 | 409), "{wire}");
    })
    .await;
}

#[tokio::test]
async fn c30_a_blocking_send_returns_at_auth_required_and_the_task_continues_later() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let task = server.make(wire, "auth").await;
        assert_eq!(task["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{wire}");
        let id = task["id"].as_str().unwrap();
        let mut stream = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
        stream.event().await;
        assert_eq!(resume(server, id).await, 204);
        assert_eq!(gists(&stream.rest().await), ["working", "completed"], "{wire}");
    })
    .await;
}

#[tokio::test]
async fn s03_an_accepted_answer_moves_a_waiting_task_to_working_at_once() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for waits in ["ask", "tck-auth-required"] {
            // A stream: the question is not open any more in its first event.
            let asked = server.make(wire, waits).await;
            let id = asked["id"].as_str().unwrap();
            let mut watch = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
            watch.event().await;
            let events = server.ask(wire, "SendStreamingMessage", say_to(id, "echo 42")).stream().await.rest().await;
            assert_eq!(gists(&events)[0], "task working", "{wire} {waits}");
            let first = &events[0].value["task"];
            assert_eq!(first["status"].get("message"), None, "{wire} {waits}");
            assert_eq!(first["history"][1]["role"], "ROLE_AGENT", "{wire} {waits}");
            assert_eq!(gists(&[watch.event().await]), ["working"], "{wire} {waits}");
            // An answer at once.
            let asked = server.make(wire, waits).await;
            let id = asked["id"].as_str().unwrap();
            let params = with(say_at_once("slow 0.2"), json!({"message": {"taskId": id}}));
            let at_once = server.ask(wire, "SendMessage", params).send().await.ok();
            let state = at_once["task"]["status"]["state"].as_str().unwrap();
            assert!(["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"].contains(&state), "{wire} {waits}: {state}");
            let state = server.task(wire, id).await["status"]["state"].clone();
            assert!(state == "TASK_STATE_WORKING" || state == "TASK_STATE_COMPLETED", "{wire} {waits}: {state}");
        }
    })
    .await;
}

#[tokio::test]
async fn s09_a_stream_begins_without_the_message_that_was_just_sent() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let begin = async |params: Value| {
            let mut stream = server.ask(wire, "SendStreamingMessage", params).stream().await;
            stream.event().await.value["task"].take()
        };
        let asked = begin(say("ask")).await;
        assert_eq!(asked.get("history"), None, "{wire}");
        let id = asked["id"].as_str().unwrap();
        while server.task(wire, id).await["status"]["state"] != "TASK_STATE_INPUT_REQUIRED" {}
        // What was said before stays.
        let answered = begin(say_to(id, "42")).await;
        assert_eq!(answered["history"].as_array().unwrap().len(), 2, "{wire}");
        let whole = begin(with(say("echo hi"), json!({"configuration": {"historyLength": 5}}))).await;
        assert_eq!(whole["history"].as_array().unwrap().len(), 1, "{wire}");
        let stored = server.task(wire, id).await;
        assert_eq!(stored["history"].as_array().unwrap().len(), 3, "{wire}");
    })
    .await;
}

#[tokio::test]
async fn s05_timestamps_have_three_fraction_digits() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for _ in 0..5 {
            let time = server.make(wire, "echo hi").await["status"]["timestamp"].as_str().unwrap().to_owned();
            assert_eq!(time.len(), "2026-01-01T00:00:00.000Z".len(), "{wire}: {time}");
        }
    })
    .await;
}

#[tokio::test]
async fn c34_of_two_concurrent_follow_ups_both_are_stored_or_one_is_refused() {
    let server = Server::shared();
    for wire in WIRES {
        for _ in 0..10 {
            let asked = server.make(wire, "ask").await;
            let id = asked["id"].as_str().unwrap();
            let mut watch = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
            watch.event().await;
            let answers = ["first", "second"].map(|words| server.ask(wire, "SendMessage", say_to(id, words)));
            let [first, second] = &answers;
            let (first, second) = futures::future::join(first.send(), second.send()).await;
            let refused: usize = [first, second]
                .map(|answer| match answer.outcome() {
                    Err(refusal) => {
                        assert_eq!(refusal.reason, "UNSUPPORTED_OPERATION", "{wire}: the task has ended");
                        1
                    }
                    Ok(answer) => {
                        assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
                        0
                    }
                })
                .iter()
                .sum();
            let states = gists(&watch.rest().await);
            assert_eq!(states.iter().filter(|state| *state == "completed").count(), 1, "{wire}: {states:?}");
            let task = server.task(wire, id).await;
            let said: Vec<_> = task["history"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
            assert_eq!(said.iter().filter(|role| *role == "ROLE_USER").count(), 3 - refused, "{wire}: {said:?}");
            assert_eq!(said[..2], ["ROLE_USER", "ROLE_AGENT"], "{wire}");
        }
    }
}

#[tokio::test]
async fn s15_history_has_every_message_once_and_in_order() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let task = server.make(wire, "tck-multi-turn").await;
        let id = task["id"].as_str().unwrap();
        for words in ["second", "third", "done"] {
            server.ask(wire, "SendMessage", say_to(id, words)).send().await.ok();
        }
        let task = server.task(wire, id).await;
        let history = task["history"].as_array().unwrap();
        let said: Vec<_> = history.iter().map(|m| m["parts"][0]["text"].as_str().unwrap()).collect();
        let asks = said[1];
        assert_eq!(said, ["tck-multi-turn", asks, "second", asks, "third", asks, "done"], "{wire}");
        for message in history {
            assert_eq!((&message["taskId"], &message["contextId"]), (&task["id"], &task["contextId"]), "{wire}");
            if message["role"] == "ROLE_AGENT" {
                check_message(message, &task);
            }
        }
        let mut ids: Vec<_> = history.iter().map(|m| m["messageId"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 7, "{wire}: expected every message once, each with its own id");
    })
    .await;
}

#[tokio::test]
async fn s15_a_message_to_a_working_task_is_accepted_and_gets_its_own_turn() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let task = server.ask(wire, "SendMessage", say_at_once("slow 0.4")).send().await.ok();
        let id = task["task"]["id"].as_str().unwrap();
        let mut own = server.ask(wire, "SendStreamingMessage", say_to(id, "echo after")).stream().await;
        assert_eq!(gists(&[own.event().await]), ["task working"], "{wire}");
        assert_eq!(gists(&own.rest().await), ["piece last", "working", "piece last", "completed"], "{wire}");
        let task = server.task(wire, id).await;
        let said: Vec<_> = task["history"].as_array().unwrap().iter().map(|m| m["parts"][0]["text"].clone()).collect();
        assert_eq!(said, ["slow 0.4", "echo after"], "{wire}");
        let made: Vec<_> = task["artifacts"].as_array().unwrap().iter().map(|a| a["name"].clone()).collect();
        assert_eq!(made, ["slow", "echo"], "{wire}");
    })
    .await;
}
