//! Following a task over connections that break.

use tricord::client::{Client, ClientSettings};
use tricord::schema::{Message, Part, Role, SendMessageRequest, StreamResponse, TaskState, part, stream_response};

use crate::peer::{self, Peer, cut_events, error_answer, event, events, json_answer, piece, status, task_event};

const WORKING: &str = "TASK_STATE_WORKING";
const COMPLETED: &str = "TASK_STATE_COMPLETED";

fn request() -> SendMessageRequest {
    let part = Part { content: Some(part::Content::Text("go".into())), ..Part::default() };
    let message = Message { message_id: "m".into(), role: Role::User.into(), parts: vec![part], ..Message::default() };
    SendMessageRequest { message: Some(message), ..SendMessageRequest::default() }
}

/// What an event says, in a word or two.
fn word(event: &StreamResponse) -> String {
    let texts = |parts: &[Part]| {
        let text = |part: &Part| match &part.content {
            Some(part::Content::Text(text)) => text.clone(),
            other => format!("{other:?}"),
        };
        parts.iter().map(text).collect::<String>()
    };
    match event.payload.as_ref().unwrap() {
        stream_response::Payload::Task(task) => {
            let artifacts = task.artifacts.iter().map(|a| texts(&a.parts)).collect::<String>();
            format!("task {} {artifacts}", task.status.as_ref().unwrap().state().as_str_name())
        }
        stream_response::Payload::Message(message) => format!("message {}", texts(&message.parts)),
        stream_response::Payload::StatusUpdate(update) => {
            update.status.as_ref().unwrap().state().as_str_name().to_owned()
        }
        stream_response::Payload::ArtifactUpdate(update) => texts(&update.artifact.as_ref().unwrap().parts),
    }
}

async fn stream(peer: &Peer) -> (Vec<String>, Option<TaskState>, Option<String>) {
    let client = Client::connect(&peer.url, ClientSettings::default()).await.unwrap();
    let mut events = client.stream(request()).await.unwrap();
    let mut words = Vec::new();
    let mut failure = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => words.push(word(&event)),
            Err(error) => failure = Some(error.to_string()),
        }
    }
    (words, events.state(), failure)
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_the_last_event() {
    let peer = Peer::http(|_, before| match before {
        0 => cut_events(&[event("1.1", &task_event(WORKING, "")), event("1.2", &piece("one ", false))]),
        1 => events(&[
            event("1.2", &task_event(WORKING, "one ")),
            event("1.4", &piece("two", true)),
            event("1.5", &status(COMPLETED)),
        ]),
        _ => unreachable!(),
    });
    let (words, state, failure) = stream(&peer).await;
    assert_eq!(words, ["task TASK_STATE_WORKING ", "one ", "two", COMPLETED]);
    assert_eq!((state, failure), (Some(TaskState::Completed), None));
    let seen = peer.seen();
    assert_eq!(seen[1].line, "POST /tasks/t1:subscribe");
    assert_eq!(seen[1].header("last-event-id"), Some("1.2"));
}

#[tokio::test]
async fn a_server_that_subscribes_by_get_only_is_asked_by_get_after_post() {
    for refusal in [404, 405] {
        let peer = Peer::http(move |_, before| match before {
            0 => cut_events(&[event("1.1", &task_event(WORKING, ""))]),
            1 => json_answer(refusal, &serde_json::json!({})),
            _ => events(&[event("1.1", &task_event(WORKING, "")), event("1.2", &status(COMPLETED))]),
        });
        let (words, _, failure) = stream(&peer).await;
        assert_eq!(words, ["task TASK_STATE_WORKING ", COMPLETED]);
        assert_eq!(failure, None);
        let seen: Vec<_> = peer.seen().into_iter().map(|seen| seen.line).collect();
        assert_eq!(seen[1..], ["POST /tasks/t1:subscribe", "GET /tasks/t1:subscribe"]);
    }
}

#[tokio::test]
async fn a_server_that_knows_the_cursor_no_more_sends_the_task_as_it_stands() {
    let peer = Peer::http(|_, before| match before {
        0 => cut_events(&[event("1.1", &task_event(WORKING, "")), event("1.2", &piece("one ", false))]),
        _ => events(&[event("2.7", &task_event(WORKING, "one two")), event("2.8", &status(COMPLETED))]),
    });
    let (words, _, _) = stream(&peer).await;
    assert_eq!(words, ["task TASK_STATE_WORKING ", "one ", "task TASK_STATE_WORKING one two", COMPLETED]);
}

