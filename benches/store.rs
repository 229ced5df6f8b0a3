//! Measures the store: processor time and wall time per task, with 1, 16 and 64 tasks per commit.
//!
//! `cargo bench --bench store` prints medians over several rounds. The processor time is that of the whole process: it
//! includes encoding, wake-ups and checkpoints of the write-ahead log.

#![allow(clippy::print_stdout)]

use prost::Message as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::unbounded_channel;
use tricord::agents::{BoxAgent, TaskContext, from_fn, text_part};
use tricord::internals::engine::{AgentSpec, Engine, EngineLimits, Incoming, OnRestart};
use tricord::internals::store::{Append, Commit, ListQuery, NewTask, Options, Pending, Row, Store, StoreUrl, Writer};
use tricord::schema::part::Content;
use tricord::schema::store::record::Event;
use tricord::schema::store::{ArtifactPiece, Created, Record, RecordBatch, StatusChange};
use tricord::schema::{Artifact, Message, Part, Role, TaskState};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Cell(Mutex<Option<Append>>);

impl Pending for Cell {
    fn take(&self) -> Option<Append> {
        self.0.lock().ok()?.take()
    }
}

/// Builds the append of a complete task: created, a message, an artifact, completed.
fn echo(store: &Store, now_us: i64) -> Append {
    let part = || Part { content: Some(Content::Text("hello, how are you?".into())), ..Part::default() };
    let message = Message {
        message_id: Uuid::now_v7().to_string(),
        role: Role::User as i32,
        parts: vec![part()],
        ..Message::default()
    };
    let artifact = Artifact { artifact_id: "echo".into(), parts: vec![part()], ..Artifact::default() };
    let events = [
        Event::Created(Created::default()),
        Event::Message(message),
        Event::Artifact(ArtifactPiece { artifact: Some(artifact), last_chunk: true, ..ArtifactPiece::default() }),
        Event::Status(StatusChange { state: TaskState::Completed as i32, ..StatusChange::default() }),
    ];
    let records = (1..).zip(events).map(|(seq, event)| Record { seq, time_us: now_us, event: Some(event) });
    Append {
        task: store.new_task(Uuid::nil()),
        lease: store.lease(),
        follows: 0,
        new: Some(NewTask {
            id: Uuid::now_v7(),
            agent: "echo".into(),
            owner: "".into(),
            context: Uuid::now_v7().to_string().into(),
            created_us: now_us,
        }),
        last: 4,
        body: RecordBatch { records: records.collect() }.encode_to_vec(),
        row: Some(Row { state: TaskState::Completed, status_us: now_us, live: false }),
        checkpoint: None,
        claims: Vec::new(),
    }
}

/// Returns the processor time that this process has used.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    // USER_HZ is 100 on Linux.
    Duration::from_millis(ticks * 10)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Commits `tasks` tasks in each round, `together` per commit. Returns the medians of processor time and wall time per
/// task, in microseconds.
fn measure(url: &StoreUrl, together: usize, rounds: usize, tasks: usize) -> (f64, f64) {
    // The tasks are dated 1970. With retention the bench would measure their deletion too.
    let options = Options { keep_finished: None, ..Options::new(url.clone()) };
    let store = Store::open(&options).expect("the store opens");
    let (sender, mut commits) = unbounded_channel();
    let writer = Writer::start(store.clone(), sender).expect("the writer starts");
    let (mut processor_us, mut wall_us) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (start, busy) = (Instant::now(), processor());
        for n in 0..tasks / together {
            let cells = (0..together).map(|_| Arc::new(Cell(Mutex::new(Some(echo(&store, n as i64))))));
            writer.push_all(cells.collect::<Vec<_>>());
            let mut answered = 0;
            while answered < together {
                match commits.blocking_recv() {
                    Some(Commit::Done(done)) => answered += done.len(),
                    Some(Commit::Failed(_, why)) => panic!("a commit failed: {why}"),
                    None => panic!("the writer ended"),
                }
            }
        }
        processor_us.push((processor() - busy).as_secs_f64() * 1e6 / tasks as f64);
        wall_us.push(start.elapsed().as_secs_f64() * 1e6 / tasks as f64);
    }
    read(&store);
    writer.close();
    (median(processor_us), median(wall_us))
}

