//! The store as its users see it: a suite that knows the public surface, and SQLite only where damage is made.

mod claims;
mod failures;
mod lists;
mod operate;
mod process;

use super::*;
use crate::schema::store::record::Event;
use crate::schema::store::{ArtifactPiece, Created, Record, StatusChange};
use prost::Message;
use std::sync::{LazyLock, Mutex};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A pending item that gives its appends one by one.
struct Item(Mutex<Vec<Append>>);

impl Item {
    fn new(mut appends: Vec<Append>) -> Arc<Self> {
        appends.reverse();
        Arc::new(Item(Mutex::new(appends)))
    }
}

impl Pending for Item {
    fn take(&self) -> Option<Append> {
        self.0.lock().unwrap().pop()
    }
}

/// An open store with its writer.
struct Open {
    store: Store,
    writer: Writer<Item>,
    commits: UnboundedReceiver<Commit<Item>>,
}

impl Open {
    fn at(url: StoreUrl) -> Open {
        Open::with(&Options::new(url))
    }

    fn with(options: &Options) -> Open {
        let store = Store::open(options).unwrap();
        let (sender, commits) = unbounded_channel();
        let writer = Writer::start(store.clone(), sender).unwrap();
        Open { store, writer, commits }
    }

    /// Writes appends in one go, and returns what became of each.
    fn write(&mut self, appends: impl IntoIterator<Item = Append>) -> Vec<Result<u64, String>> {
        let lease = self.store.lease();
        let leased = |a: Append| Append { lease: if a.lease == NO_LEASE { lease } else { a.lease }, ..a };
        let items: Vec<_> = appends.into_iter().map(|a| Item::new(vec![leased(a)])).collect();
        self.writer.push_all(items.iter().cloned());
        let ours = |item: &Arc<Item>| items.iter().any(|other| Arc::ptr_eq(item, other));
        let mut results = Vec::new();
        while results.len() < items.len() {
            match self.commits.blocking_recv().expect("the writer answers") {
                Commit::Done(done) => {
                    let done = done.into_iter().filter(|(item, _)| ours(item));
                    results.extend(done.map(|(_, result)| result.map_err(|e| e.to_string())));
                }
                Commit::Failed(failed, why) => {
                    results.extend(failed.iter().filter(|item| ours(item)).map(|_| Err(why.to_string())));
                }
            }
        }
        results
    }

    fn close(self) {
        self.writer.close();
    }
}

fn record(seq: u64, event: Event) -> Record {
    Record { seq, time_us: 1_000_000 + seq as i64, event: Some(event) }
}

fn status(state: TaskState) -> Event {
    Event::Status(StatusChange { state: state as i32, ..StatusChange::default() })
}

/// The append that makes a task in a state, with two records.
fn new_task(store: &Store, owner: &str, context: &str, state: TaskState, status_us: i64) -> Append {
    let records = vec![record(1, Event::Created(Created::default())), record(2, status(state))];
    Append {
        task: store.new_task(Uuid::nil()),
        lease: store.lease(),
        follows: 0,
        new: Some(NewTask {
            id: Uuid::now_v7(),
            agent: "support".into(),
            owner: owner.into(),
            context: context.into(),
            created_us: status_us,
        }),
        last: 2,
        body: RecordBatch { records }.encode_to_vec(),
        row: Some(Row { state, status_us, live: !matches!(state, TaskState::Completed) }),
        checkpoint: None,
        claims: Vec::new(),
    }
}

/// Waits for the store outside a runtime.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    RUNTIME.block_on(answer)
}

/// The place of the lease that [`Open::write`] fills in.
const NO_LEASE: Lease = Lease { process: Uuid::nil(), epoch: 0 };

fn id(append: &Append) -> Uuid {
    append.new.as_ref().unwrap().id
}

/// The append that enters a state, with one record.
fn enter(pk: TaskHandle, seq: u64, state: TaskState, status_us: i64) -> Append {
    let live = matches!(state, TaskState::Working);
    Append { row: Some(Row { state, status_us, live }), ..pieces(pk, &[record(seq, status(state))]) }
}

