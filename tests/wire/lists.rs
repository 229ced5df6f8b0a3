//! Lists and histories: pages, filters and history lengths.

use std::collections::HashSet;

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{fresh, http, on_every_wire, say, say_to, with};
use crate::support::{Server, WIRES};

async fn list(server: &Server, wire: Binding, params: Value) -> Value {
    server.ask(wire, "ListTasks", params).send().await.ok()
}

fn ids(list: &Value) -> Vec<String> {
    list["tasks"].as_array().into_iter().flatten().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn c45_history_length_limits_every_answer_and_not_the_stored_history() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let asked = server.make(wire, "tck-multi-turn").await;
        let id = asked["id"].as_str().unwrap();
        server.ask(wire, "SendMessage", say_to(id, "more")).send().await.ok();
        let whole = server.task(wire, id).await["history"].clone();
        assert_eq!(whole.as_array().unwrap().len(), 3);
        let context = &asked["contextId"];
        for (length, newest) in [(0, 0), (1, 1), (2, 2), (3, 3), (1000, 3)] {
            let expected = (newest > 0).then(|| json!(whole.as_array().unwrap()[3 - newest..]));
            let get = server.ask(wire, "GetTask", json!({"id": id, "historyLength": length})).send().await.ok();
            assert_eq!(get.get("history"), expected.as_ref(), "{wire} {length}");
            let page = list(server, wire, json!({"contextId": context, "historyLength": length})).await;
            assert_eq!(page["tasks"][0].get("history"), expected.as_ref(), "{wire} {length}");
        }
        for method in ["GetTask", "ListTasks"] {
            let params =
                with(json!({"historyLength": -1}), if method == "GetTask" { json!({"id": id}) } else { json!({}) });
            server.ask(wire, method, params).send().await.refused_fields(&["historyLength"]);
        }
        // Of sends: the answer, and the first event.
        let wish = |length: i32| json!({"configuration": {"historyLength": length}});
        for method in ["SendMessage", "SendStreamingMessage"] {
            let params = with(say_to(id, "more"), wish(-1));
            server.ask(wire, method, params).send().await.refused_fields(&["configuration.historyLength"]);
        }
        let length = |task: &Value| task.get("history").map(|history| history.as_array().unwrap().len());
        let answer = server.ask(wire, "SendMessage", with(say_to(id, "again"), wish(0))).send().await.ok();
        assert_eq!(length(&answer["task"]), None, "{wire}");
        let answer = server.ask(wire, "SendMessage", with(say_to(id, "again"), wish(2))).send().await.ok();
        assert_eq!(length(&answer["task"]), Some(2), "{wire}");
        for (wished, found) in [(0, None), (1, Some(1)), (100, Some(13))] {
            let ask = server.ask(wire, "SendStreamingMessage", with(say_to(id, "more"), wish(wished)));
            let events = ask.stream().await.rest().await;
            assert_eq!(length(&events[0].value["task"]), found, "{wire} {wished}");
        }
        assert_eq!(length(&server.task(wire, id).await), Some(13), "{wire}: the stored history is not complete");
    })
    .await;
}

#[tokio::test]
async fn c46_pages_cover_every_task_once_even_while_one_changes() {
    let server = Server::start("[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n[store]\nurl = \"memory:\"");
    // Many tasks at once, so that their times are equal or close.
    let mut made = Vec::new();
    for group in 0..4 {
        let words = if group == 0 { "ask" } else { "echo hi" };
        let sends = (0..30).map(|n| server.ask(WIRES[n % 3], "SendMessage", say(words)));
        let answers = futures::future::join_all(sends.map(|ask| async move { ask.send().await.ok() })).await;
        made.extend(answers.iter().map(|answer| answer["task"]["id"].as_str().unwrap().to_owned()));
    }
    let all: HashSet<_> = made.iter().cloned().collect();
    assert_eq!(all.len(), 120);
    let server = &server;
    on_every_wire(|wire| async move {
        let (mut seen, mut times, mut token) = (Vec::new(), Vec::new(), String::new());
        loop {
            let page = server.ask(wire, "ListTasks", json!({"pageSize": 7, "pageToken": token})).send().await;
            let text = page.reply.text_lossy();
            let page = page.ok();
            assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(120), &json!(7)), "{wire}");
            assert!(page["tasks"].as_array().unwrap().iter().all(|task| task.get("artifacts").is_none()), "{wire}");
            seen.extend(ids(&page));
            times.extend(page["tasks"].as_array().unwrap().iter().map(|t| t["status"]["timestamp"].clone()));
            if wire != Binding::Grpc {
                assert!(text.contains("\"nextPageToken\":\""), "{wire}: always there");
            }
            token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen.len(), 120, "{wire}");
        assert_eq!(seen.iter().cloned().collect::<HashSet<_>>().len(), 120, "{wire}");
        let time = |time: &Value| time.as_str().unwrap().trim_end_matches('Z').to_owned();
        assert!(times.windows(2).all(|pair| time(&pair[0]) >= time(&pair[1])), "{wire}: the newest first");
        let with_artifacts = list(server, wire, json!({"pageSize": 1, "includeArtifacts": true})).await;
        assert!(with_artifacts["tasks"][0]["artifacts"].is_array(), "{wire}");
        let unset = list(server, wire, json!({})).await;
        assert_eq!((ids(&unset).len(), &unset["pageSize"]), (50, &json!(50)), "{wire}");
    })
    .await;
    // A task that changes between pages moves to the front. The other tasks are still complete.
    for (wire, changed) in WIRES.into_iter().zip(&made) {
        let (mut seen, mut token) = (HashSet::new(), String::new());
        for page in 0.. {
            let page_of = list(server, wire, json!({"pageSize": 50, "pageToken": token})).await;
            seen.extend(ids(&page_of));
            token = page_of["nextPageToken"].as_str().unwrap_or_default().to_owned();
            if page == 0 {
                server.ask(wire, "SendMessage", say_to(changed, "42")).send().await.ok();
            }
            if token.is_empty() {
                break;
            }
        }
        let missing: Vec<_> = all.difference(&seen).filter(|id| *id != changed).collect();
        assert!(missing.is_empty(), "{wire}: {missing:?}");
    }
}

