//! The answers of the bare servers, the same over all bindings. They know verbs of the conformance agent and one more:
//! `burst N` is `chunks N` with all events available at once, whereas `chunks N` yields after each event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::value::RawValue;
use tokio::sync::{broadcast, watch};
use tricord::schema::part::Content;
use tricord::schema::stream_response::Payload;
use tricord::schema::{
    Artifact, Part, SendMessageRequest, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use tricord_bindings::wkt::Timestamp;
use uuid::Uuid;

/// More events than any gated task has, so that no subscriber falls behind.
const CHANNEL: usize = 1024;

/// An event of a stream.
#[derive(Clone)]
pub enum Event {
    /// An event of this stream alone.
    Own(Box<StreamResponse>),
    /// An event of many streams, whose JSON is written once.
    Shared(Arc<(StreamResponse, Box<RawValue>)>),
}

pub type Events = BoxStream<'static, Event>;

/// The agent. Clones share their state.
#[derive(Clone, Default)]
pub struct Agent(Arc<Shared>);

#[derive(Default)]
struct Shared {
    gates: Mutex<HashMap<String, watch::Sender<bool>>>,
    gated: Mutex<HashMap<String, broadcast::Sender<Event>>>,
    /// The last finished task.
    last: Mutex<Option<Arc<Task>>>,
}

impl Agent {
    /// Returns a task that is completed at once.
    pub fn send(&self, request: &SendMessageRequest) -> Task {
        let words = words(request);
        match words.split_once(' ') {
            Some(("open", key)) => drop(self.gate(key).send_replace(true)),
            _ => drop(lock(&self.0.last).get_or_insert_with(|| Arc::new(finished(words)))),
        }
        finished(words)
    }

    /// Returns a finished task. It is the same one for every id, so that there is no lookup.
    pub fn task(&self) -> Option<Arc<Task>> {
        lock(&self.0.last).clone()
    }

    /// Returns the events of a new task, or `None` for unknown words.
    pub fn stream(&self, request: &SendMessageRequest) -> Option<Events> {
        let words: Vec<&str> = words(request).split(' ').collect();
        match words.as_slice() {
            ["chunks", count] => Some(pieces(count.parse().ok()?, true)),
            ["burst", count] => Some(pieces(count.parse().ok()?, false)),
            ["gate", key, "chunks", count] => Some(self.gated(key, count.parse().ok()?)),
            _ => None,
        }
    }

    /// Subscribes to the later events of a gated task.
    pub fn subscribe(&self, task: &str) -> Option<Events> {
        let events = lock(&self.0.gated).get(task)?.subscribe();
        Some(following(task, events))
    }

    fn gate(&self, key: &str) -> watch::Sender<bool> {
        lock(&self.0.gates).entry(key.to_owned()).or_insert_with(|| watch::Sender::new(false)).clone()
    }

    fn gated(&self, key: &str, count: usize) -> Events {
        let id = Uuid::now_v7().to_string();
        let (sender, events) = broadcast::channel(CHANNEL);
        lock(&self.0.gated).insert(id.clone(), sender.clone());
        let mut gate = self.gate(key).subscribe();
        let (agent, task) = (self.clone(), id.clone());
        tokio::spawn(async move {
            let _ = gate.wait_for(|open| *open).await;
            let mut made = making(task.clone(), count, true);
            while let Some(event) = made.next().await {
                let Ok(json) = serde_json::value::to_raw_value(&event) else { break };
                // Fails if there are no subscribers left, which does not matter.
                let _ = sender.send(Event::Shared(Arc::new((event, json))));
            }
            lock(&agent.0.gated).remove(&task);
        });
        following(&id, events)
    }
}

fn following(task: &str, events: broadcast::Receiver<Event>) -> Events {
    let task = working(task);
    let later = stream::unfold(events, async |mut events| Some((events.recv().await.ok()?, events)));
    stream::iter([task]).chain(later).boxed()
}

fn pieces(count: usize, yields: bool) -> Events {
    let id = Uuid::now_v7().to_string();
    let first = working(&id);
    stream::iter([first]).chain(making(id, count, yields).map(|event| Event::Own(Box::new(event)))).boxed()
}

/// Returns the pieces of an artifact, each created on demand, and the final status.
fn making(task: String, count: usize, yields: bool) -> BoxStream<'static, StreamResponse> {
    let context = Uuid::now_v7().to_string();
    let make = move |n: usize| {
        let (task_id, context_id) = (task.clone(), context.clone());
        let payload = if n < count {
            let part = text("0123456789".repeat(10));
            let artifact = Artifact { artifact_id: "chunks".into(), parts: vec![part], ..Artifact::default() };
            let (append, last_chunk) = (n > 0, n + 1 == count);
            let artifact = Some(artifact);
            let update = TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk, metadata: None };
            Payload::ArtifactUpdate(update)
        } else {
            let status = Some(status(TaskState::Completed));
            Payload::StatusUpdate(TaskStatusUpdateEvent { task_id, context_id, status, metadata: None })
        };
        StreamResponse { payload: Some(payload) }
    };
    if !yields {
        return stream::iter((0..=count).map(make)).boxed();
    }
    let step = move |n: usize| async move {
        tokio::task::yield_now().await;
        (n <= count).then_some((n, n + 1))
    };
    stream::unfold(0, step).map(make).boxed()
}

fn working(task: &str) -> Event {
    let status = Some(status(TaskState::Working));
    let context_id = Uuid::now_v7().to_string();
    let task = Task { id: task.to_owned(), context_id, status, ..Task::default() };
    Event::Own(Box::new(StreamResponse { payload: Some(Payload::Task(task)) }))
}

/// Returns a task with the words as its artifact, which is 1.2 kB for the words of the load.
fn finished(words: &str) -> Task {
    let artifact = Artifact {
        artifact_id: "echo".into(),
        name: "echo".into(),
        description: "What was said, word by word, as the one artifact of a task that has nothing else to do. "
            .repeat(2),
        parts: vec![text(words.to_owned())],
        ..Artifact::default()
    };
    Task {
        id: Uuid::now_v7().to_string(),
        context_id: Uuid::now_v7().to_string(),
        status: Some(status(TaskState::Completed)),
        artifacts: vec![artifact],
        ..Task::default()
    }
}

fn status(state: TaskState) -> TaskStatus {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seconds = i64::try_from(now.as_secs()).unwrap_or_default();
    let timestamp = Some(Timestamp { seconds, nanos: now.subsec_micros().cast_signed() * 1000 });
    TaskStatus { state: state.into(), timestamp, message: None }
}

fn text(text: String) -> Part {
    Part { content: Some(Content::Text(text)), ..Part::default() }
}

fn words(request: &SendMessageRequest) -> &str {
    let parts = request.message.iter().flat_map(|message| &message.parts);
    let text = |part: &'_ Part| matches!(part.content, Some(Content::Text(_)));
    match parts.into_iter().find(|part| text(part)).and_then(|part| part.content.as_ref()) {
        Some(Content::Text(text)) => text,
        _ => "",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
