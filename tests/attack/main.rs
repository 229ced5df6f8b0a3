//! What peers can make the server hold, and how it goes on meanwhile: a child server with a small memory budget, attacked
//! over real sockets, with its resident memory measured.
//!
//! `TRICORD_ATTACK_SCALE` multiplies the number of attackers (1).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod peers;
#[path = "../wire/support.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the wire tests, which use all of it")]
mod support;

use std::time::{Duration, Instant};

use futures::future::join_all;
use prost::Message as _;
use serde_json::{Value, json};
use tricord::client::Binding;
use tricord::schema::{GetTaskRequest, ListTasksRequest, SendMessageRequest};

use peers::{Unread, gzip, http1, send_grpc};
use support::{Server, at_once, follow_up, message, request, task_of, text};

/// The budget of the server, in bytes. It is small, so that few attackers are enough.
const BUDGET: u64 = 64 << 20;

/// What the server may take in addition to its budget: buffers of the allocator, sockets and threads, the caches, and what
/// large work takes while it is done.
const SLACK: u64 = 128 << 20;

fn scale() -> usize {
    std::env::var("TRICORD_ATTACK_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

fn start() -> Server {
    Server::start(
        r#"
        [server]
        write_timeout = "2s"
        [limits]
        memory = "64MiB"
        body = "4MiB"
        [store]
        url = "memory:"
        [[agents]]
        name = "kit"
        kind = "conformance"
        "#,
    )
}

/// Returns the resident memory of a server, in bytes.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

async fn used(server: &Server, share: &str) -> u64 {
    let (_, metrics) = http1(&server.admin, "GET", "/metrics", &[], b"").await;
    let metrics = String::from_utf8(metrics).unwrap();
    let name = format!("tricord_memory_bytes{{share=\"{share}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is().await {
        assert!(Instant::now() < end, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Watches the memory of a server while an attack goes on, and returns the most that was seen, above what it was before.
async fn peak<T>(server: &Server, attack: impl Future<Output = T>) -> (u64, T) {
    let before = resident(server);
    let mut most = before;
    let mut attack = std::pin::pin!(attack);
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    loop {
        tokio::select! {
            done = attack.as_mut() => return (most.max(resident(server)) - before, done),
            _ = tick.tick() => most = most.max(resident(server)),
        }
    }
}

/// Checks that a server still serves, and that its memory was bounded and goes back.
async fn recovers(server: &Server, peak: u64) {
    assert!(peak < BUDGET + SLACK, "{} MiB in addition", peak >> 20);
    let client = server.client(Binding::JsonRpc).await;
    let done = task_of(client.send(request("echo still there")).await.unwrap());
    assert_eq!(support::artifact_text(&done), "still there");
    for share in ["requests", "answers", "replays", "tasks"] {
        until(&format!("nothing is held of {share}"), async || used(server, share).await < 1 << 20).await;
    }
}

/// Makes a finished task whose artifact has this many pieces of this size.
async fn make(server: &Server, pieces: usize, bytes: usize) -> String {
    let client = server.client(Binding::Grpc).await;
    let mut large = request(&format!("chunks {pieces}"));
    large.message.as_mut().unwrap().parts.push(text("x".repeat(bytes)));
    task_of(client.send(large).await.unwrap()).id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_that_are_not_read_are_bounded_and_given_up() {
    let server = start();
    let id = make(&server, 5, 1 << 20).await;
    let attack = async {
        let mut unread = Vec::new();
        for _ in 0..3 * scale() {
            unread.push(
                Unread::grpc(&server, "GetTask", 100, &GetTaskRequest { id: id.clone(), ..Default::default() }).await,
            );
        }
        // The streams are reset, or were refused: either way an end, although the connections stay open.
        join_all(unread.iter_mut().map(Unread::ended)).await;
        unread
    };
    let (peak, unread) = peak(&server, attack).await;
    recovers(&server, peak).await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_of_a_large_live_task_that_do_not_read_share_what_it_takes() {
    let server = start();
    let client = server.client(Binding::Grpc).await;
    let mut large = request("gate never chunks 1");
    large.message.as_mut().unwrap().parts.push(text("x".repeat(1 << 20)));
    let id = task_of(client.send(at_once(large)).await.unwrap()).id;
    for _ in 0..4 {
        let mut more = follow_up(&id, "more");
        more.message.as_mut().unwrap().parts.push(text("x".repeat(1 << 20)));
        client.send(at_once(more)).await.unwrap();
    }
    let attack = async {
        let path = format!("/tasks/{id}:subscribe");
        let readers = (0..60 * scale()).map(|_| Unread::http1(&server, &path));
        let mut readers = join_all(readers).await;
        join_all(readers.iter_mut().map(Unread::ended)).await;
    };
    let (peak, ()) = peak(&server, attack).await;
    assert!(peak < BUDGET + SLACK, "{} MiB in addition", peak >> 20);
    until("no answer is held", async || used(&server, "answers").await < 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_stored_stream_that_do_not_read_are_bounded() {
    let server = start();
    let id = make(&server, 20_000, 100).await;
    let attack = async {
        let path = format!("/tasks/{id}:subscribe");
        let readers = (0..200 * scale()).map(|_| Unread::http1_from(&server, &path, "1.2"));
        let mut readers = join_all(readers).await;
        join_all(readers.iter_mut().map(Unread::ended)).await;
    };
    let (peak, ()) = peak(&server, attack).await;
    recovers(&server, peak).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_runs_that_go_on_are_bounded_and_the_accepted_ones_complete() {
    let server = start();
    let client = server.client(Binding::JsonRpc).await;
    let attack = async {
        let sends = (0..40 * scale()).map(|_| async {
            let mut large = at_once(request("silent 2"));
            large.message.as_mut().unwrap().parts.push(text("x".repeat(3 << 20)));
            client.send(large).await
        });
        join_all(sends).await
    };
    let (peak, answers) = peak(&server, attack).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(!accepted.is_empty() && !refused.is_empty(), "{} accepted, {} refused", accepted.len(), refused.len());
    for error in refused {
        let error = error.unwrap_err();
        assert_eq!(error.server().and_then(|error| error.reason.as_deref()), Some("UNAVAILABLE"), "{error}");
    }
    let client = server.client(Binding::Grpc).await;
    for sent in accepted {
        let id = task_of(sent.unwrap()).id;
        until("what was accepted completes", async || {
            let get = GetTaskRequest { id: id.clone(), history_length: Some(0), ..Default::default() };
            match client.get_task(get).await {
                Ok(task) => support::state(&task) == tricord::schema::TaskState::Completed,
                Err(_) => false,
            }
        })
        .await;
    }
    recovers(&server, peak).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_requests_that_swell_are_refused() {
    let server = start();
    let parts = vec![Default::default(); 1_500_000];
    let swollen = SendMessageRequest {
        message: Some(tricord::schema::Message { parts, ..message("x") }),
        ..SendMessageRequest::default()
    }
    .encode_to_vec();
    let packed = gzip(&swollen);
    assert!(packed.len() < 20_000, "{}", packed.len());
    let numbers = format!("[{}1]", "1,".repeat(1_500_000));
    let json = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": "N"}]}});
    let json = json.to_string().replace("\"N\"", &numbers);
    let attack = async {
        for _ in 0..10 * scale() {
            assert_ne!(send_grpc(&server, "SendMessage", &packed, true).await, 0);
            let head = [("content-type", "application/json"), ("a2a-version", "1.0")];
            let (status, body) = http1(&server.url, "POST", "/message:send", &head, json.as_bytes()).await;
            let error: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((status, &error["error"]["details"][0]["reason"]), (413, &json!("TOO_LARGE")), "{error}");
            assert!(error["error"]["message"].as_str().unwrap().contains("values"), "{error}");
        }
    };
    let (peak, ()) = peak(&server, attack).await;
    recovers(&server, peak).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_large_tasks_ends_early_and_the_next_goes_on() {
    let server = start();
    let mut expected = Vec::new();
    for _ in 0..9 {
        expected.push(make(&server, 1, 1 << 20).await);
    }
    let client = server.client(Binding::HttpJson).await;
    let (mut found, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let list = ListTasksRequest {
            include_artifacts: Some(true),
            history_length: Some(0),
            page_token: token.clone(),
            ..ListTasksRequest::default()
        };
        let page = client.list_tasks(list).await.unwrap();
        assert_eq!((page.total_size, page.page_size), (9, 50));
        let bytes: usize = page.tasks.iter().map(prost::Message::encoded_len).sum();
        assert!((1..=4).contains(&page.tasks.len()) && bytes < 6 << 20, "{} tasks, {bytes} bytes", page.tasks.len());
        found.extend(page.tasks.into_iter().map(|task| task.id));
        token = page.next_page_token;
        pages += 1;
        if token.is_empty() {
            break;
        }
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "in {pages} pages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_does_not_grow_beyond_its_size_by_one_more_record() {
    let server = Server::start(
        "[limits]\ntask_size = \"1MiB\"\n[store]\nurl = \"memory:\"\n[[agents]]\nname = \"kit\"\nkind = \"conformance\"",
    );
    let client = server.client(Binding::Grpc).await;
    let asked = task_of(client.send(request("ask")).await.unwrap());
    let mut large = follow_up(&asked.id, "more");
    large.message.as_mut().unwrap().parts.push(text("x".repeat(2 << 20)));
    let error = client.send(large).await.unwrap_err();
    assert_eq!(error.server().and_then(|error| error.reason.as_deref()), Some("UNSUPPORTED_OPERATION"), "{error}");
    let done = task_of(client.send(follow_up(&asked.id, "small")).await.unwrap());
    assert_eq!(support::state(&done), tricord::schema::TaskState::Completed);
}