/// The append of records that change no row.
fn pieces(task: TaskHandle, records: &[Record]) -> Append {
    Append {
        task,
        // Open::write fills it in.
        lease: NO_LEASE,
        follows: records.first().unwrap().seq - 1,
        new: None,
        last: records.last().unwrap().seq,
        body: RecordBatch { records: records.to_vec() }.encode_to_vec(),
        row: None,
        checkpoint: None,
        claims: Vec::new(),
    }
}

/// A piece of an artifact.
fn piece(seq: u64) -> Record {
    record(seq, Event::Artifact(ArtifactPiece { append: true, ..ArtifactPiece::default() }))
}

fn checkpoint(seq: u64, state: TaskState) -> (u64, Vec<u8>) {
    let status = Some(crate::schema::TaskStatus { state: state as i32, ..Default::default() });
    let task = Some(crate::schema::Task { status, ..Default::default() });
    (seq, Checkpoint { seq, task }.encode_to_vec())
}

fn seqs(batches: &[RecordBatch]) -> Vec<u64> {
    batches.iter().flat_map(|b| &b.records).map(|r| r.seq).collect()
}

/// Every task of an owner.
fn everything(owner: &str) -> ListQuery {
    ListQuery {
        agent: "support".into(),
        owner: owner.into(),
        context: None,
        state: None,
        after_us: None,
        limit: 1000,
        cursor: None,
    }
}

/// A directory for a store, and its address.
fn place() -> (tempfile::TempDir, StoreUrl) {
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::Sqlite(dir.path().join("tricord.db"));
    (dir, url)
}

#[test]
fn what_was_written_is_found_again() {
    let mut open = Open::at(StoreUrl::Memory);
    let append = new_task(&open.store, "ann", "trip to Rome", TaskState::Working, 5);
    assert_eq!(open.write([append.clone()]), [Ok(2)]);
    let row = wait(open.store.find("support", "ann", id(&append))).unwrap().unwrap();
    assert_eq!((row.task, row.state, row.status_us, row.live), (append.task, TaskState::Working, 5, true));
    assert_eq!(&*row.context, "trip to Rome");
    assert_eq!(wait(open.store.find("support", "bob", id(&append))).unwrap(), None);
    assert_eq!(wait(open.store.find("other", "ann", id(&append))).unwrap(), None);
    let log = wait(open.store.log(append.task)).unwrap();
    assert_eq!(log.batches, [RecordBatch::decode(&*append.body).unwrap()]);
    open.close();
}

#[test]
fn a_context_comes_back_as_it_was_written() {
    let mut open = Open::at(StoreUrl::Memory);
    let names = [
        "0197f2a4-0000-7000-8000-0123456789ab",
        "0197F2A4-0000-7000-8000-0123456789AB",
        "0197f2a4000070008000012345678 9ab",
        "0197f2a40000700080000123456789ab",
        "{0197f2a4-0000-7000-8000-0123456789ab}",
        "trip \u{1F30D} 'quoted'; --",
        " ",
    ];
    let appends = names.map(|name| new_task(&open.store, "ann", name, TaskState::Completed, 1));
    open.write(appends.clone());
    for (name, append) in names.iter().zip(&appends) {
        let row = wait(open.store.find("support", "ann", id(append))).unwrap().unwrap();
        assert_eq!(&*row.context, *name);
        let query = ListQuery { context: Some((*name).into()), ..everything("ann") };
        assert_eq!(wait(open.store.list(&query)).unwrap(), [row], "{name}");
        assert_eq!(wait(open.store.total(&query)).unwrap(), 1);
    }
}

#[test]
fn a_name_that_looks_like_the_digest_of_another_is_another() {
    // Anybody can make a UUID of a name's digest.
    let digest = ring::digest::digest(&ring::digest::SHA256, b"trip");
    let forged = Uuid::from_slice(&digest.as_ref()[..16]).unwrap().to_string();
    let mut open = Open::at(StoreUrl::Memory);
    let append = new_task(&open.store, "ann", "trip", TaskState::Completed, 1);
    open.write([append]);
    let query = ListQuery { context: Some(forged.into()), ..everything("ann") };
    assert_eq!(wait(open.store.list(&query)).unwrap(), []);
    assert_eq!(wait(open.store.total(&query)).unwrap(), 0);
}

