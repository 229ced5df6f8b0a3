//! Hostile clients, which send truncated, miscounted, flooding or malformed input. No input causes an internal error, a
//! panic or a hang, and the next request is answered as usual.

mod grpc;
mod http1;
mod http2;

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

use crate::raw::{connect, http, say};
use crate::support::{Server, WIRES};

/// Longer than any answer takes, and shorter than the server's own time limit for a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that logs to a file, with checks that it still works.
struct Target(Server);

impl Target {
    fn start() -> Self {
        Self(Server::logged("[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n[store]\nurl = \"memory:\"\n"))
    }

    /// Sends bytes, closes the sending side once `enough` has arrived, and returns everything until the server closes.
    async fn exchange(&self, name: &str, sent: Vec<u8>, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let (mut from, mut to) = connect(&self.0.url).await.into_split();
        let (end, ends) = oneshot::channel::<()>();
        // Reads and writes at the same time, because a server that has answered may stop reading.
        let writing = tokio::spawn(async move {
            let _ = to.write_all(&sent).await;
            let _ = ends.await;
            let _ = to.shutdown().await;
        });
        let (mut received, mut end) = (Vec::new(), Some(end));
        let reading = async {
            loop {
                if end.is_some() && enough(&received) {
                    end = None;
                }
                // A reset after the answer counts as an end.
                match from.read_buf(&mut received).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        };
        let read = tokio::time::timeout(PATIENCE, reading).await;
        assert!(read.is_ok(), "{name}: the server neither answers nor closes: {:?}", lossy(&received));
        writing.abort();
        received
    }

    /// Checks that the server still answers.
    async fn is_well(&self, after: &str) {
        let task = http(
            &self.0.url,
            "POST",
            "/message:send",
            &[("a2a-version", "1.0"), ("content-type", "application/json")],
            say("echo still there").to_string(),
        )
        .await;
        assert_eq!(task.status, 200, "after {after}: {task:?}");
        assert_eq!(task.json()["task"]["status"]["state"], "TASK_STATE_COMPLETED", "after {after}");
        let log = std::fs::read_to_string(self.0.dir().join("server.log")).unwrap();
        for bad in ["panic", " ERROR ", "\"INTERNAL"] {
            assert!(!log.contains(bad), "after {after}: {log}");
        }
    }

    /// Checks that the server still works over every binding, and that it logged no failure.
    async fn serves(&self) {
        for wire in WIRES {
            let task = self.0.make(wire, "echo at the end").await;
            let read = self.0.ask(wire, "GetTask", json!({"id": task["id"]})).send().await.ok();
            assert_eq!(read["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
        }
    }
}

/// Returns the beginning of bytes as text.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(600)]).into_owned()
}
