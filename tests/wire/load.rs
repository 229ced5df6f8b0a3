//! Load: all tasks complete, the server stays responsive, and all resources are released.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use tricord::client::Binding;

use crate::raw::{http, say_at_once};
use crate::streams::gist;
use crate::support::{Server, TWO_AGENTS, WIRES};

fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn handles(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count()
}

async fn gauge(server: &Server, name: &str) -> u64 {
    let metrics = http(&server.admin, "GET", "/metrics", &[], "").await;
    let value = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    value.parse().unwrap()
}

/// Reads a card and returns how long that took.
fn read_card(at: &str) -> Duration {
    use std::io::{Read as _, Write as _};
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    let mut socket = std::net::TcpStream::connect(at).unwrap();
    let request = "GET /.well-known/agent-card.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    begun.elapsed()
}

/// Waits until a condition holds.
async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(15);
    while !is().await {
        assert!(Instant::now() < end, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn c63_two_hundred_tasks_and_fifty_subscribers_complete_and_release_everything() {
    let server = Server::start(&format!("{TWO_AGENTS}\n[store]\nurl = \"memory:\""));
    let server = &server;
    // Memory that the first use allocates once is not a leak.
    join_all((0..12).map(|n| async move { server.make(WIRES[n % 3], "echo warm").await })).await;
    let (memory_before, handles_before) = (memory(server), handles(server));
    for _ in 0..2 {
        let sends = (0..200).map(|n| async move {
            let answer = server.ask(WIRES[n % 3], "SendMessage", say_at_once("slow 1")).send().await.ok();
            answer["task"]["id"].as_str().unwrap().to_owned()
        });
        // On a separate thread, so that the load of the clients in this process is not measured.
        let at = server.url.trim_start_matches("http://").to_owned();
        let cards = tokio::task::spawn_blocking(move || (0..20).map(|_| read_card(&at)).collect::<Vec<_>>());
        let work = async {
            let ids = join_all(sends).await;
            let subscribers = ids.iter().take(50).enumerate().map(|(n, id)| async move {
                let ask = server.ask(WIRES[n % 3], "SubscribeToTask", json!({"id": id}));
                match ask.open().await {
                    Ok(mut stream) => assert_eq!(gist(stream.rest().await.last().unwrap()), "completed"),
                    Err(answer) => drop(answer.refused("UNSUPPORTED_OPERATION")),
                }
            });
            join_all(subscribers).await;
            ids
        };
        let (ids, times) = futures::future::join(work, cards).await;
        let times = times.unwrap();
        // A busy machine may delay a request now and then, but not many of them.
        let slow = times.iter().filter(|time| **time > Duration::from_secs(1)).count();
        assert!(slow <= 2, "the card took {times:?}");
        for id in &ids {
            until("all tasks have ended", async || {
                server.task(Binding::Grpc, id).await["status"]["state"] == "TASK_STATE_COMPLETED"
            })
            .await;
        }
    }
    for name in ["tricord_runs", "tricord_streams", "tricord_cells"] {
        until(&format!("{name} is 0"), async || gauge(server, name).await == 0).await;
    }
    until("handles are released", async || handles(server) <= handles_before + 4).await;
    // What 400 finished tasks and an allocator keep is less than this; a leak of what 500 connections had is more.
    let memory_after = memory(server);
    assert!(memory_after < memory_before + 40 * 1024, "from {memory_before} kB to {memory_after} kB");
}

#[tokio::test]
async fn dropped_connections_release_their_resources() {
    let server = Server::start(TWO_AGENTS);
    let server = &server;
    let task = server.ask(Binding::Grpc, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
    let id = &task["task"]["id"];
    for wire in WIRES {
        let streams = (0..20).map(|_| async move {
            let mut stream = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
            stream.event().await;
            stream
        });
        let streams = join_all(streams).await;
        assert_eq!(gauge(server, "tricord_streams").await, 20, "{wire}");
        drop(streams);
        until("streams are released", async || gauge(server, "tricord_streams").await == 0).await;
        // The connection that reads the metrics is on another port.
        until("connections are released", async || gauge(server, "tricord_connections").await == 0).await;
    }
    assert_eq!(gauge(server, "tricord_runs").await, 1, "the task stopped without readers");
}

#[tokio::test]
async fn metrics_count_commits_and_the_tasks_in_them() {
    let server = Server::two_agents();
    for _ in 0..5 {
        server.make(crate::support::WIRES[1], "echo hi").await;
    }
    let (commits, tasks) =
        (gauge(&server, "tricord_commits_total").await, gauge(&server, "tricord_commit_tasks_total").await);
    assert!((1..=tasks).contains(&commits) && tasks >= 5, "{commits} commits of {tasks} tasks");
}
