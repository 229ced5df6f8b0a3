//! Large bodies: which texts arrive unchanged, and which bodies are refused early and cost no memory.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tricord::client::Binding;

use crate::raw::{connect, on_every_wire, parts_text, say, with};
use crate::support::{Server, TWO_AGENTS};

/// Text that a careless encoder of events, lines or strings would break.
fn difficult() -> String {
    let controls: String = (1..0x20).filter_map(char::from_u32).collect();
    let mut text = format!("😀 é\r\n\r\ndata: x\n\n: y\u{2028}\u{2029}\u{feff}\u{7f}\u{85}{controls}\"\\</script>\n");
    text.push_str(&"0123456789".repeat(20_000));
    text.push_str("\r\n");
    text
}

#[tokio::test]
async fn c15_difficult_text_is_streamed_unchanged() {
    let server = Server::shared();
    let text = difficult();
    let text = &text;
    on_every_wire(|wire| async move {
        let params = with(say("chunks 3"), json!({"message": {"parts": [{"text": "chunks 3"}, {"text": text}]}}));
        let mut stream = server.ask(wire, "SendStreamingMessage", params).stream().await;
        let events = stream.rest().await;
        let pieces: Vec<_> = events.iter().filter(|event| event.kind() == "artifactUpdate").collect();
        assert_eq!(pieces.len(), 3, "{wire}: each piece is one event");
        assert!(pieces.iter().all(|piece| piece.text() == *text), "{wire}");
        let id = events[0].value["task"]["id"].as_str().unwrap();
        let task = server.task(wire, id).await;
        assert_eq!(parts_text(&task["artifacts"][0]["parts"]), text.repeat(3), "{wire}");
        assert_eq!(task["history"][0]["parts"][1]["text"], **text, "{wire}");
    })
    .await;
}

/// Returns the resident memory of a process in kilobytes.
fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn c17_a_body_without_a_length_is_refused_at_the_limit_and_memory_stays_flat() {
    let server = Server::start(&format!("{TWO_AGENTS}\n[limits]\nbody = \"1MiB\""));
    let paths = ["/", "/message:send", "/kit/message:stream"];
    let mut before = 0;
    for (count, path) in paths.iter().cycle().take(12).enumerate() {
        if count == paths.len() {
            // After a first request, the server has allocated what such requests need.
            before = memory(&server);
        }
        let large = server.ask(Binding::Grpc, "SendMessage", say(&"x".repeat(2 << 20)));
        large.send().await.refused("TOO_LARGE");
        let mut socket = connect(&server.url).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let (mut read, mut write) = socket.into_split();
        let (begun, mut sent) = (Instant::now(), 0);
        // A client that sends all it has before it reads, as many do: 8 MiB.
        for _ in 0..128 {
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
            if write.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
            sent += 0x10000;
        }
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&answer).contains("TOO_LARGE") {
            let read = tokio::time::timeout(Duration::from_secs(5), read.read(&mut piece)).await;
            let length = read.expect("an answer in time").expect("an answer, not a reset");
            assert!(length > 0, "{path}: no answer after {sent} bytes");
            answer.extend_from_slice(&piece[..length]);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{path}: {answer}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{path}: {:?}", begun.elapsed());
    }
    // What an allocator keeps for itself varies; more than a quarter of the 72 MiB that were refused is a leak.
    let after = memory(&server);
    assert!(after < before + 18 * 1024, "from {before} kB to {after} kB");
}

#[tokio::test]
async fn c17_an_announced_length_is_refused_before_the_body() {
    let server = Server::start(&format!("{TWO_AGENTS}\n[limits]\nbody = \"1MiB\""));
    for path in ["/", "/message:send"] {
        let mut socket = connect(&server.url).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(5), socket.read(&mut answer)).await;
        let length = read.expect("an answer before the body").unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 413 "), "{path}");
    }
}

#[tokio::test]
async fn c17_bodies_up_to_the_limit_are_accepted_and_not_returned_without_history() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let text = "x".repeat(2 << 20);
        let parts = json!([{"text": "ask"}, {"text": text}]);
        let params = with(say("ask"), json!({"message": {"parts": parts}, "configuration": {"historyLength": 0}}));
        let asked = server.ask(wire, "SendMessage", params).send().await;
        assert!(asked.reply.body.len() < 4096, "{wire}: {} bytes", asked.reply.body.len());
        let task = asked.ok()["task"].take();
        let get = server.ask(wire, "GetTask", json!({"id": task["id"], "historyLength": 0})).send().await;
        assert!(get.reply.body.len() < 4096, "{wire}: {} bytes", get.reply.body.len());
        assert_eq!(get.ok().get("history"), None, "{wire}");
        let whole = server.task(wire, task["id"].as_str().unwrap()).await;
        assert_eq!(whole["history"][0]["parts"][1]["text"].as_str().unwrap().len(), 2 << 20, "{wire}");
    })
    .await;
}

#[tokio::test]
async fn c17_bodies_over_the_memory_budget_are_refused_until_it_is_free() {
    let server = Server::start(&format!("{TWO_AGENTS}\n[limits]\nbody = \"1MiB\"\nmemory_requests = \"3MiB\""));
    let large = say(&"x".repeat(100_000));
    let (server, large) = (&server, &large);
    // Three bodies that never end hold nearly all there is: as soon as the server has read so far. Until then another may
    // come first, and these are what is refused.
    let until = Instant::now() + Duration::from_secs(20);
    let held = loop {
        let mut sockets = Vec::new();
        for _ in 0..3 {
            let mut socket = connect(&server.url).await;
            let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1040000\r\n\r\n";
            socket.write_all(head.as_bytes()).await.unwrap();
            socket.write_all(&vec![b' '; 1_000_000]).await.unwrap();
            sockets.push(socket);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let answer = server.ask(Binding::HttpJson, "SendMessage", large.clone()).send().await;
        if answer.reply.status == 503 {
            break sockets;
        }
        assert!(Instant::now() < until, "nothing was refused: {answer:?}");
    };
    on_every_wire(|wire| async move {
        server.ask(wire, "SendMessage", large.clone()).send().await.refused("UNAVAILABLE");
        server.make(wire, "echo small").await;
    })
    .await;
    drop(held);
    let until = Instant::now() + Duration::from_secs(5);
    while server
        .ask(Binding::Grpc, "SendMessage", large.clone())
        .send()
        .await
        .reply
        .trailers
        .get("grpc-status")
        .is_none_or(|status| status != "0")
    {
        assert!(Instant::now() < until, "the memory budget was not released");
    }
}
