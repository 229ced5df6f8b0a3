//! A cell between two steps of the writer, which no client can time.

use std::time::Duration;

use super::super::finished::Finished;
use super::super::folds::OpenFolds;
use super::super::limits::Usage;
use super::super::live::LiveTasks;
use super::super::outcomes::Outcomes;
use super::super::run;
use super::super::spec::AgentSpec;
use super::*;
use crate::agents::{Agent, BoxAgent, Conformance, OnRestart, from_fn, text_part};
use crate::clock::new_id;
use crate::limits::EngineLimits;
use crate::schema::Artifact;
use crate::schema::store::ArtifactPiece;
use crate::schema::store::record::Event;
use crate::store::{Options, Pending, Store, StoreUrl, Writer};

fn handles() -> (Store, Arc<CellHandles>) {
    let store = Store::open(&Options::new(StoreUrl::memory())).unwrap();
    let (sender, _) = tokio::sync::mpsc::unbounded_channel();
    let handles = CellHandles {
        writer: Writer::start(store.clone(), sender).unwrap(),
        flush: Arc::default(),
        lease: store.lease(),
        limits: Usage::new(EngineLimits::default()),
        live: LiveTasks::new(),
        finished: Finished::new(0),
        outcomes: Outcomes::new([].into_iter()),
        folds: OpenFolds::new(0),
    };
    (store, Arc::new(handles))
}

fn identity(store: &Store, agent: impl Agent) -> Identity {
    let (agent, name) = (BoxAgent::new(agent), "a".into());
    let spec = AgentSpec { name, agent, on_restart: OnRestart::Fail, cancel_grace: Duration::ZERO };
    let (id, ids) = (new_id(), Ids { task: "t".into(), context: "c".into() });
    Identity { id, ids, handle: store.new_task(id), spec: Arc::new(spec), owner: "".into() }
}

/// Makes the cell of a task that is WORKING. Nothing of it goes to a writer.
fn cell() -> Arc<TaskCell> {
    let (store, handles) = handles();
    let identity = identity(&store, Conformance::default());
    let task = Arc::new(Encoded::new(fold::empty(&identity.ids)));
    let fold = OpenFold { task, seq: 2, time_us: 0, bytes: 0, tail_bytes: 0, checkpoint_bytes: 0 };
    let memory = handles.limits.tasks.charge(0);
    let cell = TaskCell::of_stored(handles, identity, fold, 0, false, memory);
    append(&cell, Event::status(TaskState::Working, None));
    let first = cell.take().unwrap();
    cell.publish(first.last);
    cell
}

fn append(cell: &TaskCell, event: Event) -> u64 {
    cell.append(&mut cell.lock(), event).unwrap()
}

fn piece(bytes: usize) -> Event {
    let artifact =
        Artifact { artifact_id: "x".into(), parts: vec![text_part("x".repeat(bytes))], ..Artifact::default() };
    Event::Artifact(ArtifactPiece { artifact: Some(artifact), append: true, last_chunk: false, metadata: None })
}

#[tokio::test]
async fn what_the_writer_took_since_is_not_published_with_what_it_has_written() {
    let cell = cell();
    let written = append(&cell, piece(1));
    let first = cell.take().unwrap();
    let under_way = append(&cell, Event::status(TaskState::Completed, None));
    let second = cell.take().unwrap();
    assert_eq!((first.last, second.last), (written, under_way));
    cell.publish(first.last);
    assert_eq!(cell.lock().committed.seq(), written);
    assert!(!cell.lock().is_settled());
    cell.publish(second.last);
    assert_eq!(cell.lock().committed.seq(), under_way);
    assert!(cell.lock().is_settled());
}

#[tokio::test]
async fn nothing_is_written_behind_what_was_refused() {
    let cell = cell();
    append(&cell, piece(1));
    cell.take().unwrap();
    cell.refused();
    append(&cell, piece(1));
    assert!(cell.take().is_none());
}

#[tokio::test]
async fn the_last_checkpoint_tells_the_store_that_the_log_is_covered() {
    let cell = cell();
    append(&cell, piece(3 << 20));
    append(&cell, Event::status(TaskState::Completed, None));
    let last = cell.take().unwrap().last;
    // As if the writer had been told already, so that only this test takes what is pending.
    cell.lock().dirty = true;
    cell.publish(last);
    let append = cell.take().unwrap();
    assert_eq!(append.checkpoint.unwrap().0, last);
    assert_eq!(append.row.unwrap().state, TaskState::Completed);
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_it_was_spawned_is_aborted() {
    let (store, handles) = handles();
    let identity = identity(&store, from_fn(|_| std::future::pending()));
    let first = UnsavedTask { message: Message::default(), metadata: None, snapshot: false, claim: None };
    let memory = handles.limits.tasks.charge(0);
    let cell = TaskCell::of_message(Arc::clone(&handles), identity, first, memory);
    let start = RunStart {
        message: Arc::default(),
        attempt: 1,
        begins_task: true,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        metadata: None,
    };
    let permit = handles.limits.run().unwrap();
    let (_watcher, run) = cell.begin(start, false);
    cell.lock().run.take();
    run::spawn(&cell, run, permit);
    tokio::time::timeout(Duration::from_secs(60), handles.limits.idle()).await.expect("the run is aborted");
    assert_eq!(handles.limits.running(), 0);
}

#[tokio::test]
async fn a_dropped_watcher_is_not_registered_any_more() {
    let cell = cell();
    let watchers = [Watcher::new(&cell, true), Watcher::new(&cell, false)];
    let registered = || {
        let inner = cell.lock();
        (inner.watchers.len(), inner.followers)
    };
    assert_eq!(registered(), (2, 1));
    drop(watchers);
    assert_eq!(registered(), (0, 0));
}

#[tokio::test]
async fn a_commit_between_two_looks_of_a_watcher_wakes_it() {
    let cell = cell();
    let watcher = Watcher::new(&cell, false);
    let seq = append(&cell, piece(1));
    let wait = tokio::spawn(async move { watcher.until(|view| (view.seq() >= seq).then(|| view.task())).await });
    // One waker is parked once the wait was polled.
    while !cell.lock().watchers.iter().any(|(_, waker)| waker.is_some()) {
        tokio::task::yield_now().await;
    }
    let last = cell.take().unwrap().last;
    cell.publish(last);
    assert_eq!(wait.await.unwrap().value().artifacts.len(), 1);
}

#[test]
fn an_event_leaves_a_task_that_a_reader_holds_as_it_was() {
    let cell = cell();
    let held = cell.look(|view| view.task());
    append(&cell, piece(1));
    let last = cell.take().unwrap().last;
    cell.publish(last);
    assert!(held.value().artifacts.is_empty());
    assert_eq!(cell.look(|view| view.task()).value().artifacts.len(), 1);
}

#[tokio::test]
async fn no_task_is_created_behind_a_reply() {
    let (store, handles) = handles();
    let identity = identity(&store, from_fn(|_| std::future::pending()));
    let first = UnsavedTask { message: Message::default(), metadata: None, snapshot: false, claim: None };
    let memory = handles.limits.tasks.charge(0);
    let cell = TaskCell::of_message(handles, identity, first, memory);
    let start = RunStart {
        message: Arc::default(),
        attempt: 1,
        begins_task: true,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        metadata: None,
    };
    let (_watcher, run) = cell.begin(start, false);
    cell.context(&run).reply("an answer").await.unwrap();
    cell.ensure_created();
    assert!(!cell.is_created());
    assert!(cell.take().is_none(), "nothing is written");
}
