//! Streams: the order of events, where they end, and that clients do not affect each other.

use std::time::Duration;

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{Event, Events, fresh, http, on_every_wire, say, say_at_once, say_to};
use crate::support::{Server, WIRES};

/// Describes an event without ids, times and text: `task Submitted`, `Working`, `piece append`, ...
pub(crate) fn gist(event: &Event) -> String {
    let state = event.state().trim_start_matches("TASK_STATE_").to_lowercase();
    match event.kind() {
        "task" => format!("task {state}"),
        "statusUpdate" => state,
        "artifactUpdate" => {
            let update = &event.value["artifactUpdate"];
            let is = |key: &str| update[key].as_bool().unwrap_or(false);
            format!("piece{}{}", if is("append") { " append" } else { "" }, if is("lastChunk") { " last" } else { "" })
        }
        other => other.to_owned(),
    }
}

pub(crate) fn gists(events: &[Event]) -> Vec<String> {
    events.iter().map(gist).collect()
}

/// Checks that every event names its task and context, and that event ids increase.
fn check_places(events: &[Event]) -> (String, String) {
    let task = &events[0].value["task"];
    let (id, context) = (task["id"].as_str().unwrap(), task["contextId"].as_str().unwrap());
    for event in &events[1..] {
        let update = event.value.as_object().unwrap().values().next().unwrap();
        assert_eq!((&update["taskId"], &update["contextId"]), (&json!(id), &json!(context)), "{event:?}");
    }
    let places: Vec<_> = events.iter().filter_map(Event::place).collect();
    assert!(places.is_empty() || places.len() == events.len(), "{places:?}");
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
    (id.to_owned(), context.to_owned())
}

#[tokio::test]
async fn c18_a_stream_begins_with_the_task_and_ends_with_its_terminal_state() {
    let server = Server::shared();
    let mut streams = Vec::new();
    for wire in WIRES {
        let mut stream = server.ask(wire, "SendStreamingMessage", say("echo hi")).stream().await;
        if wire != Binding::Grpc {
            assert_eq!(stream.headers["content-type"], "text/event-stream", "{wire}");
            assert_eq!(stream.headers["cache-control"], "no-cache", "{wire}");
        }
        let events = stream.rest().await;
        assert_eq!(gists(&events), ["task submitted", "working", "piece last", "completed"], "{wire}");
        let (id, context) = check_places(&events);
        // The events are the same over all bindings, except for ids and times.
        let text = Value::Array(events.iter().map(|event| event.value.clone()).collect()).to_string();
        let text = text.replace(&id, "ID").replace(&context, "CONTEXT");
        let mut events: Value = serde_json::from_str(&text).unwrap();
        for event in events.as_array_mut().unwrap() {
            let update = event.as_object_mut().unwrap().values_mut().next().unwrap();
            if let Some(status) = update.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("timestamp");
            }
            if let Some(message) = update.pointer_mut("/history/0").and_then(Value::as_object_mut) {
                message.remove("messageId");
            }
            // JSON writes required fields even if they have their default; the protobuf reader here does not.
            update.as_object_mut().unwrap().retain(|_, value| *value != json!(false));
        }
        streams.push(events);
    }
    assert_eq!(streams[0], streams[1]);
    assert_eq!(streams[1], streams[2]);
}

#[tokio::test]
async fn c19_a_message_without_parts_is_refused_before_a_stream_begins() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let params = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}});
        let refused = server.ask(wire, "SendStreamingMessage", params).open().await;
        let answer = *refused.map(|_| "a stream").unwrap_err();
        let (status, media_type) = (answer.reply.status, answer.reply.header("content-type").to_owned());
        answer.refused_fields(&["message.parts"]);
        match wire {
            Binding::HttpJson => assert_eq!((status, media_type.as_str()), (400, "application/json")),
            Binding::JsonRpc => assert_eq!((status, media_type.as_str()), (200, "application/json")),
            Binding::Grpc => {}
        }
    })
    .await;
}

/// Waits until a task has ended.
async fn end_of(server: &Server, wire: Binding, id: &str) -> Value {
    for _ in 0..400 {
        let task = server.task(wire, id).await;
        if !matches!(task["status"]["state"].as_str().unwrap(), "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING") {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{id} did not end");
}

#[tokio::test]
async fn c21_a_client_that_disconnects_does_not_affect_its_task() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let mut stream = server.ask(wire, "SendStreamingMessage", say("slow 1")).stream().await;
        let first = stream.event().await;
        let id = first.value["task"]["id"].as_str().unwrap();
        drop(stream);
        let task = end_of(server, wire, id).await;
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "slow 1", "{wire}");
        // The same for a unary call.
        let context = fresh();
        let words = crate::raw::with(say("slow 0.5"), json!({"message": {"contextId": context}}));
        let asked = server.ask(wire, "SendMessage", words);
        assert!(tokio::time::timeout(Duration::from_millis(350), asked.send()).await.is_err(), "{wire}");
        let list = server.ask(wire, "ListTasks", json!({"contextId": context})).send().await.ok();
        let task = end_of(server, wire, list["tasks"][0]["id"].as_str().unwrap()).await;
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
    })
    .await;
}

