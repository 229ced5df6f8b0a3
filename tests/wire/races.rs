//! Races: whichever of two concurrent calls comes first, all clients see the same outcome.

use std::time::Duration;

use serde_json::json;

use crate::raw::{Event, on_every_wire, say, say_at_once, say_to};
use crate::streams::gists;
use crate::support::{Server, WIRES};

/// Counts the events of a stream that report the end of the task.
fn ends(events: &[Event]) -> usize {
    let is_end = |state: &String| ["completed", "failed", "canceled", "rejected"].contains(&state.as_str());
    gists(events).iter().filter(|state| is_end(state)).count()
}

#[tokio::test]
async fn a_cancel_and_the_end_of_the_work_have_one_winner() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let (mut canceled, mut completed) = (0, 0);
        for round in 0..30_u64 {
            let mut stream = server.ask(wire, "SendStreamingMessage", say("slow 0.03")).stream().await;
            let first = stream.event().await;
            let id = first.value["task"]["id"].as_str().unwrap();
            let cancel = async {
                tokio::time::sleep(Duration::from_micros(20_000 + round * 700)).await;
                server.ask(wire, "CancelTask", json!({"id": id})).send().await.outcome()
            };
            let (events, answer) = futures::future::join(stream.rest(), cancel).await;
            assert_eq!(ends(&events), 1, "{wire}: {:?}", gists(&events));
            let state = events.last().unwrap().state().to_owned();
            assert_eq!(server.task(wire, id).await["status"]["state"], state.as_str(), "{wire}");
            match answer {
                Ok(task) => {
                    assert_eq!(
                        (&task["status"]["state"], state.as_str()),
                        (&json!(state), "TASK_STATE_CANCELED"),
                        "{wire}"
                    );
                    canceled += 1;
                }
                Err(refusal) => {
                    let told = (refusal.reason.as_str(), state.as_str());
                    assert_eq!(told, ("TASK_NOT_CANCELABLE", "TASK_STATE_COMPLETED"), "{wire}");
                    completed += 1;
                }
            }
        }
        println!("{wire}: {canceled} canceled, {completed} completed");
    })
    .await;
}

#[tokio::test]
async fn a_message_at_the_end_of_the_work_is_answered_or_refused_and_never_lost() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let (mut taken, mut refused) = (0, 0);
        for round in 0..30_u64 {
            let begun = server.ask(wire, "SendMessage", say_at_once("slow 0.03")).send().await.ok();
            let id = begun["task"]["id"].as_str().unwrap();
            tokio::time::sleep(Duration::from_micros(15_000 + round * 900)).await;
            // Alternates between a call that waits for the answer and one that streams it.
            let outcome = if round % 2 == 0 {
                server.ask(wire, "SendMessage", say_to(id, "echo also")).send().await.outcome().map(|answer| {
                    assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
                    answer["task"].clone()
                })
            } else {
                match server.ask(wire, "SendStreamingMessage", say_to(id, "echo also")).open().await {
                    Ok(mut stream) => {
                        let events = stream.rest().await;
                        assert_eq!(ends(&events), 1, "{wire}: {:?}", gists(&events));
                        Ok(server.task(wire, id).await)
                    }
                    Err(answer) => answer.outcome(),
                }
            };
            match outcome {
                Ok(task) => {
                    let made: Vec<_> =
                        task["artifacts"].as_array().unwrap().iter().map(|a| a["name"].clone()).collect();
                    assert_eq!(
                        made,
                        ["slow", "echo"],
                        "{wire}: the message was accepted, so a run must have handled it"
                    );
                    assert_eq!(task["history"].as_array().unwrap().len(), 2, "{wire}");
                    taken += 1;
                }
                Err(refusal) => {
                    assert_eq!(refusal.reason, "UNSUPPORTED_OPERATION", "{wire}");
                    assert_eq!(server.task(wire, id).await["history"].as_array().unwrap().len(), 1, "{wire}");
                    refused += 1;
                }
            }
        }
        println!("{wire}: {taken} taken, {refused} refused");
    })
    .await;
}

#[tokio::test]
async fn many_concurrent_messages_to_one_task_are_all_stored_and_answered() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let asked = server.make(wire, "tck-multi-turn").await;
        let id = asked["id"].as_str().unwrap();
        let sends = (0..20).map(|n| async move {
            let wire = WIRES[n % 3];
            server.ask(wire, "SendMessage", say_to(id, &format!("turn {n}"))).send().await.ok()
        });
        for answer in futures::future::join_all(sends).await {
            assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{wire}");
        }
        let task = server.ask(wire, "SendMessage", say_to(id, "done")).send().await.ok();
        let history = task["task"]["history"].as_array().unwrap();
        for n in 0..20 {
            let said = json!([{"text": format!("turn {n}")}]);
            assert_eq!(history.iter().filter(|message| message["parts"] == said).count(), 1, "{wire} {n}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_deadline_ends_a_stream_and_not_its_task() {
    let server = Server::shared();
    let wire = tricord::client::Binding::Grpc;
    let ask = server.ask(wire, "SendStreamingMessage", say("slow 0.8")).header("grpc-timeout", "400m");
    let mut stream = ask.stream().await;
    let first = stream.event().await;
    assert_eq!(gists(&[stream.event().await]), ["working"]);
    assert_eq!(stream.next().await.unwrap().unwrap_err().reason, "DEADLINE_EXCEEDED");
    let id = first.value["task"]["id"].as_str().unwrap();
    let mut rest = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
    assert_eq!(gists(&rest.rest().await), ["task working", "piece last", "completed"]);
}
