//! Tasks on every wire: sent, read, followed up, listed, cancelled, followed, resumed.

use tricord::schema::stream_response::Payload;
use tricord::schema::{CancelTaskRequest, GetTaskRequest, ListTasksRequest, Role, TaskState};
use tricord_bindings::client::ClientError;

use crate::support::{Server, WIRES, artifact_text, at_once, follow_up, request, state, task_of};

fn reason(error: &ClientError) -> &str {
    error.server().and_then(|error| error.reason.as_deref()).unwrap_or_else(|| panic!("no server's reason: {error:?}"))
}

#[tokio::test]
async fn a_task_made_on_one_wire_is_the_same_on_all() {
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
async fn a_stream_has_the_same_events_on_every_wire() {
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
async fn a_message_answer_is_no_task() {
    let server = Server::two_agents();
    for wire in WIRES {
        let client = server.client(wire).await;
        let response = client.send(request("msg hi")).await.unwrap();
        let Some(tricord::schema::send_message_response::Payload::Message(message)) = response.payload else {
            panic!("{wire}: expected a message, got {response:?}")
        };
        assert!(!message.context_id.is_empty() && message.task_id.is_empty(), "{wire}");
        let mut events = client.stream(request("msg hi")).await.unwrap();
        let first = events.next().await.unwrap().unwrap();
        assert!(matches!(first.payload, Some(Payload::Message(_))), "{wire}: {first:?}");
        assert!(events.next().await.is_none(), "{wire}");
        let list = client.list_tasks(ListTasksRequest::default()).await.unwrap();
        assert_eq!(list.total_size, 0, "{wire}");
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
async fn c01_c02_c33_an_ended_task_takes_no_message_no_subscriber_and_no_cancel() {
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
async fn c03_a_task_that_does_not_exist_is_not_found_and_not_made() {
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
async fn c31_a_cancel_ends_the_task_and_the_streams_that_follow_it() {
    let server = Server::two_agents();
    for wire in WIRES {
        let client = server.client(wire).await;
        let task = task_of(client.send(at_once(request("slow 30"))).await.unwrap());
        let mut events = client.follow(&task.id, None).await.unwrap();
        assert!(matches!(events.next().await.unwrap().unwrap().payload, Some(Payload::Task(_))), "{wire}");
        let canceled =
            client.cancel_task(CancelTaskRequest { id: task.id.clone(), ..Default::default() }).await.unwrap();
        assert_eq!(state(&canceled), TaskState::Canceled, "{wire}");
        let mut last = None;
        while let Some(event) = events.next().await {
            last = event.unwrap().payload;
        }
        let Some(Payload::StatusUpdate(update)) = last else { panic!("{wire}: the stream ended with {last:?}") };
        assert_eq!(update.status.unwrap().state(), TaskState::Canceled, "{wire}");
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

#[tokio::test]
async fn c46_pages_cover_every_task_once() {
    let server = Server::two_agents();
    let client = server.client(WIRES[1]).await;
    let mut made = Vec::new();
    for n in 0..25 {
        made.push(task_of(client.send(request(&format!("echo {n}"))).await.unwrap()).id);
    }
    made.reverse();
    for wire in WIRES {
        let client = server.client(wire).await;
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let ask = ListTasksRequest { page_size: Some(7), page_token: token, ..Default::default() };
            let page = client.list_tasks(ask).await.unwrap();
            assert_eq!((page.total_size, page.page_size), (25, 7), "{wire}");
            assert!(page.tasks.iter().all(|task| task.artifacts.is_empty()), "{wire}");
            seen.extend(page.tasks.into_iter().map(|task| task.id));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, made, "{wire}");
    }
}