async fn subscribe(server: &Server, wire: Binding, id: &str) -> Events {
    server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await
}

#[tokio::test]
async fn c22_subscribers_see_the_same_events_and_do_not_affect_each_other() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let gate = fresh();
        let params = say_at_once(&format!("gate {gate} chunks 50"));
        let task = server.ask(wire, "SendMessage", params).send().await.ok();
        let id = task["task"]["id"].as_str().unwrap();
        let mut killed = subscribe(server, wire, id).await;
        let mut all = Vec::new();
        for other in WIRES {
            all.push((other, subscribe(server, other, id).await));
        }
        let mut seen = vec![killed.event().await];
        server.make(wire, &format!("open {gate}")).await;
        for _ in 0..5 {
            seen.push(killed.event().await);
        }
        drop(killed);
        let mut streams = Vec::new();
        for (other, mut stream) in all {
            let events = stream.rest().await;
            assert_eq!(events.iter().filter(|event| event.kind() == "artifactUpdate").count(), 50, "{wire}, {other}");
            assert_eq!(gist(events.last().unwrap()), "completed");
            check_places(&events);
            let values = |events: &[Event]| events.iter().map(|event| written(&event.value)).collect::<Vec<_>>();
            assert!(values(&events).starts_with(&values(&seen)), "{wire}, {other}");
            if other != Binding::Grpc && wire != Binding::Grpc {
                assert_eq!(events[..seen.len()], seen[..], "{wire}, {other}");
            }
            streams.push(values(&events));
        }
        assert!(streams[0] == streams[1] && streams[1] == streams[2], "{wire}");
    })
    .await;
}

/// Returns an event in a form that can be compared between bindings.
fn written(value: &Value) -> Value {
    crate::raw::normal(&crate::raw::output("SubscribeToTask"), value)
}

#[tokio::test]
async fn c23_a_subscriber_at_any_moment_gets_the_whole_text_once() {
    const MOMENTS: usize = 70;
    let server = Server::shared();
    let text = "0123456789".repeat(10 * 200);
    let text = &text;
    on_every_wire(|wire| async move {
        let (mut moments, mut in_the_middle, mut round) = (0, 0, 0_u64);
        while moments < MOMENTS {
            round += 1;
            assert!(round < 100, "{wire}: {moments} moments in {round} rounds");
            let task = server.ask(wire, "SendMessage", say_at_once("chunks 200")).send().await.ok();
            let id = task["task"]["id"].as_str().unwrap();
            let subscribers = (0..20).map(|n| async move {
                // Spreads the subscriptions over the time that the task takes, which depends on the machine.
                tokio::time::sleep(Duration::from_micros((n * 7919 + round * 104_729) % 15_000)).await;
                let ask = server.ask(wire, "SubscribeToTask", json!({"id": id}));
                match ask.open().await {
                    Ok(mut stream) => Some(stream.rest().await),
                    Err(answer) => {
                        answer.refused("UNSUPPORTED_OPERATION");
                        None
                    }
                }
            });
            for events in futures::future::join_all(subscribers).await.into_iter().flatten() {
                check_places(&events);
                let parts = &events[0].value["task"]["artifacts"][0]["parts"];
                let mut whole = crate::raw::parts_text(parts);
                let before = whole.len();
                events.iter().for_each(|event| whole.push_str(&event.text()));
                assert!(whole == *text, "{wire}: {before} bytes, then {} events: {}", events.len(), whole.len());
                assert_eq!(gist(events.last().unwrap()), "completed", "{wire}");
                moments += 1;
                in_the_middle += usize::from(before > 0 && before < text.len());
            }
        }
        println!("{wire}: {moments} moments in {round} rounds, {in_the_middle} in the middle of the text");
    })
    .await;
}

