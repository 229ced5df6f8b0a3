//! Tasks over every binding: send, read, follow up, list, cancel, subscribe, resume.

use tricord::schema::stream_response::Payload;
use tricord::schema::{CancelTaskRequest, GetTaskRequest, ListTasksRequest, Role, TaskState};
use tricord_bindings::client::ClientError;

use crate::support::{Server, WIRES, artifact_text, follow_up, request, state, task_of};

fn reason(error: &ClientError) -> &str {
    error.server().and_then(|error| error.reason.as_deref()).unwrap_or_else(|| panic!("no server's reason: {error:?}"))
}

#[tokio::test]
async fn a_task_created_over_one_binding_is_the_same_over_all() {
    let server = Server::two_agents();
    for made in WIRES {
        let task = task_of(server.client(made).await.send(request("echo hello there")).await.unwrap());
        assert_eq!(state(&task), TaskState::Completed, "{made}");
        assert_eq!(artifact_text(&task), "hello there", "{made}");
        for read in WIRES {
            let client = server.client(read).await;
            let again = client.get_task(GetTaskRequest { id: task.id.clone(), ..Default::default() }).await.unwrap();
            assert_eq!(again, task, "made on {made}, read on {read}");
        }
    }
}

#[tokio::test]
async fn a_stream_has_the_same_events_over_every_binding() {
    let server = Server::two_agents();
    for wire in WIRES {
        let client = server.client(wire).await;
        let mut events = client.stream(request("chunks 3")).await.unwrap();
        let mut kinds = Vec::new();
        while let Some(event) = events.next().await {
            kinds.push(match event.unwrap().payload.unwrap() {
                Payload::Task(task) => format!("task {:?}", state(&task)),
                Payload::StatusUpdate(update) => format!("{:?}", update.status.unwrap().state()),
                Payload::ArtifactUpdate(update) => format!("piece {} {}", update.append, update.last_chunk),
                Payload::Message(_) => "message".to_owned(),
            });
        }
        let expected =
            ["task Submitted", "Working", "piece false false", "piece true false", "piece true true", "Completed"];
        assert_eq!(kinds, expected, "{wire}");
    }
}

#[tokio::test]
async fn c05_a_follow_up_infers_the_context_and_history_is_in_order() {
    let server = Server::two_agents();
    for wire in WIRES {
        let client = server.client(wire).await;
        let asked = task_of(client.send(request("ask")).await.unwrap());
        assert_eq!(state(&asked), TaskState::InputRequired, "{wire}");
        let done = task_of(client.send(follow_up(&asked.id, "forty-two")).await.unwrap());
        assert_eq!(state(&done), TaskState::Completed, "{wire}");
        assert_eq!((&done.id, &done.context_id), (&asked.id, &asked.context_id), "{wire}");
        let roles: Vec<_> = done.history.iter().map(|message| message.role()).collect();
        assert_eq!(roles, [Role::User, Role::Agent, Role::User], "{wire}");
    }
}

#[tokio::test]
async fn c01_c02_c33_an_ended_task_accepts_no_message_no_subscriber_and_no_cancel() {
    let mut server = Server::two_agents();
    let ended = task_of(server.client(WIRES[0]).await.send(request("echo hi")).await.unwrap());
    for restarted in [false, true] {
        if restarted {
            server.kill_and_restart();
        }
        for wire in WIRES {
            let client = server.client(wire).await;
            let error = client.send(follow_up(&ended.id, "more")).await.unwrap_err();
            assert_eq!(reason(&error), "UNSUPPORTED_OPERATION", "{wire}");
            let error = client.follow(&ended.id, None).await.unwrap_err();
            assert_eq!(reason(&error), "UNSUPPORTED_OPERATION", "{wire}");
            let cancel = CancelTaskRequest { id: ended.id.clone(), ..Default::default() };
            assert_eq!(reason(&client.cancel_task(cancel).await.unwrap_err()), "TASK_NOT_CANCELABLE", "{wire}");
            let again = client.get_task(GetTaskRequest { id: ended.id.clone(), ..Default::default() }).await.unwrap();
            assert_eq!(again, ended, "{wire}");
        }
    }
}

#[tokio::test]
async fn c03_a_message_to_an_unknown_task_is_refused_and_creates_none() {
    let server = Server::two_agents();
    for wire in WIRES {
        let client = server.client(wire).await;
        for id in [uuid::Uuid::now_v7().to_string(), "no-such-id".to_owned()] {
            assert_eq!(reason(&client.send(follow_up(&id, "hi")).await.unwrap_err()), "TASK_NOT_FOUND", "{wire}");
            assert_eq!(reason(&client.stream(follow_up(&id, "hi")).await.unwrap_err()), "TASK_NOT_FOUND", "{wire}");
            assert_eq!(reason(&client.follow(&id, None).await.unwrap_err()), "TASK_NOT_FOUND", "{wire}");
        }
        assert_eq!(client.list_tasks(ListTasksRequest::default()).await.unwrap().total_size, 0, "{wire}");
    }
}

#[tokio::test]
async fn c38_a_task_of_one_agent_does_not_exist_for_another() {
    let server = Server::two_agents();
    for wire in WIRES {
        let (kit, other) = (server.client(wire).await, server.client_of("other", wire).await);
        let task = task_of(kit.send(request("echo hi")).await.unwrap());
        let get = GetTaskRequest { id: task.id.clone(), ..Default::default() };
        assert_eq!(reason(&other.get_task(get).await.unwrap_err()), "TASK_NOT_FOUND", "{wire}");
        assert_eq!(other.list_tasks(ListTasksRequest::default()).await.unwrap().total_size, 0, "{wire}");
    }
}
