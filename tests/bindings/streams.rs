//! Server-sent events: framing, pings, errors, the end.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::support::{Running, message, start, start_with};

async fn next(body: &mut Incoming) -> Option<String> {
    let frame = tokio::time::timeout(Duration::from_secs(5), body.frame()).await.expect("a frame in time")?;
    Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
}

fn subscribe(id: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": "SubscribeToTask", "params": {"id": id}}).to_string()
}

#[tokio::test]
async fn an_event_is_one_line_of_data_and_one_of_id() {
    let running = start().await;
    let answer = running.http("GET", "/tasks/x:subscribe", &[], "").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert_eq!(answer.header("cache-control"), "no-cache");
    let status = r#""status":{"state":"TASK_STATE_WORKING"}"#;
    let expected = format!(
        "data: {{\"task\":{{\"id\":\"x\",{status}}}}}\nid: 1.1\n\ndata: {{\"task\":{{\"id\":\"second\",{status}}}}}\nid: 1.2\n\n"
    );
    assert_eq!(answer.text(), expected);

    let answer = running.post("/", subscribe("x")).await;
    let lines: Vec<_> = answer.text().lines().collect();
    assert_eq!(lines.len(), 6, "{lines:?}");
    let event: Value = serde_json::from_str(lines[0].strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(
        (&event["jsonrpc"], &event["id"], &event["result"]["task"]["id"]),
        (&json!("2.0"), &json!(7), &json!("x"))
    );
    assert_eq!((lines[1], lines[2]), ("id: 1.1", ""));
}

#[tokio::test]
async fn an_event_holds_no_character_that_some_readers_take_for_the_end_of_a_line() {
    let running = start().await;
    // Not these: characters that begin with the same bytes.
    let id = "\u{85}a\u{2028}b\u{2029}\u{2029}c\u{a0}\u{201c}é€\u{85}";
    for (path, wanted) in [("/", "/result/task/id"), ("/tasks", "/task/id")] {
        let answer = match path {
            "/" => running.post("/", subscribe(id)).await,
            _ => {
                let coded: String = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
                running.http("GET", &format!("/tasks/{coded}:subscribe"), &[], "").await
            }
        };
        let data = answer.text().lines().next().unwrap().strip_prefix("data: ").unwrap();
        assert!(!data.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{data}");
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(event.pointer(wanted).unwrap(), id, "{data}");
    }
}

#[tokio::test]
async fn what_is_ready_goes_out_together() {
    let running = start().await;
    let mut body = running.open("GET", "/tasks/many:subscribe", &[], "").await.into_body();
    let (mut frames, mut text) = (0, String::new());
    while let Some(frame) = next(&mut body).await {
        frames += 1;
        text.push_str(&frame);
    }
    assert_eq!(text.matches("data: ").count(), 1000);
    assert!(text.ends_with("id: 1.1000\n\n"));
    assert!(frames < 50, "{frames} frames");
}

#[tokio::test]
async fn an_error_before_the_stream_is_a_plain_answer() {
    let running = start().await;
    let answer = running.http("GET", "/tasks/missing:subscribe", &[], "").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (404, "application/a2a+json"));
    let answer = running.post("/", subscribe("missing")).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.json()["error"]["code"], -32001);
    let mut empty = message("x");
    empty["message"]["parts"] = json!([]);
    let answer = running.post("/message:stream", empty.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (400, "application/json"));
}

#[tokio::test]
async fn an_error_in_the_stream_is_its_last_event() {
    let running = start().await;
    let answer = running.http("GET", "/tasks/fails:subscribe", &[], "").await;
    let (first, last) = answer.text().split_once("\n\n").unwrap();
    assert!(first.starts_with("data: "), "{first}");
    let data = last.strip_prefix("event: error\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
    let error: Value = serde_json::from_str(data).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["status"]), (&json!(404), &json!("NOT_FOUND")));

    let answer = running.post("/", subscribe("fails")).await;
    let (_, last) = answer.text().split_once("\n\n").unwrap();
    let error: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(-32001)));
}

fn pinging(
    every: Option<Duration>,
) -> impl FnOnce(
    tricord::internals::server::Builder<crate::support::Dummy>,
) -> tricord::internals::server::Builder<crate::support::Dummy> {
    move |builder| builder.settings(tricord_bindings::BindingSettings { ping: every, ..Default::default() })
}

#[tokio::test]
async fn silence_is_broken_by_comments_of_one_line() {
    let running = start_with(pinging(Some(Duration::from_millis(20)))).await;
    for path in ["/tasks/waits:subscribe", "/"] {
        let mut body = match path {
            "/" => running.open("POST", "/", &[("content-type", "application/json")], subscribe("waits")).await,
            path => running.open("GET", path, &[], "").await,
        }
        .into_body();
        assert!(next(&mut body).await.unwrap().starts_with("data: "));
        for _ in 0..3 {
            assert_eq!(next(&mut body).await.unwrap(), ": ping\n");
        }
    }
}

#[tokio::test]
async fn pings_can_be_off() {
    let running = start_with(pinging(None)).await;
    let mut body = running.open("GET", "/tasks/waits:subscribe", &[], "").await.into_body();
    assert!(next(&mut body).await.unwrap().starts_with("data: "));
    assert!(tokio::time::timeout(Duration::from_millis(100), body.frame()).await.is_err());
}

#[tokio::test]
async fn a_stream_ends_with_a_comment_when_the_server_does() {
    let running = start().await;
    let mut body = running.open("GET", "/tasks/waits:subscribe", &[], "").await.into_body();
    assert!(next(&mut body).await.unwrap().starts_with("data: "));
    running.server.begin_stop();
    running.server.end_streams();
    let comment = next(&mut body).await.unwrap();
    assert!(comment.starts_with(": ") && comment.ends_with('\n') && comment.lines().count() == 1, "{comment:?}");
    assert_eq!(next(&mut body).await, None);
    tokio::time::timeout(Duration::from_secs(5), running.server.stopped(Duration::from_secs(4))).await.unwrap();
}

#[tokio::test]
async fn the_last_event_id_reaches_the_service() {
    let running: Running = start().await;
    running.http("GET", "/tasks/x:subscribe", &[("last-event-id", "1.7")], "").await;
    running.http("POST", "/", &[("content-type", "application/json"), ("last-event-id", "1.8")], subscribe("x")).await;
    let ids: Vec<_> = running.dummy.take().into_iter().map(|seen| seen.last_event_id.unwrap()).collect();
    assert_eq!(ids, ["1.7", "1.8"]);
}