#[tokio::test]
async fn c47_an_invalid_page_or_filter_is_refused_and_named() {
    let server = Server::shared();
    let context = fresh();
    for _ in 0..2 {
        server
            .ask(Binding::Grpc, "SendMessage", with(say("echo"), json!({"message": {"contextId": context}})))
            .send()
            .await
            .ok();
    }
    on_every_wire(|wire| {
        let context = context.clone();
        async move {
            for size in [0, -1, 101, i32::MAX] {
                let refused = server.ask(wire, "ListTasks", json!({"pageSize": size})).send().await;
                refused.refused_fields(&["pageSize"]);
            }
            for token in ["garbage", "AAAA", "=", "ü", &"A".repeat(5000)] {
                let refused = server.ask(wire, "ListTasks", json!({"pageToken": token})).send().await;
                refused.refused_fields(&["pageToken"]);
            }
            // A token of another query, or another agent.
            let page = list(server, wire, json!({"contextId": context, "pageSize": 1})).await;
            let token = page["nextPageToken"].as_str().unwrap();
            for other in [json!({}), json!({"contextId": "other"}), json!({"contextId": context, "tenant": "other"})] {
                let other = with(other, json!({"pageToken": token}));
                server.ask(wire, "ListTasks", other).send().await.refused_fields(&["pageToken"]);
            }
            // The page size is not part of the query, and a token is valid over every binding.
            let rest = list(server, wire, json!({"contextId": context, "pageSize": 9, "pageToken": token})).await;
            assert_eq!(ids(&rest).len(), 1, "{wire}");
            for (size, found) in [(1, 1), (100, 2)] {
                let page = list(server, wire, json!({"contextId": context, "pageSize": size})).await;
                assert_eq!(ids(&page).len(), found, "{wire}");
            }
        }
    })
    .await;
    for wire in [Binding::JsonRpc, Binding::HttpJson] {
        for (params, field) in [
            (json!({"pageSize": "x"}), "pageSize"),
            (json!({"pageSize": 1.5}), "pageSize"),
            (json!({"status": "FOO"}), "status"),
            (json!({"status": 99}), "status"),
            (json!({"statusTimestampAfter": "yesterday"}), "statusTimestampAfter"),
            (json!({"statusTimestampAfter": "2024-13-01T00:00:00Z"}), "statusTimestampAfter"),
            (json!({"historyLength": "x"}), "historyLength"),
            (json!({"includeArtifacts": "perhaps"}), "includeArtifacts"),
        ] {
            server.ask(wire, "ListTasks", params).send().await.refused_fields(&[field]);
        }
    }
    let twice = http(&server.url, "GET", "/tasks?pageSize=1&pageSize=2", &[("a2a-version", "1.0")], "").await;
    assert_eq!(
        (twice.status, &twice.json()["error"]["details"][1]["fieldViolations"][0]["field"]),
        (400, &json!("pageSize"))
    );
}

/// Waits until the clock shows another millisecond: the precision of the server's timestamps.
fn next_millisecond() {
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let before = now();
    while now() == before {
        std::hint::spin_loop();
    }
}

#[tokio::test]
async fn s09_filters_return_exactly_the_matching_tasks() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let context = fresh();
        let mut tasks = Vec::new();
        for words in ["echo hi", "fail", "ask", "echo again"] {
            next_millisecond();
            let params = with(say(words), json!({"message": {"contextId": context}}));
            tasks.push(server.ask(wire, "SendMessage", params).send().await.ok()["task"].take());
        }
        let find = async |patch: Value| {
            let page = list(server, wire, with(json!({"contextId": context}), patch)).await;
            assert_eq!(page["totalSize"].as_u64().unwrap_or(0) as usize, ids(&page).len());
            ids(&page)
        };
        let id = |n: usize| tasks[n]["id"].as_str().unwrap().to_owned();
        assert_eq!(find(json!({})).await, [id(3), id(2), id(1), id(0)], "{wire}");
        assert_eq!(find(json!({"status": "TASK_STATE_COMPLETED"})).await, [id(3), id(0)], "{wire}");
        assert_eq!(find(json!({"status": "TASK_STATE_FAILED"})).await, [id(1)], "{wire}");
        assert_eq!(find(json!({"status": "TASK_STATE_WORKING"})).await, [""; 0], "{wire}");
        assert_eq!(find(json!({"status": "TASK_STATE_UNSPECIFIED"})).await.len(), 4, "{wire}");
        // The time is inclusive.
        let time = tasks[2]["status"]["timestamp"].as_str().unwrap();
        assert_eq!(find(json!({"statusTimestampAfter": time})).await, [id(3), id(2)], "{wire}");
        let later = time.replace('Z', "001Z");
        assert_eq!(find(json!({"statusTimestampAfter": later})).await, [id(3)], "{wire}");
        let both = json!({"statusTimestampAfter": time, "status": "TASK_STATE_INPUT_REQUIRED"});
        assert_eq!(find(both).await, [id(2)], "{wire}");
        // A task's time is that of its current status.
        server.ask(wire, "SendMessage", say_to(&id(2), "42")).send().await.ok();
        assert_eq!(find(json!({})).await, [id(2), id(3), id(1), id(0)], "{wire}");
    })
    .await;
}
