//! Graceful shutdown and sudden death of the server: how streams end, and the state of tasks afterwards.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{http, on_every_wire, say, say_at_once, say_to};
use crate::streams::gists;
use crate::support::{Server, WIRES};

fn config(grace: &str, on_restart: &str) -> String {
    format!(
        "[server]\ngrace = \"{grace}\"\n[[agents]]\nname = \"kit\"\nkind = \"conformance\"\non_restart = \"{on_restart}\""
    )
}

async fn is_ready(server: &Server) -> bool {
    let metrics = http(&server.admin, "GET", "/metrics", &[], "").await;
    metrics.text().lines().any(|line| line == "tricord_ready 1")
}

/// Starts a shutdown and waits until the server reports that it is not ready.
async fn begin_end(server: &Server) {
    assert!(is_ready(server).await);
    server.terminate();
    let until = Instant::now() + Duration::from_secs(5);
    while is_ready(server).await {
        assert!(Instant::now() < until, "the server is still ready after SIGTERM");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn wait(mut server: Server) -> (Server, bool) {
    tokio::task::spawn_blocking(move || {
        let orderly = server.wait();
        (server, orderly)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn c54_runs_and_their_streams_finish_within_the_grace_period() {
    let mut server = Server::start(&config("20s", "fail"));
    let mut streams = Vec::new();
    for wire in WIRES {
        let mut stream = server.ask(wire, "SendStreamingMessage", say("slow 0.8")).stream().await;
        let first = stream.event().await;
        assert_eq!(gists(&[stream.event().await]), ["working"], "{wire}");
        streams.push((first.value["task"]["id"].as_str().unwrap().to_owned(), stream));
    }
    // One call that waits for its answer, and one task that waits for its client.
    let waiting = server.ask(Binding::JsonRpc, "SendMessage", say("slow 0.8"));
    let waiting = tokio::spawn(async move { waiting.send().await.ok() });
    let asked = server.make(Binding::Grpc, "ask").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let begun = Instant::now();
    begin_end(&server).await;
    while tokio::net::TcpStream::connect(server.url.trim_start_matches("http://")).await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5), "still accepting");
    }
    let mut ids = Vec::new();
    for (id, mut stream) in streams {
        assert_eq!(gists(&stream.rest().await), ["piece last", "completed"], "{}", stream.wire);
        ids.push(id);
    }
    assert_eq!(waiting.await.unwrap()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    let orderly;
    (server, orderly) = wait(server).await;
    assert!(orderly);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}: the server waited although nothing was running",
        begun.elapsed()
    );
    server.restart();
    for id in ids {
        assert_eq!(server.task(Binding::Grpc, &id).await["status"]["state"], "TASK_STATE_COMPLETED");
    }
    assert_eq!(server.task(Binding::Grpc, asked["id"].as_str().unwrap()).await, asked);
}

/// Stops and restarts a server that has, over each binding, a stream of a task that does not end.
async fn cut_off(on_restart: &str) -> (Server, Vec<String>) {
    let server = Server::start(&config("300ms", on_restart));
    let mut streams = Vec::new();
    for wire in WIRES {
        let mut stream = server.ask(wire, "SendStreamingMessage", say("slow 1.5")).stream().await;
        let first = stream.event().await;
        assert_eq!(gists(&[stream.event().await]), ["working"], "{wire}");
        streams.push((first.value["task"]["id"].as_str().unwrap().to_owned(), stream));
    }
    let waiting = WIRES.map(|wire| {
        let ask = server.ask(wire, "SendMessage", say("tck-cancel"));
        tokio::spawn(async move { ask.send().await.refused("UNAVAILABLE") })
    });
    while !http(&server.admin, "GET", "/metrics", &[], "").await.text().contains("tricord_runs 6\n") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    begin_end(&server).await;
    for answer in waiting {
        answer.await.unwrap();
    }
    let mut ids = Vec::new();
    for (id, mut stream) in streams {
        // No event reports an end that did not happen.
        match stream.next().await {
            None => assert_ne!(stream.wire, Binding::Grpc),
            Some(last) => {
                assert_eq!((stream.wire, last.unwrap_err().reason.as_str()), (Binding::Grpc, "UNAVAILABLE"));
            }
        }
        if stream.wire != Binding::Grpc {
            let (_, last) = stream.comments().last().expect("a final comment");
            assert!(last.contains("going away"), "{last}");
        }
        ids.push(id);
    }
    let (mut server, orderly) = wait(server).await;
    assert!(orderly);
    server.restart();
    (server, ids)
}

#[tokio::test]
async fn c54_a_run_over_the_grace_period_is_resumed_at_the_next_start() {
    let (server, ids) = cut_off("resume").await;
    let (server, ids) = (&server, &ids);
    on_every_wire(|wire| async move {
        let id = &ids[WIRES.iter().position(|other| *other == wire).unwrap()];
        let mut stream = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
        assert_eq!(gists(&[stream.event().await]), ["task working"], "{wire}");
        assert_eq!(stream.rest().await.last().unwrap().state(), "TASK_STATE_COMPLETED", "{wire}");
        let task = server.task(wire, id).await;
        assert_eq!(task["artifacts"].as_array().unwrap().len(), 1, "{wire}: made once");
        assert_eq!(task["history"].as_array().unwrap().len(), 1, "{wire}: said once");
    })
    .await;
}

/// Waits until recovery has handled a task. The new server already serves requests during recovery.
async fn failed(server: &Server, wire: Binding, id: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let task = server.task(wire, id).await;
        match task["status"]["state"].as_str().unwrap() {
            "TASK_STATE_WORKING" => assert!(Instant::now() < until, "still working: {task}"),
            state => {
                assert_eq!(state, "TASK_STATE_FAILED", "{wire}");
                return task;
            }
        }
    }
}

