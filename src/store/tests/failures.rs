//! When writing fails: one task's append, the whole store, and the way back.

use super::*;
use std::time::Instant;

fn conn(dir: &tempfile::TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(dir.path().join("tricord.db")).unwrap()
}

/// Waits for a change of health, with a limit that only a broken store reaches.
async fn until(health: &mut watch::Receiver<Health>, wanted: impl FnMut(&Health) -> bool) -> Health {
    let wait = tokio::time::timeout(Duration::from_secs(20), health.wait_for(wanted));
    wait.await.expect("the store changes its health").unwrap().clone()
}

#[test]
fn one_refused_append_fails_only_its_task() {
    let mut open = Open::at(StoreUrl::Memory);
    let first = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    open.write([first.clone()]);
    let good = [
        new_task(&open.store, "ann", "c", TaskState::Completed, 1),
        // A scope that is new in the transaction that is tried twice.
        new_task(&open.store, "carl", "c", TaskState::Completed, 1),
    ];
    let mut same_id = new_task(&open.store, "dora", "c", TaskState::Completed, 1);
    same_id.new.as_mut().unwrap().id = id(&first);
    let missing = open.store.new_task(Uuid::now_v7());
    let results = open.write([
        good[0].clone(),
        same_id,
        enter(first.task, 2, TaskState::Failed, 9),
        good[1].clone(),
        enter(missing, 3, TaskState::Failed, 9),
        Append { row: None, ..new_task(&open.store, "ann", "c", TaskState::Completed, 1) },
        Append { last: MAX_SEQ + 1, ..pieces(first.task, &[piece(3)]) },
        enter(first.task, 3, TaskState::Completed, 9),
    ]);
    let refused: Vec<_> = results.iter().map(|r| r.as_ref().err().map_or("", |e| e.as_str())).collect();
    assert_eq!((results[0].clone(), results[3].clone(), results[7].clone()), (Ok(2), Ok(2), Ok(3)));
    assert!(refused[1].contains("task.id"), "{refused:?}");
    assert!(refused[2].contains("log.k"), "{refused:?}");
    assert_eq!(refused[4], "the task is not in the store");
    assert!(refused[5].contains("without a row"), "{refused:?}");
    assert_eq!(refused[6], "the task's log is full");
    // What was refused left nothing behind: no state, no count, no scope that points nowhere.
    let row = wait(open.store.find("support", "ann", id(&first))).unwrap().unwrap();
    assert_eq!((row.state, row.status_us), (TaskState::Completed, 9));
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 2);
    assert_eq!(wait(open.store.total(&everything("dora"))).unwrap(), 0);
    let later = new_task(&open.store, "carl", "c", TaskState::Completed, 1);
    assert_eq!(open.write([later]), [Ok(2)]);
    assert_eq!(wait(open.store.total(&everything("carl"))).unwrap(), 2);
    assert_eq!(*open.store.health().borrow(), Health::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_reports_and_recovers() {
    let (_dir, url) = place();
    let mut open = Open::at(url.clone());
    let mut health = open.store.health();
    open.store.0.queue.ask(Job::LimitPages(Some(60))).await.unwrap();
    let fill = |open: &mut Open| {
        let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
        tokio::task::block_in_place(|| open.write([append])).remove(0)
    };
    let (mut written, mut failed) = (0, None);
    while failed.is_none() && written < 10_000 {
        match fill(&mut open) {
            Ok(_) => written += 1,
            Err(why) => failed = Some(why),
        }
    }
    assert!(failed.unwrap().contains("full"));
    let Health::Failing { why } = until(&mut health, |h| *h != Health::Ok).await else { unreachable!() };
    assert!(matches!(why, StoreError::Full(_)), "{why:?}");
    // Refused at once, claims too; what is there can be read.
    assert!(fill(&mut open).is_err());
    let key = ClaimKey { agent: "support".into(), owner: "ann".into(), key: "k".into() };
    let claim = Claim { key, hash: [0; 32], reserve: Uuid::now_v7() };
    assert!(open.store.claim(claim.clone()).await.is_err());
    assert_eq!(open.store.total(&everything("ann")).await.unwrap(), written);
    // It tries for itself, and keeps failing while there is no space.
    let tried = Instant::now();
    while tried.elapsed() < Duration::from_millis(1500) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_ne!(*health.borrow(), Health::Ok);
    }
    open.store.0.queue.ask(Job::LimitPages(None)).await.unwrap();
    until(&mut health, |h| *h == Health::Ok).await;
    assert_eq!(fill(&mut open), Ok(2));
    assert_eq!(open.store.claim(claim).await.unwrap(), Claimed::New);
    assert_eq!(open.store.total(&everything("ann")).await.unwrap(), written + 1);
    open.close();
    assert_eq!(check(&url).unwrap().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_works_in_a_full_store() {
    let (_dir, url) = place();
    let mut open = Open::at(url);
    let mut health = open.store.health();
    open.store.0.queue.ask(Job::LimitPages(Some(100))).await.unwrap();
    let mut pks = Vec::new();
    loop {
        let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
        pks.push(append.task.0);
        if tokio::task::block_in_place(|| open.write([append]))[0].is_err() {
            break;
        }
    }
    open.store.0.queue.ask(Job::Delete { tasks: pks, before_us: 2 }).await.unwrap();
    until(&mut health, |h| *h == Health::Ok).await;
    assert_eq!(open.store.total(&everything("ann")).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_taken_over_is_written_no_more() {
    let (dir, url) = place();
    let mut open = Open::at(url);
    let mut health = open.store.health();
    let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    tokio::task::block_in_place(|| open.write([append]));
    conn(&dir).execute("UPDATE meta SET epoch = epoch + 1", []).unwrap();
    let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    let results = tokio::task::block_in_place(|| open.write([append]));
    assert_eq!(results, [Err("another process took the store over".to_owned())]);
    until(&mut health, |h| *h == Health::Failing { why: StoreError::TakenOver }).await;
    assert_eq!(open.store.total(&everything("ann")).await.unwrap(), 1);
}

/// An item that panics on the writer's thread.
struct Bomb;

impl Pending for Bomb {
    fn take(&self) -> Option<Append> {
        panic!("a bomb in a test")
    }
}

#[tokio::test]
async fn a_panic_of_the_writer_shows() {
    let store = Store::open(&Options::new(StoreUrl::Memory)).unwrap();
    let (sender, mut commits) = unbounded_channel();
    let writer = Writer::start(store.clone(), sender).unwrap();
    let mut health = store.health();
    writer.push(Arc::new(Bomb));
    until(&mut health, |h| *h == Health::Failing { why: StoreError::Closed }).await;
    assert!(commits.recv().await.is_none());
    let key = ClaimKey { agent: "support".into(), owner: "ann".into(), key: "k".into() };
    let claim = Claim { key, hash: [0; 32], reserve: Uuid::now_v7() };
    assert_eq!(store.claim(claim).await, Err(StoreError::Closed));
}