#[test]
fn records_are_read_after_any_seq() {
    let mut open = Open::at(StoreUrl::Memory);
    let made = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    let pk = made.task;
    let other = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    open.write([made, other]);
    open.write([pieces(pk, &[piece(3), piece(4), piece(5)])]);
    open.write([pieces(pk, &[piece(6)])]);
    for after in 0..=7 {
        let expected: Vec<u64> = (after + 1..=6).collect();
        match wait(open.store.log_since(pk, after)).unwrap() {
            Tail::Records(batches) => assert_eq!(seqs(&batches), expected, "after {after}"),
            Tail::Gone => panic!("nothing was pruned"),
        }
        assert_eq!(seqs(&wait(open.store.log(pk)).unwrap().batches), [1, 2, 3, 4, 5, 6]);
    }
    let row = wait(open.store.list(&everything("ann"))).unwrap();
    assert!(row.iter().all(|row| row.status_us == 1), "pieces change no row");
    let unused = open.store.new_task(Uuid::now_v7());
    assert_eq!(wait(open.store.log(unused)).unwrap(), LogRead { checkpoint: None, batches: vec![] });
}

#[test]
fn a_fold_starts_from_the_checkpoint_and_a_replay_does_not() {
    let mut open = Open::at(StoreUrl::Memory);
    let made = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    let pk = made.task;
    open.write([made]);
    open.write([Append {
        checkpoint: Some(checkpoint(3, TaskState::Working)),
        ..pieces(pk, &[piece(3), piece(4), piece(5)])
    }]);
    let read = wait(open.store.log(pk)).unwrap();
    assert_eq!(read.checkpoint.unwrap().seq, 3);
    assert_eq!(seqs(&read.batches), [4, 5]);
    // A later one replaces it, without any record.
    open.write([Append {
        body: vec![],
        follows: 5,
        last: 5,
        checkpoint: Some(checkpoint(5, TaskState::Working)),
        ..pieces(pk, &[piece(5)])
    }]);
    let read = wait(open.store.log(pk)).unwrap();
    assert_eq!((read.checkpoint.unwrap().seq, read.batches.len()), (5, 0));
    assert!(matches!(wait(open.store.log_since(pk, 0)).unwrap(), Tail::Records(batches) if seqs(&batches).len() == 5));
}

#[test]
fn counters_follow_every_change() {
    let mut open = Open::at(StoreUrl::Memory);
    let total =
        |store: &Store, owner: &str, state| wait(store.total(&ListQuery { state, ..everything(owner) })).unwrap();
    let made: Vec<_> = (0..5).map(|_| new_task(&open.store, "ann", "c", TaskState::Working, 1)).collect();
    let pks: Vec<_> = made.iter().map(|a| a.task).collect();
    let foreign = new_task(&open.store, "bob", "c", TaskState::Working, 1);
    open.write(made.into_iter().chain([foreign]));
    assert_eq!(total(&open.store, "ann", None), 5);
    assert_eq!(total(&open.store, "bob", None), 1);
    assert_eq!(total(&open.store, "nobody", None), 0);
    // Two changes of one task in one transaction.
    let item = Item::new(vec![enter(pks[0], 3, TaskState::InputRequired, 2), enter(pks[0], 4, TaskState::Working, 3)]);
    open.writer.push_all([item.clone(), item]);
    open.write([enter(pks[1], 3, TaskState::Completed, 2), enter(pks[2], 3, TaskState::Completed, 2)]);
    for (state, n) in [(TaskState::Working, 3), (TaskState::Completed, 2), (TaskState::InputRequired, 0)] {
        assert_eq!(total(&open.store, "ann", Some(state)), n, "{state:?}");
        let query = ListQuery { state: Some(state), ..everything("ann") };
        assert_eq!(wait(open.store.list(&query)).unwrap().len() as u64, n, "{state:?}");
    }
    assert_eq!(total(&open.store, "ann", None), 5);
}

