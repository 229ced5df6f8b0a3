//! Resuming a stream after an event: from the middle, from the end, with an id of another store generation; while the
//! task runs, after its end, after a restart.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{Event, fresh, normal, output, say, say_at_once, say_to, with};
use crate::streams::{gist, gists};
use crate::support::{Server, WIRES};

/// A task that was followed to its end over HTTP, with the id of every event.
struct Story {
    id: String,
    events: Vec<Event>,
}

impl Story {
    /// Makes a task that writes an artifact in pieces.
    async fn tell(server: &Server, words: &str) -> Self {
        // With the message itself, as a subscriber gets it.
        let params = with(say(words), json!({"configuration": {"historyLength": 10}}));
        let events = server.ask(Binding::HttpJson, "SendStreamingMessage", params).stream().await.rest().await;
        Self { id: events[0].value["task"]["id"].as_str().unwrap().to_owned(), events }
    }

    fn generation(&self) -> &str {
        self.events[0].id.as_ref().unwrap().split_once('.').unwrap().0
    }

    /// Returns the task as of an event, folded here by the rules of the protocol.
    fn folded(&self, at: usize) -> Value {
        let mut task = self.events[0].value["task"].clone();
        for event in &self.events[1..=at] {
            if let Some(update) = event.value.get("statusUpdate") {
                if let Some(said) = task["status"].get("message").cloned() {
                    task["history"].as_array_mut().unwrap().push(said);
                }
                task["status"] = update["status"].clone();
            }
            if let Some(update) = event.value.get("artifactUpdate") {
                let piece = update["artifact"].clone();
                if task.get("artifacts").is_none() {
                    task["artifacts"] = json!([]);
                }
                let artifacts = task["artifacts"].as_array_mut().unwrap();
                let known = artifacts.iter_mut().find(|artifact| artifact["artifactId"] == piece["artifactId"]);
                match known {
                    Some(artifact) if update["append"] == true => {
                        let more = piece["parts"].as_array().unwrap().clone();
                        artifact["parts"].as_array_mut().unwrap().extend(more);
                    }
                    Some(artifact) => *artifact = piece,
                    None => artifacts.push(piece),
                }
            }
        }
        task
    }

    /// Returns the events that a subscriber with this cursor gets over one binding.
    async fn after(&self, server: &Server, wire: Binding, cursor: &str) -> Vec<Event> {
        let ask = server.ask(wire, "SubscribeToTask", json!({"id": self.id})).header("last-event-id", cursor);
        ask.stream().await.rest().await
    }

    async fn check(&self, server: &Server, wire: Binding) {
        let last = self.events.len() - 1;
        for at in 0..last {
            let cursor = self.events[at].id.clone().unwrap();
            let events = self.after(server, wire, &cursor).await;
            self.check_from(wire, at, &events);
        }
        for cursor in [self.events[last].id.as_deref(), None, Some("")] {
            let ask = server.ask(wire, "SubscribeToTask", json!({"id": self.id}));
            let ask = match cursor {
                Some(cursor) => ask.header("last-event-id", cursor),
                None => ask,
            };
            ask.send().await.refused("UNSUPPORTED_OPERATION");
        }
        let generation: u64 = self.generation().parse().unwrap();
        let head = self.events[last].place().unwrap();
        for cursor in [
            format!("{}.{}", generation + 1, 3),
            format!("{generation}.{}", head + 1),
            format!("{generation}.0"),
            "garbage".to_owned(),
        ] {
            let events = self.after(server, wire, &cursor).await;
            assert_eq!(events.len(), 1, "{wire} {cursor}: {:?}", gists(&events));
            self.check_task(wire, last, &events[0]);
        }
    }

    fn check_task(&self, wire: Binding, at: usize, event: &Event) {
        let expected = json!({"task": self.folded(at)});
        if wire == Binding::Grpc {
            assert_eq!(event.value, normal(&output("SubscribeToTask"), &expected), "{wire} at {at}");
        } else {
            assert_eq!(event.value, expected, "{wire} at {at}");
        }
    }

    fn check_from(&self, wire: Binding, at: usize, events: &[Event]) {
        self.check_task(wire, at, &events[0]);
        let rest = &self.events[at + 1..];
        if wire == Binding::Grpc {
            let values = |events: &[Event]| -> Vec<Value> {
                events.iter().map(|event| normal(&output("SubscribeToTask"), &event.value)).collect()
            };
            assert_eq!(values(&events[1..]), values(rest), "{wire} after {at}");
        } else {
            assert_eq!(events[0].id, self.events[at].id, "{wire} after {at}");
            assert_eq!(events[1..], *rest, "{wire} after {at}");
        }
    }
}

#[tokio::test]
async fn s18_an_ended_task_is_replayed_from_any_event_even_after_a_restart() {
    let mut server = Server::two_agents();
    let mut stories = Vec::new();
    for words in ["chunks 6", "fail", "echo hi", "tck-complete-task"] {
        stories.push(Story::tell(&server, words).await);
    }
    for restarted in [false, true] {
        if restarted {
            server.kill_and_restart();
        }
        for story in &stories {
            for wire in WIRES {
                story.check(&server, wire).await;
            }
        }
    }
}

