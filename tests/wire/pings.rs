//! Pings on idle streams.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tricord::client::Binding;

use crate::raw::{connect, say};
use crate::streams::gists;
use crate::support::{Server, TWO_AGENTS};

fn server(settings: &str) -> Server {
    Server::start(&format!("{TWO_AGENTS}\n[server]\n{settings}"))
}

#[tokio::test]
async fn c25_an_idle_stream_gets_comments_and_no_events() {
    let server = server("ping_interval = \"200ms\"");
    let server = &server;
    let streams = [Binding::JsonRpc, Binding::HttpJson].map(|wire| async move {
        let begun = Instant::now();
        let mut stream = server.ask(wire, "SendStreamingMessage", say("silent 2")).stream().await;
        let events = stream.rest().await;
        assert_eq!(gists(&events), ["task submitted", "piece last", "completed"], "{wire}");
        let comments = stream.comments();
        assert!(comments.iter().all(|(_, text)| text == "ping"), "{comments:?}");
        assert!(comments.len() >= 5, "{wire}: {comments:?}");
        // Between two pings, at most the interval and some allowance for a busy machine.
        let mut last = begun;
        for (at, _) in comments {
            assert!(at.duration_since(last) < Duration::from_millis(900), "{wire}: {comments:?}");
            last = *at;
        }
    });
    futures::future::join_all(streams).await;
}

#[tokio::test]
async fn c25_comments_can_be_disabled_and_are_not_sent_between_events() {
    let server = server("ping_interval = \"0\"");
    let mut stream = server.ask(Binding::HttpJson, "SendStreamingMessage", say("silent 1")).stream().await;
    stream.rest().await;
    assert_eq!(stream.comments(), []);
}

#[tokio::test]
async fn c25_an_http2_client_is_pinged_and_dropped_if_it_does_not_answer() {
    let server = server("keep_alive = \"300ms\"");
    let mut socket = connect(&server.url).await;
    // The preface and empty SETTINGS are all that a client has to send.
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut pings = 0;
    while pings < 3 {
        let mut head = [0; 9];
        let read = tokio::time::timeout(Duration::from_secs(10), socket.read_exact(&mut head)).await;
        read.expect("a frame in time").unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        socket.read_exact(&mut payload).await.unwrap();
        match (head[3], head[4]) {
            // A PING has to be answered with the same payload.
            (6, 0) => {
                pings += 1;
                socket.write_all(&[&[0, 0, 8, 6, 1, 0, 0, 0, 0], &payload[..]].concat()).await.unwrap();
            }
            // SETTINGS have to be acknowledged.
            (4, 0) => socket.write_all(&[0, 0, 0, 4, 1, 0, 0, 0, 0]).await.unwrap(),
            (7, _) => panic!("the server sent GOAWAY"),
            _ => {}
        }
    }
    // The server drops a client that does not answer.
    let begun = Instant::now();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the server kept a client that did not answer");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