#[tokio::test]
async fn c26_get_and_post_subscribe_with_and_without_a_body() {
    let server = Server::shared();
    let task = server.ask(Binding::HttpJson, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
    let id = task["task"]["id"].as_str().unwrap();
    let mut firsts = Vec::new();
    for prefix in ["", "/kit"] {
        for (verb, body) in [
            ("GET", String::new()),
            ("POST", String::new()),
            ("POST", "{}".to_owned()),
            ("POST", json!({"id": id}).to_string()),
            ("POST", json!({"id": id, "tenant": "kit"}).to_string()),
        ] {
            for slash in ["", "/"] {
                if prefix.is_empty() && body.contains("tenant") {
                    continue;
                }
                let path = format!("{prefix}/tasks/{id}:subscribe{slash}");
                let mut headers = vec![("a2a-version".to_owned(), "1.0".to_owned())];
                if !body.is_empty() {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                let response = crate::raw::open(&server.url, verb, &path, &headers, body.clone()).await;
                assert_eq!(response.headers()["content-type"], "text/event-stream", "{verb} {path} {body}");
                let mut stream = Events::of_http(response);
                firsts.push(stream.event().await);
            }
        }
    }
    assert!(firsts.iter().all(|event| *event == firsts[0] && event.value["task"]["id"] == id), "{firsts:?}");
    for (path, body, field) in [
        (format!("/tasks/{id}:subscribe"), json!({"id": "other"}), "id"),
        (format!("/kit/tasks/{id}:subscribe"), json!({"tenant": "other"}), "tenant"),
        (format!("/tasks/{id}:cancel"), json!({"id": "other"}), "id"),
    ] {
        let reply = http(
            &server.url,
            "POST",
            &path,
            &[("a2a-version", "1.0"), ("content-type", "application/json")],
            body.to_string(),
        )
        .await;
        assert_eq!(reply.json()["error"]["details"][1]["fieldViolations"][0]["field"], field, "{}", reply.text());
    }
    let cancel = http(
        &server.url,
        "POST",
        &format!("/tasks/{id}:cancel"),
        &[("a2a-version", "1.0"), ("content-type", "application/json")],
        "",
    )
    .await;
    assert_eq!(cancel.json()["status"]["state"], "TASK_STATE_CANCELED", "a cancel needs no body");
}

#[tokio::test]
async fn c27_an_answer_without_a_task_is_one_message_and_creates_no_task() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let context = fresh();
        let named = json!({"message": {"contextId": context}});
        for params in [say("msg hi"), say_at_once("msg hi")] {
            let params = crate::raw::with(params, named.clone());
            let answer = server.ask(wire, "SendMessage", params.clone()).send().await.ok();
            assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["message"], "{wire}");
            check_message(&answer["message"], &context);
            let events = server.ask(wire, "SendStreamingMessage", params).stream().await.rest().await;
            assert_eq!(gists(&events), ["message"], "{wire}");
            check_message(&events[0].value["message"], &context);
        }
        let list = server.ask(wire, "ListTasks", json!({"contextId": context})).send().await.ok();
        assert_eq!((list["totalSize"].as_i64().unwrap_or(0), list["tasks"].as_array().map_or(0, Vec::len)), (0, 0));
        let unnamed = server.ask(wire, "SendMessage", say("msg hi")).send().await.ok();
        assert_ne!(unnamed["message"]["contextId"].as_str().unwrap_or_default(), "", "{wire}");
    })
    .await;
}

fn check_message(message: &Value, context: &str) {
    assert_eq!((&message["role"], &message["contextId"]), (&json!("ROLE_AGENT"), &json!(context)), "{message}");
    assert!(!message["messageId"].as_str().unwrap().is_empty() && message.get("taskId").is_none(), "{message}");
    assert_eq!(message["parts"], json!([{"text": "hi"}]), "{message}");
}

#[tokio::test]
async fn s03_a_send_stream_ends_at_input_required_and_a_subscription_at_a_terminal_state() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let events = server.ask(wire, "SendStreamingMessage", say("ask")).stream().await.rest().await;
        assert_eq!(gists(&events), ["task submitted", "input_required"], "{wire}");
        let id = events[0].value["task"]["id"].as_str().unwrap();
        let mut subscription = subscribe(server, wire, id).await;
        assert_eq!(gist(&subscription.event().await), "task input_required", "{wire}");
        // The follow-up's stream does not end because of the state from before its message.
        let answer = server.ask(wire, "SendStreamingMessage", say_to(id, "42")).stream().await.rest().await;
        assert_eq!(gists(&answer), ["task working", "completed"], "{wire}");
        assert_eq!(gists(&subscription.rest().await), ["working", "completed"], "{wire}");
        // A blocking send does not return because of the state from before its message either.
        let asked = server.make(wire, "tck-multi-turn").await;
        let id = asked["id"].as_str().unwrap();
        let again = server.ask(wire, "SendMessage", say_to(id, "more")).send().await.ok();
        assert_eq!(again["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{wire}");
        assert_ne!(again["task"]["status"]["message"]["messageId"], asked["status"]["message"]["messageId"], "{wire}");
        let done = server.ask(wire, "SendMessage", say_to(id, "done")).send().await.ok();
        assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
    })
    .await;
}
