//! What happens between two steps of the writer, which no client can time: the cell alone.

use super::cell::CellSeed;
use super::folds::OpenFold;
use super::*;
use crate::agents::{Conformance, text_part};
use crate::clock::new_id;
use crate::schema::Artifact;
use crate::schema::store::ArtifactPiece;
use crate::schema::store::record::Event;
use crate::store::{Options, Pending as _, StoreUrl};
use crate::task::event::Ids;
use crate::task::fold;
use tricord_bindings::Encoded;

/// A cell of a task that is WORKING, and that the writer knows nothing of.
async fn cell() -> Arc<TaskCell> {
    let store = Store::open(&Options::new(StoreUrl::Memory)).unwrap();
    let spec = AgentSpec {
        name: "a".into(),
        agent: BoxAgent::new(Conformance::default()),
        on_restart: OnRestart::Fail,
        cancel_grace: Duration::ZERO,
    };
    let engine = Engine::start(store, vec![spec], EngineLimits::default()).await.unwrap();
    let (id, ids) = (new_id(), Ids { task: "t".into(), context: "c".into() });
    let task = Arc::new(Encoded::new(fold::empty(&ids)));
    let fold = OpenFold { task, seq: 2, time_us: 0, bytes: 0, tail_bytes: 0, checkpoint_bytes: 0 };
    let seed = CellSeed::Stored { fold, status_us: 0 };
    let spec = Arc::clone(&engine.0.agents["a"]);
    let cell = TaskCell::new(Arc::clone(&engine.0), id, ids, engine.0.store.new_task(id), spec, "".into(), seed);
    say(&cell, Event::status(TaskState::Working, None));
    let first = cell.take().unwrap();
    cell.publish(first.last);
    cell
}

fn say(cell: &TaskCell, event: Event) -> u64 {
    let mut inner = cell.lock();
    cell.append(&mut inner, event).unwrap()
}

fn piece(bytes: usize) -> Event {
    let artifact =
        Artifact { artifact_id: "x".into(), parts: vec![text_part("x".repeat(bytes))], ..Artifact::default() };
    Event::Artifact(ArtifactPiece { artifact: Some(artifact), append: true, last_chunk: false, metadata: None })
}

#[tokio::test]
async fn what_the_writer_took_since_is_not_published_with_what_it_has_written() {
    let cell = cell().await;
    let written = say(&cell, piece(1));
    let first = cell.take().unwrap();
    let under_way = say(&cell, Event::status(TaskState::Completed, None));
    let second = cell.take().unwrap();
    assert_eq!((first.last, second.last), (written, under_way));
    cell.publish(first.last);
    assert_eq!(cell.lock().committed.seq, written);
    assert!(!cell.lock().is_settled());
    cell.publish(second.last);
    assert_eq!(cell.lock().committed.seq, under_way);
    assert!(cell.lock().is_settled());
}

#[tokio::test]
async fn nothing_is_written_behind_what_was_refused() {
    let cell = cell().await;
    say(&cell, piece(1));
    cell.take().unwrap();
    cell.refused();
    say(&cell, piece(1));
    assert!(cell.take().is_none());
}

#[tokio::test]
async fn the_last_checkpoint_tells_the_store_that_the_log_is_covered() {
    let cell = cell().await;
    say(&cell, piece(3 << 20));
    say(&cell, Event::status(TaskState::Completed, None));
    let last = cell.take().unwrap().last;
    cell.keep_from_writer();
    cell.publish(last);
    let append = cell.take().unwrap();
    assert_eq!(append.checkpoint.unwrap().0, last);
    assert_eq!(append.row.unwrap().state, TaskState::Completed);
}

#[tokio::test]
async fn a_run_that_was_cut_off_before_it_was_spawned_does_not_live_on() {
    let store = Store::open(&Options::new(StoreUrl::Memory)).unwrap();
    let agent = BoxAgent::new(crate::agents::from_fn(|_| std::future::pending()));
    let spec = AgentSpec { name: "a".into(), agent, on_restart: OnRestart::Fail, cancel_grace: Duration::ZERO };
    let engine = Engine::start(store, vec![spec], EngineLimits::default()).await.unwrap();
    let (id, ids) = (new_id(), Ids { task: "t".into(), context: "c".into() });
    let seed = CellSeed::New { message: Default::default(), metadata: None, snapshot: false, claim: None };
    let spec = Arc::clone(&engine.0.agents["a"]);
    let cell = TaskCell::new(Arc::clone(&engine.0), id, ids, engine.0.store.new_task(id), spec, "".into(), seed);
    let start = run::RunStart {
        message: Arc::default(),
        attempt: 1,
        begins_task: true,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        metadata: None,
    };
    let run = run::begin(&cell, &mut cell.lock(), start, engine.0.limits.run().unwrap());
    cell.lock().run.take();
    run::spawn(run);
    engine.drain(Duration::from_secs(60)).await;
    assert_eq!(engine.load().runs, 0);
}
