//! JSON-RPC and HTTP+JSON on axum, written by hand.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tricord::schema::send_message_response::Payload;
use tricord::schema::{GetTaskRequest, SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest, Task};
use tricord_bindings::proto_json;

use super::agent::{Agent, Event, Events};

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Serialize)]
struct Answer<'a, T> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: &'a T,
}

impl<'a, T> Answer<'a, T> {
    fn new(id: &'a RawValue, result: &'a T) -> Self {
        Self { jsonrpc: "2.0", id, result }
    }
}

pub async fn jsonrpc(State(agent): State<Agent>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Request<'_>>(&body) else { return refused() };
    let params = request.params.get().as_bytes();
    let events = match request.method {
        "SendMessage" => {
            let Ok(message) = proto_json::decode::<SendMessageRequest>(params) else { return refused() };
            return json(&Answer::new(request.id, &response(agent.send(&message))));
        }
        "GetTask" => {
            let Ok(_) = proto_json::decode::<GetTaskRequest>(params) else { return refused() };
            let Some(task) = agent.task() else { return missing() };
            return json(&Answer::new(request.id, task.as_ref()));
        }
        "SendStreamingMessage" => {
            proto_json::decode::<SendMessageRequest>(params).ok().and_then(|message| agent.stream(&message))
        }
        "SubscribeToTask" => {
            proto_json::decode::<SubscribeToTaskRequest>(params).ok().and_then(|request| agent.subscribe(&request.id))
        }
        _ => None,
    };
    let Some(events) = events else { return refused() };
    sse(events, Some(request.id.to_owned()))
}

pub async fn send(State(agent): State<Agent>, body: Bytes) -> Response {
    match proto_json::decode::<SendMessageRequest>(&body) {
        Ok(message) => json(&response(agent.send(&message))),
        Err(_) => refused(),
    }
}

pub async fn stream(State(agent): State<Agent>, body: Bytes) -> Response {
    let message = proto_json::decode::<SendMessageRequest>(&body).ok();
    match message.and_then(|message| agent.stream(&message)) {
        Some(events) => sse(events, None),
        None => refused(),
    }
}

/// `GET /tasks/ID` and `GET /tasks/ID:subscribe`, which axum cannot tell apart.
pub async fn task(State(agent): State<Agent>, Path(id): Path<String>) -> Response {
    if let Some(id) = id.strip_suffix(":subscribe") {
        return agent.subscribe(id).map_or_else(missing, |events| sse(events, None));
    }
    agent.task().map_or_else(missing, |task| json(task.as_ref()))
}

fn response(task: Task) -> SendMessageResponse {
    SendMessageResponse { payload: Some(Payload::Task(task)) }
}

fn json(answer: &impl Serialize) -> Response {
    match serde_json::to_vec(answer) {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Writes one frame for each event. With an id, events are JSON-RPC responses.
fn sse(events: Events, id: Option<Box<RawValue>>) -> Response {
    Sse::new(events.map(move |event| {
        let data = match (&event, &id) {
            (Event::Own(event), Some(id)) => serde_json::to_string(&Answer::new(id, event.as_ref()))?,
            (Event::Shared(event), Some(id)) => serde_json::to_string(&Answer::new(id, &event.1))?,
            (Event::Own(event), None) => serde_json::to_string(event.as_ref())?,
            (Event::Shared(event), None) => event.1.get().to_owned(),
        };
        Ok::<_, serde_json::Error>(sse::Event::default().data(data))
    }))
    .into_response()
}

fn refused() -> Response {
    StatusCode::BAD_REQUEST.into_response()
}

fn missing() -> Response {
    StatusCode::NOT_FOUND.into_response()
}
