//! Agents of kind `conformance`: do what the message says, for conformance kits and this project's own tests.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tricord_bindings::wkt::{Struct, Value, value};

use crate::schema::part::Content;
use crate::schema::{Artifact, Part, Role, TaskState};

use super::kind::{BuiltAgent, CardDefaults, Kind, KindSettings, TestHooks};
use super::{Agent, AgentError, BoxAgent, Resumed, TaskContext, text_part};

/// The media types that the agent reads and writes.
const MODES: &[&str] = &["text/plain", "application/json", "application/octet-stream"];

/// The kind `conformance`.
pub(super) static KIND: Kind = Kind {
    name: "conformance",
    card: CardDefaults {
        description: "Does what conformance tests tell it to",
        input_modes: MODES,
        output_modes: MODES,
    },
    read: |_| Some(Arc::new(ConformanceSettings)),
};

/// The message of `ask`. A task whose last agent message is this one is answered by the next message.
const ASKED: &str = "What is the answer?";
/// The message of `tck-multi-turn`, which recognises its follow-ups by it.
const ASKED_ON: &str = "Go on, or say done.";
/// The interval at which a slow run ticks.
const TICK: Duration = Duration::from_millis(50);
/// How many gates, and how many counters, are kept. The oldest are dropped.
const REMEMBERED: usize = 10_000;
/// The longest name of a gate, in bytes.
const MAX_GATE: usize = 256;

/// An agent that does what the first word or the id of each message says. Clones share their gates and counters.
#[derive(Debug, Clone, Default)]
pub struct Conformance {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    gates: Mutex<Recent<watch::Sender<bool>>>,
    ticks: Mutex<Recent<u64>>,
}

/// A map that drops its oldest values, because clients choose the names.
#[derive(Debug, Default)]
struct Recent<V> {
    values: HashMap<String, V>,
    order: VecDeque<String>,
}

impl<V> Recent<V> {
    fn get_or_insert(&mut self, name: &str, value: impl FnOnce() -> V) -> &mut V {
        if !self.values.contains_key(name) {
            if self.order.len() >= REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.values.remove(&oldest);
            }
            self.order.push_back(name.to_owned());
        }
        self.values.entry(name.to_owned()).or_insert_with(value)
    }
}

/// The settings of a conformance agent: it has none.
#[derive(Debug)]
struct ConformanceSettings;

impl KindSettings for ConformanceSettings {
    fn build(&self, _: Duration) -> Result<BuiltAgent, String> {
        let agent = Conformance::default();
        Ok(BuiltAgent { agent: BoxAgent::new(agent.clone()), test_hooks: Some(Arc::new(agent)) })
    }
}