/// Times the first page of a list and point reads, and prints the medians.
fn read(store: &Store) {
    let query = ListQuery {
        agent: "echo".into(),
        owner: "".into(),
        context: None,
        state: None,
        after_us: None,
        limit: 50,
        cursor: None,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let rows = runtime.block_on(store.list(&query)).expect("the list is read");
    let time = |run: &dyn Fn()| {
        let rounds = (0..200).map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        });
        median(rounds.collect())
    };
    let page = time(&|| drop(runtime.block_on(store.list(&query))));
    let find = time(&|| drop(runtime.block_on(store.find("echo", "", rows[0].id))));
    let log = time(&|| drop(runtime.block_on(store.log(rows[0].task, 0))));
    let total = runtime.block_on(store.total(&query)).unwrap_or_default();
    println!("  with {total} tasks: page of 50 {page:.0} us, find {find:.1} us, log {log:.1} us");
}

/// The numbers of turns after which a conversation is timed.
const TURNS: [usize; 3] = [10, 500, 3000];

/// Times a turn of a task, and a read of it, as its conversation grows. Neither must grow with the number of turns.
async fn turns(url: &StoreUrl) {
    let store = Store::open(&Options::new(url.clone())).expect("the store opens");
    let agent = BoxAgent::new(from_fn(|task: TaskContext| async move { task.ask("and then?").await }));
    let spec =
        AgentSpec { name: "asks".into(), agent, on_restart: OnRestart::Fail, cancel_grace: Duration::from_secs(1) };
    let engine = Engine::start(store, vec![spec], EngineLimits::default()).await.expect("the engine starts");
    let mut task = String::new();
    let (mut turn_us, mut read_us) = (Vec::new(), Vec::new());
    for n in 1..=TURNS[2] {
        let message = Message {
            message_id: Uuid::now_v7().to_string(),
            task_id: task.clone(),
            role: Role::User.into(),
            parts: vec![text_part("tell me something about the weather in the mountains")],
            ..Message::default()
        };
        let incoming = Incoming {
            agent: "asks".into(),
            owner: "".into(),
            message,
            metadata: None,
            extensions: Vec::new(),
            accepted_output_modes: Vec::new(),
            bytes: 0,
            streaming: false,
            claim: None,
        };
        let start = Instant::now();
        let sent = engine.send(incoming).await.expect("the message is taken");
        let id = sent.task();
        sent.outcome(true).await.expect("the agent asks");
        turn_us.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        engine.read("asks", "", id).await.expect("the task is read");
        read_us.push(start.elapsed().as_secs_f64() * 1e6);
        task = id.to_string();
        if TURNS.contains(&n) {
            let (turn, read) = (median(std::mem::take(&mut turn_us)), median(std::mem::take(&mut read_us)));
            println!("  up to {n} turns: a turn {turn:.0} us, a read {read:.0} us");
        } else if turn_us.len() > 8 {
            // Only the last few turns are timed.
            turn_us.remove(0);
            read_us.remove(0);
        }
    }
    engine.close().await;
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("a turn and a read of one task, by the length of its conversation:");
    runtime.block_on(turns(&StoreUrl::memory()));
    drop(runtime);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sqlite = StoreUrl::sqlite(dir.path().join("bench.db"));
    for (name, url) in [("sqlite", &sqlite), ("memory", &StoreUrl::memory())] {
        for together in [1, 16, 64] {
            let (processor_us, wall_us) = measure(url, together, 5, 64 * 200);
            println!("{name}, {together:>2} per commit: processor {processor_us:.1} us, wall {wall_us:.1} us per task");
        }
    }
}
