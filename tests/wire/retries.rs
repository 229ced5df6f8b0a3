//! Retries: by idempotency key, or by message id for an agent that is configured so.

use futures::future::join_all;
use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{Ask, fresh, on_every_wire, say, say_to, with};
use crate::streams::gists;
use crate::support::{Server, TWO_AGENTS, WIRES};

const DEDUPING: &str = "\n[[agents]]\nname = \"once\"\nkind = \"conformance\"\ndedupe_message_id = true";

fn keyed(ask: Ask, key: &str) -> Ask {
    ask.header("Idempotency-Key", key)
}

/// Returns the id of the task in an answer.
fn id(answer: Value) -> String {
    answer["task"]["id"].as_str().unwrap_or_else(|| panic!("no task: {answer}")).to_owned()
}

/// Returns the number of tasks in a context.
async fn count(server: &Server, tenant: &str, context: &str) -> i64 {
    let list = json!({"tenant": tenant, "contextId": context});
    server.ask(Binding::JsonRpc, "ListTasks", list).send().await.ok()["totalSize"].as_i64().unwrap()
}

fn in_context(words: &str) -> (Value, String) {
    let context = fresh();
    (with(say(words), json!({"message": {"contextId": context}})), context)
}

#[tokio::test]
async fn c35_one_key_starts_one_task_over_all_bindings_and_in_parallel() {
    let server = Server::shared();
    for words in ["echo hi", "slow 0.3", "ask", "chunks 20"] {
        let ((params, context), key) = (in_context(words), fresh());
        let asks = (0..9).map(|n| keyed(server.ask(WIRES[n % 3], "SendMessage", params.clone()), &key));
        let answers = join_all(asks.map(|ask| async move { ask.send().await.ok() })).await;
        let ids: Vec<_> = answers.iter().cloned().map(id).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{words}: {ids:?}");
        let states: Vec<_> = answers.iter().map(|answer| answer["task"]["status"]["state"].clone()).collect();
        assert!(states.iter().all(|state| *state == states[0]), "{words}: {states:?}");
        assert_eq!(count(server, "", &context).await, 1, "{words}");
        // After the end, the answer is the same task with one copy of the artifact.
        let task = server.task(Binding::JsonRpc, &ids[0]).await;
        for wire in WIRES {
            let again = keyed(server.ask(wire, "SendMessage", params.clone()), &key).send().await.ok();
            let again = crate::raw::normal(&crate::raw::output("SendMessage"), &again);
            let task = crate::raw::normal(&crate::raw::output("SendMessage"), &json!({"task": task}));
            assert_eq!(again, task, "{words}, {wire}");
        }
    }
}

#[tokio::test]
async fn c35_a_message_id_is_a_key_only_for_an_agent_configured_so() {
    let server = Server::start(&format!("{TWO_AGENTS}{DEDUPING}"));
    let server = &server;
    for wire in WIRES {
        let (params, context) = in_context("slow 0.2");
        for (tenant, tasks) in [("once", 1), ("kit", 5)] {
            let params = with(params.clone(), json!({"tenant": tenant}));
            let answers = (0..5).map(|_| server.ask(wire, "SendMessage", params.clone()));
            let ids = join_all(answers.map(|ask| async move { id(ask.send().await.ok()) })).await;
            let mut ids: Vec<_> = ids.into_iter().collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), tasks, "{wire} {tenant}");
            assert_eq!(count(server, tenant, &context).await, i64::try_from(tasks).unwrap(), "{wire} {tenant}");
        }
        // The same id with another body is not a retry.
        let other = with(params, json!({"tenant": "once", "message": {"parts": [{"text": "echo other"}]}}));
        server.ask(wire, "SendMessage", other).send().await.refused("INVALID_PARAMS");
    }
}

#[tokio::test]
async fn s14_a_key_with_another_body_is_refused() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let (key, params) = (fresh(), say("echo hi"));
        let first = id(keyed(server.ask(wire, "SendMessage", params.clone()), &key).send().await.ok());
        for patch in [
            json!({"message": {"messageId": "other"}}),
            json!({"message": {"parts": [{"text": "echo other"}]}}),
            json!({"message": {"contextId": "other"}}),
            json!({"metadata": {"a": 1}}),
            json!({"configuration": {"historyLength": 1}}),
        ] {
            for method in ["SendMessage", "SendStreamingMessage"] {
                let other = keyed(server.ask(wire, method, with(params.clone(), patch.clone())), &key);
                let refusal = other.send().await.refused("INVALID_PARAMS");
                assert!(refusal.message.contains("key"), "{refusal:?}");
            }
        }
        // The default agent's name and no name are the same agent. The same key for another agent is another request.
        let named = with(params.clone(), json!({"tenant": "kit"}));
        assert_eq!(id(keyed(server.ask(wire, "SendMessage", named), &key).send().await.ok()), first);
        let other = with(params.clone(), json!({"tenant": "other"}));
        assert_ne!(id(keyed(server.ask(wire, "SendMessage", other), &key).send().await.ok()), first);
        // A key that is too long is refused. An empty key counts as absent.
        let long = keyed(server.ask(wire, "SendMessage", params.clone()), &"x".repeat(257));
        long.send().await.refused_fields(&["Idempotency-Key"]);
        let unkeyed = keyed(server.ask(wire, "SendMessage", params.clone()), "");
        assert_ne!(id(unkeyed.send().await.ok()), id(unkeyed.send().await.ok()));
    })
    .await;
}

