//! The scripted agent that conformance kits and our own tests talk to: the message says what is to happen.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tricord_bindings::wkt::{Struct, Value, value};

use crate::schema::part::Content;
use crate::schema::{Artifact, Part, Role, TaskState};

use super::{Agent, AgentError, Resumed, TaskContext, text_part};

/// What `ask` says, by which its follow-up is known again.
const ASKED: &str = "What is the answer?";
/// What `tck-multi-turn` says, by which its follow-ups are known again.
const ASKED_ON: &str = "Go on, or say done.";
/// How often a slow run counts.
const TICK: Duration = Duration::from_millis(50);
/// Gates, and counters, that are remembered: the last ones.
const REMEMBERED: usize = 10_000;
/// The longest name of a gate, in bytes.
const MAX_GATE: usize = 256;

/// The scripted agent. Clones share their gates and counters.
#[derive(Debug, Clone, Default)]
pub struct Conformance {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    gates: Mutex<Recent<watch::Sender<bool>>>,
    ticks: Mutex<Recent<u64>>,
}

/// Values by name, of which the oldest are forgotten: whoever talks to the agent chooses the names.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Conformance {
    /// How often a `slow` run of this task has counted, 20 times a second while it runs; `None` if it never did, or long
    /// ago.
    pub fn ticks(&self, task: &str) -> Option<u64> {
        lock(&self.shared.ticks).values.get(task).copied()
    }

    fn tick(&self, task: &str) {
        *lock(&self.shared.ticks).get_or_insert(task, || 0) += 1;
    }

    fn gate(&self, key: &str) -> Result<watch::Sender<bool>, AgentError> {
        if key.len() > MAX_GATE {
            return Err(AgentError::new("the name of a gate has at most 256 bytes"));
        }
        Ok(lock(&self.shared.gates).get_or_insert(key, || watch::Sender::new(false)).clone())
    }
}

/// Verbs known by how a message id, or else the first text, begins. Longest first where one begins another.
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
    async fn run(&self, cx: TaskContext) -> Result<(), AgentError> {
        match last_said(&cx).as_deref() {
            Some(ASKED) => return Ok(()),
            Some(ASKED_ON) => return multi_turn(&cx).await,
            _ => {}
        }
        let text = first_text(&cx).to_owned();
        let id = cx.message().message_id.as_str();
        let script =
            [id, text.as_str()].iter().find_map(|begin| SCRIPTS.iter().find(|(verb, _)| begin.starts_with(verb)));
        if let Some((_, script)) = script {
            return play(*script, &cx).await;
        }
        let (verb, rest) = text.split_once(' ').unwrap_or((text.as_str(), ""));
        match verb {
            "echo" => echo(&cx, rest).await,
            "msg" => cx.reply(rest).await,
            "slow" => self.slow(&cx, rest, true).await,
            "silent" => self.slow(&cx, rest, false).await,
            "chunks" => {
                cx.working("").await?;
                chunks(&cx, rest).await
            }
            "gate" => self.gated_chunks(&cx, rest).await,
            "open" => {
                self.gate(rest.trim())?.send_replace(true);
                echo(&cx, rest).await
            }
            "data" => data(&cx).await,
            "ask" => cx.ask(ASKED).await,
            "auth" => auth(&cx).await,
            "fail" => Err(AgentError::new("The task failed, as it was asked to.")),
            "reject" => cx.reject("The task is refused, as it was asked to be.").await,
            "boom" => {
                cx.working("").await?;
                panic!("the conformance agent was asked to panic")
            }
            _ => cx.complete(format!("Unhandled messageId prefix: {id}")).await,
        }
    }
}

impl Conformance {
    async fn slow(&self, cx: &TaskContext, rest: &str, said: bool) -> Result<(), AgentError> {
        let wait = seconds(rest)?;
        if said {
            cx.working("").await?;
        }
        let end = tokio::time::Instant::now() + wait;
        while tokio::time::Instant::now() < end {
            tokio::select! {
                () = cx.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(end.min(tokio::time::Instant::now() + TICK)) => {
                    self.tick(cx.task_id());
                }
            }
        }
        whole(cx, "slow", text_part(format!("slow {}", rest.trim()))).await
    }