#[tokio::test]
async fn c54_a_run_over_the_grace_period_that_cannot_resume_fails_with_a_reason_at_the_next_start() {
    let (server, ids) = cut_off("fail").await;
    for (id, wire) in ids.iter().zip(WIRES) {
        let task = failed(&server, wire, id).await;
        let text = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
        assert!(text.contains("server stopped"), "{wire}: {text}");
    }
}

#[tokio::test]
async fn c54_a_second_signal_ends_the_server_at_once() {
    let server = Server::start(&config("60s", "fail"));
    server.ask(Binding::Grpc, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
    begin_end(&server).await;
    let begun = Instant::now();
    server.terminate();
    wait(server).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn c53_after_a_kill_no_task_stays_working_and_ended_tasks_are_unchanged() {
    let mut server = Server::start(&config("1s", "fail"));
    let mut ended: Vec<Value> = Vec::new();
    let mut running = Vec::new();
    for wire in WIRES {
        for words in ["chunks 3", "fail", "tck-artifact-data", "ask"] {
            ended.push(server.make(wire, words).await);
        }
        let begun = server.ask(wire, "SendMessage", say_at_once("slow 20")).send().await.ok();
        running.push(begun["task"]["id"].as_str().unwrap().to_owned());
    }
    let normal = |task: &Value| crate::raw::normal(&crate::raw::output("GetTask"), task);
    server.kill_and_restart();
    for wire in WIRES {
        for task in &ended {
            let again = server.task(wire, task["id"].as_str().unwrap()).await;
            assert_eq!(normal(&again), normal(task), "{wire}");
        }
        for id in &running {
            let task = failed(&server, wire, id).await;
            assert!(!task["status"]["message"]["parts"][0]["text"].as_str().unwrap().is_empty(), "{wire}");
            // A client that followed the task before can resume and see the rest.
            let first = server.ask(Binding::HttpJson, "SubscribeToTask", json!({"id": id}));
            let generation = first.header("last-event-id", "0.0").stream().await.event().await.id.unwrap();
            let cursor = format!("{}.3", generation.split_once('.').unwrap().0);
            let ask = server.ask(wire, "SubscribeToTask", json!({"id": id})).header("last-event-id", &cursor);
            assert_eq!(gists(&ask.stream().await.rest().await), ["task working", "failed"], "{wire}");
        }
    }
    for state in ["TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"] {
        let list = server.ask(Binding::JsonRpc, "ListTasks", json!({"status": state})).send().await.ok();
        assert_eq!(list["totalSize"], 0, "{state}");
    }
}

#[tokio::test]
async fn c53_a_task_that_waits_for_its_client_can_be_answered_after_a_restart() {
    let mut server = Server::start(&config("1s", "fail"));
    let mut asked = Vec::new();
    for wire in WIRES {
        for words in ["ask", "tck-input-required", "tck-multi-turn"] {
            asked.push((wire, words, server.make(wire, words).await));
        }
    }
    server.kill_and_restart();
    for (wire, words, task) in asked {
        let id = task["id"].as_str().unwrap();
        assert_eq!(server.task(wire, id).await, task, "{wire} {words}");
        let mut stream = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
        assert_eq!(gists(&[stream.event().await]), ["task input_required"], "{wire} {words}");
        let answer = server.ask(wire, "SendMessage", say_to(id, "done")).send().await.ok();
        assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire} {words}");
        assert_eq!(gists(&stream.rest().await), ["working", "completed"], "{wire} {words}");
        let said = answer["task"]["history"].as_array().unwrap().len();
        assert_eq!(said, if words == "tck-input-required" { 2 } else { 3 }, "{wire} {words}");
    }
}

#[tokio::test]
async fn a_hangup_stops_in_good_order_and_leaves_no_command_behind() {
    let command = "[\"sh\", \"-c\", \"echo $$ > pid; exec sleep 1000\"]";
    let server = Server::start(&format!(
        "[server]\ngrace = \"100ms\"\n[[agents]]\nname = \"sleeper\"\nkind = \"exec\"\ncommand = {command}\n"
    ));
    server.ask(Binding::Grpc, "SendMessage", say_at_once("sleep")).send().await.ok();
    let file = server.dir().join("pid");
    let until = Instant::now() + Duration::from_secs(20);
    let pid = loop {
        if let Ok(pid) = std::fs::read_to_string(&file).unwrap_or_default().trim().parse() {
            break rustix::process::Pid::from_raw(pid).unwrap();
        }
        assert!(Instant::now() < until, "the command does not run");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    server.hang_up();
    let (server, orderly) = wait(server).await;
    assert!(orderly);
    while rustix::process::test_kill_process(pid).is_ok() {
        assert!(Instant::now() < until, "the command outlived the server");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(server);
}
