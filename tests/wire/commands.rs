//! Agents of kind exec: their output becomes one text, in events that every client can read.

use serde_json::json;

use crate::raw::{http, on_every_wire, parts_text, say};
use crate::streams::gist;
use crate::support::Server;

/// Prints many characters that JSON and event streams encode with more than one byte.
const LOUD: &str = r#"
[[agents]]
name = "loud"
kind = "exec"
command = ["sh", "-c", "cat text"]
"#;

fn text() -> String {
    let mut text = String::new();
    for piece in
        ["\u{1}\u{2}\u{1f}", "\"\"\"\\\\", "\n\n\n", "\t\r", "\u{2028}\u{85}", "é", "🙂", "plain text ", "\u{7f}"]
    {
        text.push_str(&piece.repeat(30_000 / piece.len()));
    }
    text
}

#[tokio::test]
async fn s19_long_output_is_split_into_lines_that_every_client_can_read() {
    let server = Server::start(LOUD);
    let text = text();
    std::fs::write(server.dir().join("text"), &text).unwrap();
    let (server, text) = (&server, &text);
    on_every_wire(|wire| async move {
        let ask = server.ask(wire, "SendStreamingMessage", say("go"));
        let events = ask.stream().await.rest().await;
        assert_eq!(gist(events.last().unwrap()), "completed", "{wire}: {:?}", events.last());
        let whole: String = events.iter().map(|event| event.text()).collect();
        assert!(whole == *text, "{wire}: {} bytes for {}", whole.len(), text.len());
        let pieces = events.iter().filter(|event| event.kind() == "artifactUpdate").count();
        assert!(pieces > 5, "{wire}: {pieces}");
        let task = server.task(wire, events[0].value["task"]["id"].as_str().unwrap()).await;
        assert_eq!(task["artifacts"].as_array().unwrap().len(), 1, "{wire}");
        assert!(parts_text(&task["artifacts"][0]["parts"]) == *text, "{wire}");
    })
    .await;
    for (path, body) in [
        ("/message:stream", say("go")),
        ("/", json!({"jsonrpc": "2.0", "id": "x", "method": "SendStreamingMessage", "params": say("go")})),
    ] {
        let headers = [("a2a-version", "1.0"), ("content-type", "application/json")];
        let reply = http(&server.url, "POST", path, &headers, body.to_string()).await;
        let longest = reply.text().split('\n').map(str::len).max().unwrap();
        assert!(longest < 48_000, "{path}: {longest}");
    }
}