    async fn gated_chunks(&self, cx: &TaskContext, rest: &str) -> Result<(), AgentError> {
        let (key, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let count = rest.strip_prefix("chunks ").unwrap_or("1");
        cx.working("").await?;
        let mut gate = self.gate(key)?.subscribe();
        tokio::select! {
            () = cx.cancelled() => return Ok(()),
            opened = gate.wait_for(|open| *open) => drop(opened),
        }
        chunks(cx, count).await
    }
}

async fn play(script: Script, cx: &TaskContext) -> Result<(), AgentError> {
    match script {
        Script::Nothing => Ok(()),
        Script::Complete => cx.complete("Hello from TCK").await,
        Script::Text(text) => whole(cx, "text", text_part(text)).await,
        Script::File => whole(cx, "file", file(Content::Raw(Bytes::from_static(b"tck")))).await,
        Script::FileUrl => whole(cx, "file", file(Content::Url("https://example.com/output.txt".into()))).await,
        Script::Data => whole(cx, "data", Part { content: Some(Content::Data(sample())), ..Part::default() }).await,
        Script::Message => cx.reply("Direct message response").await,
        Script::InputRequired => cx.status(TaskState::InputRequired, Vec::new()).await,
        Script::AuthRequired => cx.status(TaskState::AuthRequired, vec![text_part("Authorisation is required.")]).await,
        Script::MultiTurn => multi_turn(cx).await,
        Script::Reject => cx.reject("The task is rejected.").await,
        Script::Fail => Err(AgentError::new("The task failed.")),
        Script::UntilCancelled => {
            cx.working("").await?;
            cx.cancelled().await;
            Ok(())
        }
        Script::Delayed(wait, result) => {
            cx.working("").await?;
            tokio::select! {
                () = cx.cancelled() => return Ok(()),
                () = tokio::time::sleep(Duration::from_secs(wait)) => {}
            }
            match result {
                Some(text) => whole(cx, "result", text_part(text)).await,
                None => Ok(()),
            }
        }
        Script::Chunked => {
            cx.working("").await?;
            let piece =
                |text| Artifact { artifact_id: "chunked".into(), parts: vec![text_part(text)], ..named("chunked") };
            cx.emit_artifact(piece("chunk-1 "), false, false).await?;
            cx.emit_artifact(piece("chunk-2"), true, true).await
        }
        Script::WorkThen(script) => {
            cx.working("").await?;
            Box::pin(play(*script, cx)).await
        }
    }
}

async fn echo(cx: &TaskContext, text: &str) -> Result<(), AgentError> {
    cx.working("").await?;
    whole(cx, "echo", text_part(text)).await
}

async fn chunks(cx: &TaskContext, count: &str) -> Result<(), AgentError> {
    let count: u32 = count.trim().parse().map_err(|_| AgentError::new("chunks takes a whole number"))?;
    let second = texts(cx).nth(1).map(str::to_owned);
    let piece = second.unwrap_or_else(|| "0123456789".repeat(10));
    for n in 1..=count {
        let mut artifact =
            Artifact { artifact_id: "chunks".into(), parts: vec![text_part(piece.clone())], ..Artifact::default() };
        if n == 1 {
            artifact.name = "chunks".into();
        }
        cx.emit_artifact(artifact, n > 1, n == count).await?;
        tokio::task::yield_now().await;
        if cx.is_cancelled() {
            return Ok(());
        }
    }
    Ok(())
}

async fn data(cx: &TaskContext) -> Result<(), AgentError> {
    let part = cx.message().parts.iter().find(|part| matches!(part.content, Some(Content::Data(_)))).cloned();
    match part {
        Some(part) => {
            cx.working("").await?;
            whole(cx, "data", part).await
        }
        None => Err(AgentError::new("data takes a data part")),
    }
}

async fn auth(cx: &TaskContext) -> Result<(), AgentError> {
    match cx.require_auth("Authorisation is required.").await? {
        Resumed::Authorised => cx.working("").await,
        // The next run takes the message by its own verb.
        Resumed::Message | Resumed::Cancelled => Ok(()),
    }
}

async fn multi_turn(cx: &TaskContext) -> Result<(), AgentError> {
    if first_text(cx).starts_with("done") { Ok(()) } else { cx.ask(ASKED_ON).await }
}

async fn whole(cx: &TaskContext, name: &str, part: Part) -> Result<(), AgentError> {
    cx.emit_artifact(Artifact { artifact_id: name.into(), parts: vec![part], ..named(name) }, false, true).await
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

fn texts(cx: &TaskContext) -> impl Iterator<Item = &str> {
    cx.message().parts.iter().filter_map(|part| match &part.content {
        Some(Content::Text(text)) => Some(text.as_str()),
        _ => None,
    })
}

fn first_text(cx: &TaskContext) -> &str {
    texts(cx).next().unwrap_or_default()
}

/// What the agent said last; other messages of the client may have come since.
fn last_said(cx: &TaskContext) -> Option<String> {
    if cx.turn().begins_task {
        return None;
    }
    let history = cx.history();
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
