//! A store that cannot write or cannot read: the errors meanwhile, and the state afterwards.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{fresh, http, on_every_wire, say, say_at_once, say_to};
use crate::streams::gists;
use crate::support::{Server, WIRES};

/// Limits the size of the server's files from now on, as if its disk were full.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

async fn status(server: &Server, path: &str) -> u16 {
    http(&server.url, "GET", path, &[], "").await.status
}

async fn until_ready(server: &Server) {
    let until = Instant::now() + Duration::from_secs(15);
    while status(server, "/readyz").await != 200 {
        assert!(Instant::now() < until, "the server did not become ready again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn c39_a_store_that_cannot_write_makes_the_server_unavailable_until_it_can() {
    let server = Server::bounded();
    let server = &server;
    let ended = server.make(Binding::JsonRpc, "echo hi").await;
    let asked = server.make(Binding::JsonRpc, "ask").await;
    let (ended, asked) = (ended["id"].as_str().unwrap(), asked["id"].as_str().unwrap());
    // One task for each binding whose end cannot be written, and a stream that waits for it.
    let mut streams = Vec::new();
    for wire in WIRES {
        let mut stream = server.ask(wire, "SendStreamingMessage", say("slow 0.7")).stream().await;
        let first = stream.event().await;
        assert_eq!(gists(&[stream.event().await]), ["working"], "{wire}");
        streams.push((first.value["task"]["id"].as_str().unwrap().to_owned(), stream));
    }
    let idle = server.ask(Binding::Grpc, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
    let idle = idle["task"]["id"].as_str().unwrap();

    limit_files(server, Some(0));
    on_every_wire(|wire| async move {
        for params in [say("echo hi"), say_at_once("echo hi"), say("slow 1"), say_to(asked, "42")] {
            server.ask(wire, "SendMessage", params).send().await.refused("UNAVAILABLE");
        }
        let keyed = server.ask(wire, "SendMessage", say("echo hi")).header("idempotency-key", &fresh());
        keyed.send().await.refused("UNAVAILABLE");
        for id in [ended, asked, idle] {
            if let Err(refusal) = server.ask(wire, "GetTask", json!({"id": id})).send().await.outcome() {
                assert_eq!(refusal.reason, "UNAVAILABLE", "{wire}");
            }
        }
        server.ask(wire, "CancelTask", json!({"id": idle})).send().await.refused("UNAVAILABLE");
        if wire == Binding::Grpc {
            return;
        }
        let stream = server.ask(wire, "SendStreamingMessage", say("echo hi")).open().await;
        stream.map(|_| "a stream").unwrap_err().refused("UNAVAILABLE");
    })
    .await;
    assert_eq!(status(server, "/.well-known/agent-card.json").await, 200);
    assert_eq!((status(server, "/readyz").await, status(server, "/livez").await), (503, 200));
    let metrics = http(&server.admin, "GET", "/metrics", &[], "").await;
    assert!(metrics.text().lines().any(|line| line == "tricord_ready 0"), "{}", metrics.text());
    // After its first event, a stream ends with the same error in the form of its binding.
    let mut lost = Vec::new();
    for (id, mut stream) in streams {
        let last = stream.next().await;
        let wire = stream.wire;
        assert_eq!(last.map(|last| last.unwrap_err().reason), Some("UNAVAILABLE".to_owned()), "{wire}");
        assert!(stream.next().await.is_none(), "{wire}");
        lost.push(id);
    }

    limit_files(server, None);
    until_ready(server).await;
    on_every_wire(|wire| async move {
        assert_eq!(server.make(wire, "echo hi").await["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
        assert_eq!(server.task(wire, ended).await["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
    })
    .await;
    // Interrupted tasks have failed with a reason, and no refused message was stored.
    for id in &lost {
        let task = settled(server, id).await;
        assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{task}");
        assert!(task["status"]["message"]["parts"][0]["text"].as_str().is_some_and(|text| !text.is_empty()), "{task}");
    }
    let answered = server.ask(Binding::Grpc, "SendMessage", say_to(asked, "42")).send().await.ok();
    assert_eq!(answered["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(answered["task"]["history"].as_array().unwrap().len(), 3, "the history has only the accepted messages");
    let canceled = server.ask(Binding::JsonRpc, "CancelTask", json!({"id": idle})).send().await.ok();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED");
    for state in ["TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"] {
        let list = server.ask(Binding::JsonRpc, "ListTasks", json!({"status": state})).send().await.ok();
        assert_eq!(list["totalSize"], 0, "tasks are still in {state}: {list}");
    }
}

/// Waits until recovery has handled a task, and returns it.
async fn settled(server: &Server, id: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let task = server.task(Binding::JsonRpc, id).await;
        if task["status"]["state"] != "TASK_STATE_WORKING" {
            return task;
        }
        assert!(Instant::now() < until, "still working: {task}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the files of a store with their contents.
fn files(server: &Server) -> Vec<(PathBuf, Vec<u8>)> {
    ["tricord.db", "tricord.db-wal"]
        .map(|name| server.dir().join(name))
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .into()
}

#[tokio::test]
async fn c39_a_task_that_cannot_be_read_is_unavailable_and_never_not_found() {
    let mut server = Server::two_agents();
    // Large enough that the open database cannot have all of it in memory.
    let task = server.make(Binding::Grpc, &format!("echo {}", "x".repeat(500_000))).await;
    let id = task["id"].as_str().unwrap();
    server.kill_and_restart();
    let server = &server;
    let before = files(server);
    for (path, _) in &before {
        File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    }
    on_every_wire(|wire| async move {
        server.ask(wire, "GetTask", json!({"id": id})).send().await.refused("UNAVAILABLE");
        server.ask(wire, "CancelTask", json!({"id": id})).send().await.refused("UNAVAILABLE");
        server.ask(wire, "SubscribeToTask", json!({"id": id})).send().await.refused("UNAVAILABLE");
        server.ask(wire, "SendMessage", say_to(id, "hi")).send().await.refused("UNAVAILABLE");
    })
    .await;
    assert_eq!(status(server, "/.well-known/agent-card.json").await, 200);
    for (path, bytes) in &before {
        File::options().write(true).open(path).unwrap().write_all(bytes).unwrap();
    }
    on_every_wire(|wire| async move {
        assert_eq!(server.task(wire, id).await["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
    })
    .await;
}
