//! A whole request through routes, bindings and errors: no input causes an internal error.
//!
//! The input is text: `VERB target`, header lines, an empty line, the body.

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio::runtime::Runtime;
use tricord::internals::server::{Anonymous, Server};
use tricord::protocol::TASK_NOT_FOUND;
use tricord::schema::*;
use tricord_bindings::wkt::Empty;
use tricord_bindings::{Error, Events, Reply};

/// A call whose agent, a name, is known.
type Call = tricord_bindings::Call<Arc<String>>;

thread_local! {
    static SERVER: RefCell<(Runtime, Server<Mirror>)> = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        RefCell::new((runtime, Server::builder(Arc::new(Mirror)).build(Anonymous).expect("a server")))
    };
}

/// Sends any request to any binding.
pub fn server(data: &[u8]) -> bool {
    let Some(request) = request(data) else { return false };
    let sent = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
    SERVER.with_borrow(|(runtime, server)| {
        runtime.block_on(async {
            let response = server.answer(request, &std::net::IpAddr::from(std::net::Ipv4Addr::LOCALHOST).into()).await;
            judge(&sent, response).await
        })
    })
}

fn request(data: &[u8]) -> Option<Request<Full<Bytes>>> {
    let end = data.windows(2).position(|two| two == b"\n\n").unwrap_or(data.len());
    let (head, body) = data.split_at(end);
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = std::str::from_utf8(lines.next()?).ok()?;
    let (verb, target) = first.split_once(' ')?;
    let mut request = Request::builder().method(verb).uri(target);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Full::from(body.get(2..).unwrap_or_default().to_vec())).ok()
}

async fn judge(sent: &str, response: Response<impl http_body::Body<Error: Display>>) -> bool {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap_or_else(|error| panic!("{sent}: the answer is incomplete: {error}"));
    let trailers = body.trailers().cloned().unwrap_or_default();
    let body = body.to_bytes();
    assert!(!head.status.is_server_error(), "{sent}: {}: {body:?}", head.status);
    let text = |name: &str| {
        let found = head.headers.get(name).or_else(|| trailers.get(name));
        found.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    if let Ok(status) = text("grpc-status").parse::<i32>() {
        assert!(![2, 13, 15].contains(&status), "{sent}: status {status}: {}", text("grpc-message"));
        return status == 0;
    }
    if text("content-type").ends_with("json") && !body.is_empty() {
        let answer: Value = serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{sent}: {error}: {body:?}"));
        if let Some(error) = answer.get("error") {
            let code = error["code"].as_i64().unwrap_or_default();
            let rpc = answer.get("jsonrpc").is_some();
            assert!(if rpc { code != -32603 } else { code == i64::from(head.status.as_u16()) }, "{sent}: {answer}");
            return false;
        }
    }
    head.status.is_success()
}

/// A service that answers with parts of the request.
struct Mirror;

fn task(id: String) -> Result<Reply<Task>, Error> {
    if id.is_empty() {
        return Err(Error::new(&TASK_NOT_FOUND, "no such task"));
    }
    Ok(Task { id, ..Task::default() }.into())
}

fn events(id: String) -> Result<Events<StreamResponse>, Error> {
    let payload = stream_response::Payload::Task(Task { id, ..Task::default() });
    let event = StreamResponse { payload: Some(payload) };
    Ok(Events::new(futures::stream::iter([Ok(Reply::Owned(event))])))
}

fn context(request: SendMessageRequest) -> String {
    request.message.map(|message| message.context_id).unwrap_or_default()
}

impl A2aService for Mirror {
    type Agent = String;

    fn authorize(&self, _: &mut tricord_bindings::Call, scope: &str) -> Result<Arc<String>, Error> {
        if !matches!(scope, "" | "kit") {
            return Err(Error::invalid("tenant", "no such agent"));
        }
        Ok(Arc::new("kit".to_owned()))
    }

    async fn send_message(&self, _: Call, request: SendMessageRequest) -> Result<Reply<SendMessageResponse>, Error> {
        let task = Task { history: request.message.into_iter().collect(), ..Task::default() };
        Ok(SendMessageResponse { payload: Some(send_message_response::Payload::Task(task)) }.into())
    }

    async fn send_streaming_message(
        &self,
        _: Call,
        request: SendMessageRequest,
    ) -> Result<Events<StreamResponse>, Error> {
        events(context(request))
    }

    async fn get_task(&self, _: Call, request: GetTaskRequest) -> Result<Reply<Task>, Error> {
        task(request.id)
    }

    async fn list_tasks(&self, _: Call, request: ListTasksRequest) -> Result<Reply<ListTasksResponse>, Error> {
        Ok(ListTasksResponse { next_page_token: request.context_id, ..ListTasksResponse::default() }.into())
    }

    async fn cancel_task(&self, _: Call, request: CancelTaskRequest) -> Result<Reply<Task>, Error> {
        Ok(Task { id: request.id, metadata: request.metadata, ..Task::default() }.into())
    }

    async fn subscribe_to_task(
        &self,
        _: Call,
        request: SubscribeToTaskRequest,
    ) -> Result<Events<StreamResponse>, Error> {
        events(request.id)
    }

    async fn create_task_push_notification_config(
        &self,
        _: Call,
        request: TaskPushNotificationConfig,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        Ok(request.into())
    }

    async fn get_task_push_notification_config(
        &self,
        _: Call,
        request: GetTaskPushNotificationConfigRequest,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        Ok(TaskPushNotificationConfig { id: request.id, ..TaskPushNotificationConfig::default() }.into())
    }

    async fn list_task_push_notification_configs(
        &self,
        _: Call,
        _: ListTaskPushNotificationConfigsRequest,
    ) -> Result<Reply<ListTaskPushNotificationConfigsResponse>, Error> {
        Ok(ListTaskPushNotificationConfigsResponse::default().into())
    }

    async fn get_extended_agent_card(
        &self,
        _: Call,
        _: GetExtendedAgentCardRequest,
    ) -> Result<Reply<AgentCard>, Error> {
        Ok(AgentCard::default().into())
    }

    async fn delete_task_push_notification_config(
        &self,
        _: Call,
        _: DeleteTaskPushNotificationConfigRequest,
    ) -> Result<Reply<Empty>, Error> {
        Ok(Empty {}.into())
    }
}
