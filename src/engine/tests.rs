//! What the engine asks the store for: one load of a task at a time, and what a kept fold lacks.

use futures::future::join_all;

use super::*;
use crate::agents::{BoxAgent, TaskContext, from_fn, text_part};
use crate::schema::{Message, Role};
use crate::store::tests::faults::{Faults, Faulty};
use crate::store::{Options, StoreError, StoreUrl};

/// Starts an engine, the agent of which asks for more after each message.
async fn start() -> (Engine, Arc<Faults>) {
    let backend = Faulty::open(&Options::new(StoreUrl::memory())).expect("a store");
    let faults = backend.faults();
    let agent = from_fn(|task: TaskContext| async move { task.ask(vec![text_part("and then?")]).await });
    let agent = BoxAgent::new(agent);
    let spec = AgentSpec { name: "a".into(), agent, on_restart: OnRestart::Fail, cancel_grace: Duration::ZERO };
    let engine = Engine::start(Store::on(backend), vec![spec], EngineLimits::default()).await.expect("an engine");
    (engine, faults)
}

/// Sends a message, waits for the question and until the task has no cell. Returns the task.
async fn turn(engine: &Engine, task_id: &str) -> (Uuid, Arc<Encoded<Task>>) {
    let message = Message {
        message_id: "m".into(),
        role: Role::User.into(),
        parts: vec![text_part("first this")],
        task_id: task_id.into(),
        ..Message::default()
    };
    let incoming = Incoming {
        agent: "a".into(),
        owner: "".into(),
        message,
        metadata: None,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        bytes: 0,
        streaming: false,
        claim: None,
    };
    let outcome = engine.send(incoming).await.expect("accepted").outcome(true).await.expect("an outcome");
    let Outcome::Task(task) = outcome else { panic!("the agent makes tasks") };
    let id = task.value().id.parse().expect("an id");
    without_cell(engine, id).await;
    (id, task)
}

async fn without_cell(engine: &Engine, id: Uuid) {
    let gone = async {
        while engine.0.tasks.handles.live.get(id).is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("a waiting task keeps no cell");
}

#[tokio::test]
async fn calls_at_the_same_time_ask_the_store_once() {
    let (engine, faults) = start().await;
    let (id, _) = turn(&engine, "").await;
    let tasks = &engine.0.tasks;
    let calls = || join_all((0..20).map(|_| tasks.cell("a", "", id)));

    let (asked, held) = (faults.logs(), faults.hold_logs());
    let (cells, ()) = futures::join!(calls(), async { drop(held) });
    let cells: Vec<_> = cells.into_iter().map(|cell| cell.expect("a cell")).collect();
    assert!(cells.iter().all(|cell| Arc::ptr_eq(cell, &cells[0])));
    assert_eq!(faults.logs(), asked + 1);
    drop(cells);
    without_cell(&engine, id).await;

    let (asked, held) = (faults.logs(), faults.hold_logs());
    let (cells, ()) = futures::join!(calls(), async {
        faults.fail_reads(Some(StoreError::Io("test".into())));
        drop(held);
    });
    assert!(cells.into_iter().all(|cell| matches!(cell, Err(EngineError::StoreUnavailable))));
    assert_eq!(faults.logs(), asked + 1);
    faults.fail_reads(None);
    tasks.cell("a", "", id).await.expect("the next call loads it");
    assert_eq!(faults.logs(), asked + 2);
    engine.close().await;
}

#[tokio::test]
async fn a_kept_fold_that_is_out_of_date_is_brought_up_to_date_before_it_is_used() {
    let (engine, _faults) = start().await;
    let (id, first) = turn(&engine, "").await;
    let folds = &engine.0.tasks.handles.folds;
    let stale = folds.get(id).expect("the fold of a waiting task is kept");
    let (_, second) = turn(&engine, &first.value().id).await;
    assert!(second.value().history.len() > first.value().history.len());

    // As if another process had written the second turn.
    folds.put(id, stale.clone());
    let read = engine.read("a", "", id).await.expect("readable");
    assert_eq!(read.value(), second.value());
    assert!(folds.get(id).expect("a fold").seq > stale.seq, "what was read is kept");

    // A cell that goes on from the old fold would number its records from there, and the store would refuse them.
    folds.put(id, stale.clone());
    let (_, third) = turn(&engine, &first.value().id).await;
    let turns = |task: &Task| task.history.iter().filter(|message| message.role() == Role::User).count();
    assert_eq!([&first, &second, &third].map(|task| turns(task.value())), [1, 2, 3]);
    engine.close().await;
}