#[test]
fn everything_pushed_from_many_threads_is_answered_once() {
    const THREADS: usize = 8;
    const EACH: usize = 100;
    let mut open = Open::at(StoreUrl::Memory);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (writer, store) = (open.writer.clone(), open.store.clone());
            scope.spawn(move || {
                for _ in 0..EACH {
                    writer.push(Item::new(vec![new_task(&store, "ann", "c", TaskState::Completed, 1)]));
                }
            });
        }
    });
    let mut answered = 0;
    while answered < THREADS * EACH {
        let Some(Commit::Done(done)) = open.commits.blocking_recv() else { panic!("a commit failed") };
        assert!(done.iter().all(|(_, result)| *result == Ok(2)));
        answered += done.len();
    }
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 800);
    let mut commits = open.commits;
    open.writer.close();
    drop(open.writer);
    assert!(commits.blocking_recv().is_none(), "nothing is answered twice");
}

#[test]
fn an_item_with_nothing_left_is_passed_over() {
    let mut open = Open::at(StoreUrl::Memory);
    let item = Item::new(vec![new_task(&open.store, "ann", "c", TaskState::Completed, 1)]);
    open.writer.push(item.clone());
    open.writer.push(item.clone());
    open.writer.push(item);
    let Some(Commit::Done(done)) = open.commits.blocking_recv() else { panic!("the commit failed") };
    assert_eq!(done.len(), 1);
    open.writer.close();
    assert!(open.commits.try_recv().is_err());
}

#[test]
fn closing_writes_what_was_pushed_into_one_file() {
    let (dir, url) = place();
    let open = Open::at(url.clone());
    for _ in 0..100 {
        open.writer.push(Item::new(vec![new_task(&open.store, "ann", "c", TaskState::Completed, 1)]));
    }
    wait(open.store.total(&everything("ann"))).unwrap();
    open.close();
    let files: Vec<_> = dir.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.iter().all(|name| name == "tricord.db" || name == "tricord.db.lock"), "{files:?}");
    let again = Open::at(url);
    assert_eq!(wait(again.store.total(&everything("ann"))).unwrap(), 100);
}

#[test]
fn a_store_has_one_writer() {
    let open = Open::at(StoreUrl::Memory);
    let (sender, _commits) = unbounded_channel::<Commit<Item>>();
    assert_eq!(Writer::start(open.store.clone(), sender).unwrap_err(), StoreError::Closed);
}

#[test]
fn readers_see_whole_commits_while_the_log_is_emptied() {
    let (_dir, url) = place();
    let mut open = Open::at(url.clone());
    let store = open.store.clone();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, store) = (&stop, &store);
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    let mut seen = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let now = wait(store.total(&everything("ann"))).unwrap();
                        assert!(now >= seen && now % 20 == 0, "{now} after {seen}");
                        let rows = wait(store.list(&ListQuery { limit: 20, ..everything("ann") })).unwrap();
                        for row in rows.iter().take(3) {
                            assert_eq!(seqs(&wait(store.log(row.task)).unwrap().batches), [1, 2]);
                        }
                        seen = now;
                    }
                    seen
                })
            })
            .collect();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                store.0.index.checkpoint_wal().unwrap();
            }
        });
        for round in 0..100 {
            // Twenty in one item list are one transaction, as they are pushed under one lock.
            let appends: Vec<_> = (0..20).map(|_| new_task(store, "ann", "c", TaskState::Completed, round)).collect();
            assert!(open.write(appends).iter().all(Result::is_ok));
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(wait(store.total(&everything("ann"))).unwrap(), 2000);
    open.close();
    drop(store);
    assert_eq!(check(&url).unwrap().problems, Vec::<String>::new());
}

#[test]
fn the_write_ahead_log_stays_short_under_load() {
    let (_dir, url) = place();
    let mut open = Open::at(url.clone());
    let body = vec![0; 100_000];
    for _ in 0..600 {
        let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
        open.write([Append { body: body.clone(), ..append }]);
    }
    // Sixty megabytes went through it.
    let stats = stats(&url).unwrap();
    assert!(stats.file_bytes + stats.wal_bytes > 50 << 20, "{stats:?}");
    assert!(stats.wal_bytes < 40 << 20, "{stats:?}");
}