#[tokio::test]
async fn s14_a_refused_request_does_not_use_up_its_key() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let key = fresh();
        let lost = say_to(&fresh(), "echo hi");
        for _ in 0..2 {
            keyed(server.ask(wire, "SendMessage", lost.clone()), &key).send().await.refused("TASK_NOT_FOUND");
        }
        keyed(server.ask(wire, "SendMessage", json!({})), &key).send().await.refused("INVALID_PARAMS");
        let good = say("echo hi");
        let first = id(keyed(server.ask(wire, "SendMessage", good.clone()), &key).send().await.ok());
        assert_eq!(id(keyed(server.ask(wire, "SendMessage", good), &key).send().await.ok()), first);
    })
    .await;
}

#[tokio::test]
async fn s14_a_retried_follow_up_is_in_the_history_once() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let asked = server.make(wire, "tck-multi-turn").await;
        let (key, params) = (fresh(), say_to(asked["id"].as_str().unwrap(), "more"));
        let asks = (0..5).map(|_| keyed(server.ask(wire, "SendMessage", params.clone()), &key));
        let answers = join_all(asks.map(|ask| async move { ask.send().await.ok() })).await;
        for answer in &answers {
            assert_eq!(answer["task"]["id"], asked["id"], "{wire}");
            assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{wire}");
        }
        let task = server.task(wire, asked["id"].as_str().unwrap()).await;
        let said: Vec<_> = task["history"].as_array().unwrap().iter().map(|m| m["parts"][0]["text"].clone()).collect();
        assert_eq!(said.iter().filter(|text| *text == "more").count(), 1, "{wire}: {said:?}");
    })
    .await;
}

#[tokio::test]
async fn s14_a_retry_after_a_restart_gets_the_same_answer() {
    let mut server = Server::two_agents();
    let requests =
        [("echo hi", fresh(), say("echo hi")), ("msg hi", fresh(), say("msg hi")), ("ask", fresh(), say("ask"))];
    let mut before = Vec::new();
    for (n, (_, key, params)) in requests.iter().enumerate() {
        before.push(keyed(server.ask(WIRES[n], "SendMessage", params.clone()), key).send().await.ok());
    }
    for restarted in [false, true] {
        if restarted {
            server.kill_and_restart();
        }
        for ((words, key, params), before) in requests.iter().zip(&before) {
            for wire in WIRES {
                let again = keyed(server.ask(wire, "SendMessage", params.clone()), key).send().await.ok();
                let normal = |value: &Value| crate::raw::normal(&crate::raw::output("SendMessage"), value);
                assert_eq!(normal(&again), normal(before), "{words} {wire}, restarted: {restarted}");
                let other = with(params.clone(), json!({"message": {"messageId": "other"}}));
                keyed(server.ask(wire, "SendMessage", other), key).send().await.refused("INVALID_PARAMS");
            }
        }
    }
}

#[tokio::test]
async fn s14_a_retried_stream_has_the_task_and_the_events_that_follow() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let stream = |params: &Value, key: &str| keyed(server.ask(wire, "SendStreamingMessage", params.clone()), key);
        // While the task runs.
        let gate = fresh();
        let (key, params) = (fresh(), say(&format!("gate {gate} chunks 3")));
        let mut first = stream(&params, &key).stream().await;
        let begun = [first.event().await, first.event().await];
        assert_eq!(gists(&begun), ["task submitted", "working"], "{wire}");
        let mut again = stream(&params, &key).stream().await;
        assert_eq!(gists(&[again.event().await]), ["task working"], "{wire}");
        server.make(wire, &format!("open {gate}")).await;
        let rest = gists(&first.rest().await);
        assert_eq!(gists(&again.rest().await), rest, "{wire}");
        // After its end, as a stream and as a unary call.
        let events = stream(&params, &key).stream().await.rest().await;
        assert_eq!(gists(&events), ["task completed"], "{wire}");
        let answer = keyed(server.ask(wire, "SendMessage", params.clone()), &key).send().await.ok();
        assert_eq!(answer["task"], events[0].value["task"], "{wire}");
        // An answer without a task is repeated too.
        let (key, params) = (fresh(), say("msg hi"));
        let first = stream(&params, &key).stream().await.rest().await;
        assert_eq!(gists(&first), ["message"], "{wire}");
        assert_eq!(stream(&params, &key).stream().await.rest().await, first, "{wire}");
    })
    .await;
}

#[tokio::test]
async fn s14_a_key_may_have_any_bytes() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for key in ["schl\u{fc}ssel", "\u{1f511}", "a b, c;d=\"e\"", "x"] {
            let key = format!("{key}{}", fresh());
            let (params, context) = in_context("echo hi");
            let ids = [0, 1].map(|_| keyed(server.ask(wire, "SendMessage", params.clone()), &key));
            let ids = join_all(ids.iter().map(Ask::send)).await.into_iter().map(|answer| id(answer.ok()));
            let ids: Vec<_> = ids.collect();
            assert_eq!(ids[0], ids[1], "{wire} {key}");
            assert_eq!(count(server, "", &context).await, 1, "{wire} {key}");
        }
    })
    .await;
}
