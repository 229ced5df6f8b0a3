//! The suite of the store: one list of tests, written against the public surface, that every backend runs.
//!
//! A backend gets a [`Kind`] and a line of [`suite`]. What only one backend has is tested in its own folder.

mod claims;
mod failures;
pub(crate) mod faults;
mod lists;
mod process;
mod tasks;

pub(in crate::store) use super::*;
pub(in crate::store) use crate::schema::TaskState;
use crate::schema::store::record::Event;
pub(in crate::store) use crate::schema::store::{
    ArtifactPiece, Checkpoint, Created, Record, RecordBatch, StatusChange,
};
use faults::Faulty;
pub(in crate::store) use prost::Message;
pub(in crate::store) use std::sync::Arc;
use std::sync::{LazyLock, Mutex};
pub(in crate::store) use std::time::Duration;
use tokio::runtime::Runtime;
pub(in crate::store) use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
pub(in crate::store) use tokio::sync::watch;
pub(in crate::store) use uuid::Uuid;

/// A backend that the suite runs on.
#[derive(Clone, Copy)]
struct Kind {
    open: fn(&Options) -> Result<Store, OpenError>,
}

const SQLITE: Kind = Kind { open: Store::open };

/// The backend of the fault tests, with no fault set: it adds and hides nothing.
const FAULTY: Kind = Kind { open: |options| Ok(Store::on(Faulty::open(options)?)) };

impl Kind {
    fn open(self, options: &Options) -> Result<Store, OpenError> {
        (self.open)(options)
    }

    fn at(self, url: StoreUrl) -> Open {
        Open::on(self.open(&Options::new(url)).unwrap())
    }
}

/// Lists the suite once, and runs it on each kind.
macro_rules! suite {
    ($tests:tt on $($kind:ident = $constant:ident),*) => {
        $(suite!(@ $kind $constant $tests);)*
    };
    (@ $kind:ident $constant:ident { $($module:ident: $($test:ident)*;)* }) => {
        mod $kind {
            $($(
                #[test]
                fn $test() {
                    super::$module::$test(super::$constant);
                }
            )*)*
        }
    };
}

suite! {{
    tasks:
        what_was_written_is_found_again
        a_context_comes_back_as_it_was_written
        a_name_that_looks_like_the_digest_of_another_is_another
        records_are_read_after_any_seq
        a_fold_starts_from_the_checkpoint_and_a_replay_does_not
        logs_are_read_together_up_to_a_size
        counters_follow_every_change
        everything_pushed_from_many_threads_is_answered_once
        an_item_with_nothing_left_is_passed_over
        a_store_has_one_writer;
    claims:
        a_key_is_taken_once_in_each_scope
        a_message_is_kept_as_it_was_given
        a_key_given_back_is_free
        a_task_makes_the_claim_good_and_survives_a_restart
        a_claim_that_was_never_ended_may_be_taken_though_its_task_is_there
        a_closed_store_answers;
    lists:
        pages_of_seven_over_equal_times_miss_and_repeat_nothing
        tasks_that_change_between_pages_disturb_no_other
        every_query_lists_what_a_simple_model_does;
    process:
        each_start_is_a_new_epoch_of_one_generation
        a_store_is_open_once
        what_was_acknowledged_survives_a_kill;
    failures:
        one_refused_append_fails_only_its_task
        an_append_of_another_lease_or_place_is_refused_alone
        a_panic_of_the_writer_shows;
} on sqlite = SQLITE, faulty = FAULTY}

/// A pending item that gives its appends one by one.
pub(in crate::store) struct Item(Mutex<Vec<Append>>);

impl Item {
    pub(in crate::store) fn new(mut appends: Vec<Append>) -> Arc<Self> {
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
pub(in crate::store) struct Open {
    pub(in crate::store) store: Store,
    pub(in crate::store) writer: Writer<Item>,
    pub(in crate::store) commits: UnboundedReceiver<Commit<Item>>,
}

impl Open {
    /// Starts a writer on a store.
    pub(in crate::store) fn on(store: Store) -> Open {
        let (sender, commits) = unbounded_channel();
        let writer = Writer::start(store.clone(), sender).unwrap();
        Open { store, writer, commits }
    }

    /// Writes appends in one go, and returns what became of each.
    pub(in crate::store) fn write(&mut self, appends: impl IntoIterator<Item = Append>) -> Vec<Result<u64, String>> {
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

    pub(in crate::store) fn close(self) {
        self.writer.close();
    }
}

pub(in crate::store) fn record(seq: u64, event: Event) -> Record {
    Record { seq, time_us: 1_000_000 + seq as i64, event: Some(event) }
}

pub(in crate::store) fn status(state: TaskState) -> Event {
    Event::Status(StatusChange { state: state as i32, ..StatusChange::default() })
}

/// The append that makes a task in a state, with two records.
pub(in crate::store) fn new_task(
    store: &Store,
    owner: &str,
    context: &str,
    state: TaskState,
    status_us: i64,
) -> Append {
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
pub(in crate::store) fn wait<T>(answer: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    RUNTIME.block_on(answer)
}

/// The place of the lease that [`Open::write`] fills in.
pub(in crate::store) const NO_LEASE: Lease = Lease { process: Uuid::nil(), epoch: 0 };

pub(in crate::store) fn id(append: &Append) -> Uuid {
    append.new.as_ref().unwrap().id
}

/// The append that enters a state, with one record.
pub(in crate::store) fn enter(pk: TaskHandle, seq: u64, state: TaskState, status_us: i64) -> Append {
    let live = matches!(state, TaskState::Working);
    Append { row: Some(Row { state, status_us, live }), ..pieces(pk, &[record(seq, status(state))]) }
}

/// The append of records that change no row.
pub(in crate::store) fn pieces(task: TaskHandle, records: &[Record]) -> Append {
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
pub(in crate::store) fn piece(seq: u64) -> Record {
    record(seq, Event::Artifact(ArtifactPiece { append: true, ..ArtifactPiece::default() }))
}

pub(in crate::store) fn checkpoint(seq: u64, state: TaskState) -> (u64, Vec<u8>) {
    let status = Some(crate::schema::TaskStatus { state: state as i32, ..Default::default() });
    let task = Some(crate::schema::Task { status, ..Default::default() });
    (seq, Checkpoint { seq, task }.encode_to_vec())
}

pub(in crate::store) fn seqs(batches: &[RecordBatch]) -> Vec<u64> {
    batches.iter().flat_map(|b| &b.records).map(|r| r.seq).collect()
}

/// Every task of an owner.
pub(in crate::store) fn everything(owner: &str) -> ListQuery {
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
pub(in crate::store) fn place() -> (tempfile::TempDir, StoreUrl) {
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::sqlite(dir.path().join("tricord.db"));
    (dir, url)
}

/// Waits for a change of health, with a limit that only a broken store reaches.
pub(in crate::store) fn until(health: &mut watch::Receiver<Health>, wanted: impl FnMut(&Health) -> bool) -> Health {
    let changed = async {
        tokio::time::timeout(Duration::from_secs(20), health.wait_for(wanted)).await.map(|h| h.unwrap().clone())
    };
    wait(changed).expect("the store changes its health")
}