#[tokio::test]
async fn a_task_that_ended_meanwhile_is_read() {
    let peer = Peer::http(|_, before| match before {
        0 => cut_events(&[event("1.1", &task_event(WORKING, "")), event("1.2", &piece("one ", false))]),
        1 => error_answer(400, "UNSUPPORTED_OPERATION", "the task has ended"),
        _ => json_answer(200, &peer::task(COMPLETED, "one two")),
    });
    let (words, state, failure) = stream(&peer).await;
    assert_eq!(words, ["task TASK_STATE_WORKING ", "one ", "task TASK_STATE_COMPLETED one two"]);
    assert_eq!((state, failure), (Some(TaskState::Completed), None));
    assert_eq!(peer.seen()[2].line, "GET /tasks/t1");
}

#[tokio::test]
async fn a_server_that_goes_away_is_tried_again() {
    let peer = Peer::http(|_, before| match before {
        // It drains: the stream ends cleanly, but the task has not ended.
        0 => events(&[event("1.1", &task_event(WORKING, ""))]),
        1 => error_answer(503, "UNAVAILABLE", "draining"),
        2 => peer::answer(502, "", "bad gateway"),
        _ => events(&[event("1.1", &task_event(WORKING, "")), event("1.2", &status(COMPLETED))]),
    });
    let (words, state, failure) = stream(&peer).await;
    assert_eq!(words, ["task TASK_STATE_WORKING ", COMPLETED]);
    assert_eq!((state, failure), (Some(TaskState::Completed), None));
    assert_eq!(peer.seen().len(), 4);
}

#[tokio::test]
async fn a_server_that_ends_every_stream_at_once_is_asked_less_and_less() {
    let peer = Peer::http(|_, before| match before {
        0..3 => events(&[event("", &task_event(WORKING, ""))]),
        3 => cut_events(&[event("", &task_event(WORKING, ""))]),
        _ => events(&[event("", &task_event(COMPLETED, ""))]),
    });
    let begun = std::time::Instant::now();
    let (_, state, failure) = stream(&peer).await;
    assert_eq!((state, failure), (Some(TaskState::Completed), None));
    // At once for a server that restarts, then after a quarter, a half and a whole second.
    assert!(begun.elapsed() >= std::time::Duration::from_millis(1750), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_error_that_will_not_pass_ends_it() {
    let peer = Peer::http(|_, before| match before {
        0 => cut_events(&[event("1.1", &task_event(WORKING, ""))]),
        _ => error_answer(404, "TASK_NOT_FOUND", "no such task"),
    });
    let (words, _, failure) = stream(&peer).await;
    assert_eq!(words, ["task TASK_STATE_WORKING "]);
    assert_eq!(failure.as_deref(), Some("no such task (TASK_NOT_FOUND, HTTP status 404)"));
    assert_eq!(peer.seen().len(), 2);
}

#[tokio::test]
async fn a_break_after_the_end_is_no_loss() {
    let peer = Peer::http(|_, _| cut_events(&[event("1.1", &task_event(COMPLETED, "all"))]));
    let (words, _, failure) = stream(&peer).await;
    assert_eq!((words.len(), failure), (1, None));
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn a_break_before_the_task_is_known_is_told() {
    let peer = Peer::http(|_, _| cut_events(&[]));
    let (words, _, failure) = stream(&peer).await;
    assert!(words.is_empty());
    assert!(failure.as_deref().is_some_and(|text| text.starts_with("the connection broke: ")), "{failure:?}");
}

#[tokio::test]
async fn a_stream_that_asks_the_client_ends() {
    let ask = "TASK_STATE_INPUT_REQUIRED";
    let peer = Peer::http(move |_, _| events(&[event("1.1", &task_event(WORKING, "")), event("1.2", &status(ask))]));
    let (words, state, failure) = stream(&peer).await;
    assert_eq!(words.last().map(String::as_str), Some(ask));
    assert_eq!((state, failure), (Some(TaskState::InputRequired), None));
    assert_eq!(peer.seen().len(), 1);
}
