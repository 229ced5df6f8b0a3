//! When writing fails: one task's append, the whole store, and the way back.

use super::*;
use faults::Faults;

pub(super) fn one_refused_append_fails_only_its_task(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
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
    assert!(refused[1].starts_with("the append was refused"), "{refused:?}");
    assert_eq!(refused[2], "the append follows record 1, but the log ends with record 2");
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

/// An item that panics on the writer's thread.
struct Bomb;

impl Pending for Bomb {
    fn take(&self) -> Option<Append> {
        panic!("a bomb in a test")
    }
}

pub(super) fn a_panic_of_the_writer_shows(kind: Kind) {
    let store = kind.open(&Options::new(StoreUrl::memory())).unwrap();
    let (sender, mut commits) = unbounded_channel();
    let writer = Writer::start(store.clone(), sender).unwrap();
    let mut health = store.health();
    writer.push(Arc::new(Bomb));
    until(&mut health, |h| *h == Health::Failing { why: StoreError::Closed });
    assert!(commits.blocking_recv().is_none());
    let key = ClaimKey { agent: "support".into(), owner: "ann".into(), key: "k".into() };
    let claim = Claim { key, hash: [0; 32], reserve: Uuid::now_v7() };
    assert_eq!(wait(store.claim(claim)), Err(StoreError::Closed));
}

pub(super) fn an_append_of_another_lease_or_place_is_refused_alone(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let made = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    let task = made.task;
    open.write([made]);
    let ours = open.store.lease();
    let results = open.write([
        Append { lease: Lease { epoch: ours.epoch + 1, ..ours }, ..pieces(task, &[piece(3)]) },
        Append { lease: Lease { process: Uuid::now_v7(), ..ours }, ..pieces(task, &[piece(3)]) },
        // Of what somebody else has written, and of what nobody has.
        pieces(task, &[piece(2)]),
        pieces(task, &[piece(4)]),
        Append { follows: 1, ..new_task(&open.store, "ann", "c", TaskState::Working, 1) },
        pieces(task, &[piece(3)]),
    ]);
    assert_eq!(
        results,
        [
            Err(AppendError::LeaseEnded(ours.epoch + 1).to_string()),
            Err(AppendError::LeaseEnded(ours.epoch).to_string()),
            Err(AppendError::OutOfOrder { follows: 1, last: 2 }.to_string()),
            Err(AppendError::OutOfOrder { follows: 3, last: 2 }.to_string()),
            Err(AppendError::OutOfOrder { follows: 1, last: 0 }.to_string()),
            Ok(3),
        ]
    );
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 1);
    assert_eq!(*open.store.health().borrow(), Health::Ok);
}

fn completed(open: &mut Open) -> Result<u64, String> {
    let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    open.write([append]).remove(0)
}

fn claim() -> Claim {
    let key = ClaimKey { agent: "support".into(), owner: "ann".into(), key: "k".into() };
    Claim { key, hash: [0; 32], reserve: Uuid::now_v7() }
}

/// An open store, and the faults that can be set on it.
fn faulty() -> (Open, Arc<Faults>) {
    let backend = Faulty::open(&Options::new(StoreUrl::memory())).unwrap();
    let faults = backend.faults();
    (Open::on(Store::on(backend)), faults)
}

#[test]
fn a_full_store_refuses_reports_and_recovers() {
    let (mut open, faults) = faulty();
    let mut health = open.store.health();
    assert_eq!(completed(&mut open), Ok(2));
    let full = StoreError::Full("in a test".into());
    faults.fail_commits(Some(full.clone()));
    assert_eq!(completed(&mut open), Err(full.to_string()));
    until(&mut health, |h| *h == Health::Failing { why: full.clone() });
    // Refused at once, claims too; what is there can be read.
    let commits = faults.commits();
    assert!(completed(&mut open).is_err());
    assert_eq!(wait(open.store.claim(claim())), Err(full.clone()));
    assert_eq!(faults.commits(), commits, "a failing store is not asked");
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 1);
    // It is tried again and again, and stays failing while that fails.
    faults.wait_for_probes(2);
    assert_eq!(*health.borrow(), Health::Failing { why: full });
    // Another reason shows.
    let broken = StoreError::Io("in a test".into());
    faults.fail_commits(Some(broken.clone()));
    until(&mut health, |h| *h == Health::Failing { why: broken.clone() });
    faults.fail_commits(None);
    until(&mut health, |h| *h == Health::Ok);
    assert_eq!(completed(&mut open), Ok(2));
    assert_eq!(wait(open.store.claim(claim())), Ok(Claimed::New));
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 2);
}

#[test]
fn a_store_that_was_taken_over_is_never_tried_again() {
    let (mut open, faults) = faulty();
    let mut health = open.store.health();
    faults.fail_commits(Some(StoreError::TakenOver));
    assert_eq!(completed(&mut open), Err("another process took the store over".to_owned()));
    until(&mut health, |h| *h == Health::Failing { why: StoreError::TakenOver });
    faults.fail_commits(None);
    assert!(completed(&mut open).is_err());
    assert_eq!(faults.probes(), 0);
}

#[test]
fn a_backend_refuses_one_append_and_nothing_of_it_is_there() {
    let (mut open, faults) = faulty();
    let (good, bad) = (
        new_task(&open.store, "ann", "c", TaskState::Completed, 1),
        new_task(&open.store, "ann", "c", TaskState::Completed, 1),
    );
    faults.refuse(bad.task, AppendError::Refused("in a test".into()));
    let results = open.write([good.clone(), bad.clone()]);
    assert_eq!(results, [Ok(2), Err("the append was refused: in a test".to_owned())]);
    assert!(wait(open.store.find_any(id(&good))).unwrap().is_some());
    assert!(wait(open.store.find_any(id(&bad))).unwrap().is_none());
}

#[test]
fn what_is_pushed_while_a_commit_is_held_back_is_the_next_one() {
    let (mut open, faults) = faulty();
    let hold = faults.hold_commits();
    let appends: Vec<_> = (0..20).map(|_| new_task(&open.store, "ann", "c", TaskState::Completed, 1)).collect();
    let mut appends = appends.into_iter().map(|append| Item::new(vec![append]));
    open.writer.push(appends.next().unwrap());
    faults.wait_for_commits(1);
    appends.for_each(|item| open.writer.push(item));
    assert!(open.commits.try_recv().is_err(), "nothing is told before it is durable");
    drop(hold);
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 20 {
        match open.commits.blocking_recv() {
            Some(Commit::Done(done)) => sizes.push(done.len()),
            _ => panic!("a commit failed"),
        }
    }
    assert_eq!(sizes, [1, 19]);
}

#[test]
fn a_read_that_fails_says_so() {
    let (mut open, faults) = faulty();
    let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    open.write([append.clone()]);
    let why = StoreError::Io("in a test".into());
    faults.fail_reads(Some(why.clone()));
    assert_eq!(wait(open.store.find("support", "ann", id(&append))), Err(why.clone()));
    assert_eq!(wait(open.store.log(append.task, 0)), Err(why.clone()));
    assert_eq!(wait(open.store.list(&everything("ann"))), Err(why));
    faults.fail_reads(None);
    assert!(wait(open.store.find("support", "ann", id(&append))).unwrap().is_some());
}