impl TestHooks for Conformance {
    fn ticks(&self, task: &str) -> Option<u64> {
        Conformance::ticks(self, task)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Conformance {
    /// Returns how often a `slow` run of this task has ticked, which it does 20 times a second. Returns `None` if no run
    /// did, or too long ago to be remembered.
    pub fn ticks(&self, task: &str) -> Option<u64> {
        lock(&self.shared.ticks).values.get(task).copied()
    }

    fn tick(&self, task: &str) {
        *lock(&self.shared.ticks).get_or_insert(task, || 0) += 1;
    }

    fn gate(&self, key: &str) -> Result<watch::Sender<bool>, AgentError> {
        if key.len() > MAX_GATE {
            return Err(AgentError::new("gate: the name has more than 256 bytes"));
        }
        Ok(lock(&self.shared.gates).get_or_insert(key, || watch::Sender::new(false)).clone())
    }
}

/// Scripts by the prefix of the message id, or else of the first text. Longer prefixes stand before their own prefixes.
const SCRIPTS: &[(&str, Script)] = &[
    ("tck-stream-artifact-chunked", Script::Chunked),
    ("tck-stream-artifact-file", Script::WorkThen(&Script::File)),
    ("tck-stream-artifact-text", Script::WorkThen(&Script::Text("Streamed text content"))),
    ("tck-stream-ordering-001", Script::WorkThen(&Script::Text("Ordered output"))),
    ("test-resubscribe-message-id", Script::Delayed(4, None)),
    ("tck-artifact-file-url", Script::FileUrl),
    ("tck-delayed-complete", Script::Delayed(2, None)),
    ("tck-message-response", Script::Message),
    ("tck-stream-chunked", Script::Chunked),
    ("tck-input-required", Script::InputRequired),
    ("tck-auth-required", Script::AuthRequired),
    ("tck-complete-task", Script::Complete),
    ("tck-artifact-text", Script::Text("Generated text content")),
    ("tck-artifact-file", Script::File),
    ("tck-artifact-data", Script::Data),
    ("tck-task-failure", Script::Fail),
    ("tck-long-running", Script::Delayed(5, Some("Long-running result"))),
    ("tck-reject-task", Script::Reject),
    ("tck-multi-turn", Script::MultiTurn),
    ("tck-stream-001", Script::WorkThen(&Script::Text("Stream hello from TCK"))),
    ("tck-stream-002", Script::Nothing),
    ("tck-stream-003", Script::WorkThen(&Script::Text("Stream task lifecycle"))),
    ("tck-stream-basic", Script::WorkThen(&Script::Text("Streamed text content"))),
    ("tck-cancel", Script::UntilCancelled),
];

#[derive(Debug, Clone, Copy)]
enum Script {
    Nothing,
    Complete,
    Text(&'static str),
    File,
    FileUrl,
    Data,
    Message,
    InputRequired,
    AuthRequired,
    MultiTurn,
    Reject,
    Fail,
    UntilCancelled,
    Delayed(u64, Option<&'static str>),
    Chunked,
    WorkThen(&'static Script),
}

impl Agent for Conformance {
    async fn run(&self, task: TaskContext) -> Result<(), AgentError> {
        match last_said(&task).as_deref() {
            Some(ASKED) => return Ok(()),
            Some(ASKED_ON) => return multi_turn(&task).await,
            _ => {}
        }
        let text = first_text(&task).to_owned();
        let id = task.message().message_id.as_str();
        let script =
            [id, text.as_str()].iter().find_map(|begin| SCRIPTS.iter().find(|(verb, _)| begin.starts_with(verb)));
        if let Some((_, script)) = script {
            return play(*script, &task).await;
        }
        let (verb, rest) = text.split_once(' ').unwrap_or((text.as_str(), ""));
        match verb {
            "echo" => echo(&task, rest).await,
            "msg" => task.reply(rest).await,
            "slow" => self.slow(&task, rest, true).await,
            "silent" => self.slow(&task, rest, false).await,
            "chunks" => {
                task.working("").await?;
                chunks(&task, rest).await
            }
            "gate" => self.gated_chunks(&task, rest).await,
            "open" => {
                self.gate(rest.trim())?.send_replace(true);
                echo(&task, rest).await
            }
            "data" => data(&task).await,
            "ask" => task.ask(ASKED).await,
            "auth" => auth(&task).await,
            "fail" => Err(AgentError::new("The task failed, as it was asked to.")),
            "reject" => task.reject("The task is refused, as it was asked to be.").await,
            "boom" => {
                task.working("").await?;
                panic!("the conformance agent was asked to panic")
            }
            _ => task.complete(format!("Unhandled messageId prefix: {id}")).await,
        }
    }
}

impl Conformance {
    async fn slow(&self, task: &TaskContext, rest: &str, said: bool) -> Result<(), AgentError> {
        let wait = seconds(rest)?;
        if said {
            task.working("").await?;
        }
        let end = tokio::time::Instant::now() + wait;
        while tokio::time::Instant::now() < end {
            tokio::select! {
                () = task.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(end.min(tokio::time::Instant::now() + TICK)) => {
                    self.tick(task.task_id());
                }
            }
        }
        whole(task, "slow", text_part(format!("slow {}", rest.trim()))).await
    }

    async fn gated_chunks(&self, task: &TaskContext, rest: &str) -> Result<(), AgentError> {
        let (key, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let count = rest.strip_prefix("chunks ").unwrap_or("1");
        task.working("").await?;
        let mut gate = self.gate(key)?.subscribe();
        tokio::select! {
            () = task.cancelled() => return Ok(()),
            opened = gate.wait_for(|open| *open) => drop(opened),
        }
        chunks(task, count).await
    }
}

async fn play(script: Script, task: &TaskContext) -> Result<(), AgentError> {
    match script {
        Script::Nothing => Ok(()),
        Script::Complete => task.complete("Hello from TCK").await,
        Script::Text(text) => whole(task, "text", text_part(text)).await,
        Script::File => whole(task, "file", file(Content::Raw(Bytes::from_static(b"tck")))).await,
        Script::FileUrl => whole(task, "file", file(Content::Url("https://example.com/output.txt".into()))).await,
        Script::Data => whole(task, "data", Part { content: Some(Content::Data(sample())), ..Part::default() }).await,
        Script::Message => task.reply("Direct message response").await,
        Script::InputRequired => task.status(TaskState::InputRequired, Vec::new()).await,
        Script::AuthRequired => {
            task.status(TaskState::AuthRequired, vec![text_part("Authorisation is required.")]).await
        }
        Script::MultiTurn => multi_turn(task).await,
        Script::Reject => task.reject("The task is rejected.").await,
        Script::Fail => Err(AgentError::new("The task failed.")),
        Script::UntilCancelled => {
            task.working("").await?;
            task.cancelled().await;
            Ok(())
        }
        Script::Delayed(wait, result) => {
            task.working("").await?;
            tokio::select! {
                () = task.cancelled() => return Ok(()),
                () = tokio::time::sleep(Duration::from_secs(wait)) => {}
            }
            match result {
                Some(text) => whole(task, "result", text_part(text)).await,
                None => Ok(()),
            }
        }
        Script::Chunked => {
            task.working("").await?;
            let piece =
                |text| Artifact { artifact_id: "chunked".into(), parts: vec![text_part(text)], ..named("chunked") };
            task.emit_artifact(piece("chunk-1 "), false, false).await?;
            task.emit_artifact(piece("chunk-2"), true, true).await
        }
        Script::WorkThen(script) => {
            task.working("").await?;
            Box::pin(play(*script, task)).await
        }
    }
}

async fn echo(task: &TaskContext, text: &str) -> Result<(), AgentError> {
    task.working("").await?;
    whole(task, "echo", text_part(text)).await
}

async fn chunks(task: &TaskContext, count: &str) -> Result<(), AgentError> {
    let count: u32 = count.trim().parse().map_err(|_| AgentError::new("chunks takes a whole number of pieces"))?;
    let second = texts(task).nth(1).map(str::to_owned);
    let piece = second.unwrap_or_else(|| "0123456789".repeat(10));
    for n in 1..=count {
        let mut artifact =
            Artifact { artifact_id: "chunks".into(), parts: vec![text_part(piece.clone())], ..Artifact::default() };
        if n == 1 {
            artifact.name = "chunks".into();
        }
        task.emit_artifact(artifact, n > 1, n == count).await?;
        tokio::task::yield_now().await;
        if task.is_cancelled() {
            return Ok(());
        }
    }
    Ok(())
}

async fn data(task: &TaskContext) -> Result<(), AgentError> {
    let part = task.message().parts.iter().find(|part| matches!(part.content, Some(Content::Data(_)))).cloned();
    match part {
        Some(part) => {
            task.working("").await?;
            whole(task, "data", part).await
        }
        None => Err(AgentError::new("data takes a data part, and the message has none")),
    }
}

async fn auth(task: &TaskContext) -> Result<(), AgentError> {
    match task.require_auth("Authorisation is required.").await? {
        Resumed::Authorised => task.working("").await,
        // The next run handles the message.
        Resumed::Message | Resumed::Cancelled => Ok(()),
    }
}

async fn multi_turn(task: &TaskContext) -> Result<(), AgentError> {
    if first_text(task).starts_with("done") { Ok(()) } else { task.ask(ASKED_ON).await }
}

async fn whole(task: &TaskContext, name: &str, part: Part) -> Result<(), AgentError> {
    task.emit_artifact(Artifact { artifact_id: name.into(), parts: vec![part], ..named(name) }, false, true).await
}

fn named(name: &str) -> Artifact {
    Artifact { name: name.to_owned(), ..Artifact::default() }
}

fn file(content: Content) -> Part {
    Part { content: Some(content), filename: "output.txt".into(), media_type: "text/plain".into(), ..Part::default() }
}

/// `{"key":"value","count":42}`.
fn sample() -> Value {
    let value = |kind| Value { kind: Some(kind) };
    let fields = [
        ("key".to_owned(), value(value::Kind::StringValue("value".to_owned()))),
        ("count".to_owned(), value(value::Kind::NumberValue(42.0))),
    ];
    value(value::Kind::StructValue(Struct { fields: fields.into() }))
}

fn texts(task: &TaskContext) -> impl Iterator<Item = &str> {
    task.message().parts.iter().filter_map(|part| match &part.content {
        Some(Content::Text(text)) => Some(text.as_str()),
        _ => None,
    })
}

fn first_text(task: &TaskContext) -> &str {
    texts(task).next().unwrap_or_default()
}

/// Returns the agent's last message, which may be followed by messages of the client.
fn last_said(task: &TaskContext) -> Option<String> {
    if task.turn().begins_task {
        return None;
    }
    let history = task.history();
    let message = history.iter().rev().find(|message| message.role() == Role::Agent)?;
    match &message.parts.first()?.content {
        Some(Content::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

fn seconds(text: &str) -> Result<Duration, AgentError> {
    let seconds: f64 = text.trim().parse().map_err(|_| AgentError::new("slow and silent take a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|_| AgentError::new("slow and silent take a number of seconds"))
}