#[tokio::test]
async fn s18_a_running_task_can_be_resumed_after_any_event() {
    let server = Server::shared();
    let gate = fresh();
    let params = say_at_once(&format!("gate {gate} chunks 4"));
    let task = server.ask(Binding::JsonRpc, "SendMessage", params).send().await.ok();
    let id = task["task"]["id"].as_str().unwrap();
    let subscribe = |wire: Binding, cursor: &str| {
        server.ask(wire, "SubscribeToTask", json!({"id": id})).header("last-event-id", cursor)
    };
    let mut first = subscribe(Binding::HttpJson, "").stream().await;
    let head = first.event().await;
    let generation = head.id.as_ref().unwrap().split_once('.').unwrap().0.to_owned();
    assert_eq!(gist(&head), "task working");
    // Cursors at the head, above it, of another generation, and before the status.
    let place = head.place().unwrap();
    let mut streams = Vec::new();
    for wire in WIRES {
        for (cursor, begins) in [
            (format!("{generation}.{place}"), vec!["task working"]),
            (format!("{generation}.{}", place + 5), vec!["task working"]),
            (format!("{}.{}", generation.parse::<u64>().unwrap() + 1, place - 1), vec!["task working"]),
            (format!("{generation}.{}", place - 1), vec!["task submitted", "working"]),
        ] {
            let mut stream = subscribe(wire, &cursor).stream().await;
            for gist_of in &begins {
                assert_eq!(gist(&stream.event().await), *gist_of, "{wire} {cursor}");
            }
            streams.push((wire, cursor, stream));
        }
    }
    server.make(Binding::Grpc, &format!("open {gate}")).await;
    let told = first.rest().await;
    assert_eq!(gists(&told), ["piece", "piece append", "piece append", "piece append last", "completed"]);
    for (wire, cursor, mut stream) in streams {
        let events = stream.rest().await;
        assert_eq!(gists(&events), gists(&told), "{wire} {cursor}");
        if wire != Binding::Grpc {
            assert_eq!(events, told, "{wire} {cursor}");
        }
    }
}

#[tokio::test]
async fn s18_a_task_of_several_turns_is_replayed_from_each_turn() {
    let server = Server::shared();
    let first = server.ask(Binding::HttpJson, "SendStreamingMessage", say("ask")).stream().await.rest().await;
    let id = first[0].value["task"]["id"].as_str().unwrap();
    let second = server.ask(Binding::HttpJson, "SendStreamingMessage", say_to(id, "42")).stream().await.rest().await;
    assert_eq!(gists(&second), ["task working", "completed"]);
    for wire in WIRES {
        let ask = |cursor: &Option<String>| {
            let ask = server.ask(wire, "SubscribeToTask", json!({"id": id}));
            ask.header("last-event-id", cursor.as_ref().unwrap())
        };
        let events = ask(&first[1].id).stream().await.rest().await;
        assert_eq!(gists(&events), ["task input_required", "working", "completed"], "{wire}");
        assert_eq!(events[0].value["task"]["history"].as_array().unwrap().len(), 1, "{wire}");
        let events = ask(&second[0].id).stream().await.rest().await;
        assert_eq!(gists(&events), ["task working", "completed"], "{wire}");
        assert_eq!(events[0].value["task"]["history"].as_array().unwrap().len(), 3, "{wire}");
    }
}

#[tokio::test]
async fn s18_a_cursor_is_ignored_when_a_message_is_sent() {
    let server = Server::shared();
    for wire in WIRES {
        let ask = server.ask(wire, "SendStreamingMessage", say("echo hi")).header("last-event-id", "1.3");
        let events = ask.stream().await.rest().await;
        assert_eq!(gists(&events), ["task submitted", "working", "piece last", "completed"], "{wire}");
    }
}

#[tokio::test]
async fn slow_readers_block_no_other_client_and_miss_no_event() {
    let server = Server::shared();
    let gate = fresh();
    // 8 MiB is more than sockets, flow-control windows and the buffers for readers hold together.
    let piece = "0123456789abcdef".repeat(256);
    let parts = json!([{"text": format!("gate {gate} chunks 2000")}, {"text": piece}]);
    let params = crate::raw::with(say_at_once(""), json!({"message": {"parts": parts}}));
    let task = server.ask(Binding::JsonRpc, "SendMessage", params).send().await.ok();
    let id = task["task"]["id"].as_str().unwrap();
    let mut slow = Vec::new();
    for wire in WIRES {
        let mut stream = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
        stream.event().await;
        slow.push(stream);
    }
    let mut quick = server.ask(Binding::HttpJson, "SubscribeToTask", json!({"id": id})).stream().await;
    quick.event().await;
    server.make(Binding::Grpc, &format!("open {gate}")).await;
    // While three subscribers do not read at all, the task ends and a fourth one sees all of it.
    let told = quick.rest().await;
    assert_eq!(told.len(), 2001);
    assert_eq!(server.task(Binding::Grpc, id).await["status"]["state"], "TASK_STATE_COMPLETED");
    for mut stream in slow {
        let events = stream.rest().await;
        assert_eq!(gists(&events), gists(&told), "{}", stream.wire);
        if stream.wire != Binding::Grpc {
            assert_eq!(events, told, "{}", stream.wire);
        }
    }
}

#[tokio::test]
async fn s18_a_store_restored_from_a_backup_gives_fresh_snapshots() {
    let mut server = Server::two_agents();
    let story = Story::tell(&server, "chunks 3").await;
    server.terminate();
    assert!(server.wait());
    let restored = server.command(&["store", "restored"]);
    assert!(restored.status.success(), "{restored:?}");
    server.restart();
    let last = story.events.len() - 1;
    for wire in WIRES {
        // The same number in another generation of the store may be a different event.
        let events = story.after(&server, wire, story.events[1].id.as_deref().unwrap()).await;
        assert_eq!(events.len(), 1, "{wire}");
        story.check_task(wire, last, &events[0]);
    }
    let again = Story::tell(&server, "echo hi").await;
    assert_ne!(again.generation(), story.generation());
}
