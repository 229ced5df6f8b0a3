//! The durable task store: logs of records, an index of tasks, and answers that outlive retries.
//!
//! Writes go through one [`Writer`] thread that commits in groups; reads go to a pool and never wait for it. What a
//! backend must do is two traits: `Log` takes what a commit holds, `Index` answers questions. Nothing here knows
//! what a running task is: the writer asks a [`Pending`] for its next [`Append`].

// Without a backend there is nobody to use what backends are made of.
#![cfg_attr(not(feature = "sqlite"), allow(dead_code))]

mod claim;
mod commits;
mod error;
mod list;
mod location;
mod maintenance;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(all(test, feature = "sqlite"))]
mod tests;
mod writer;

pub use claim::{Claim, ClaimEnd, ClaimKey, Claimed, ClaimedAs};
pub use commits::CommitCounts;
pub use error::{AppendError, OpenError, StoreError};
#[doc(hidden)]
pub use list::PageKey;
pub use list::{ListQuery, PageToken, TokenError};
pub use location::{Options, StoreUrl};
#[cfg(feature = "sqlite")]
pub use sqlite::{CheckReport, Stats, backup, check, restored, stats};
pub use writer::{Commit, Pending, Writer};

use crate::schema::TaskState;
use crate::schema::store::{Checkpoint, RecordBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;
use writer::Queue;

/// A task's number in its store: small, dense and local to the file. The public id is a UUID.
type TaskPk = i64;

/// A backend's own name of a task. It means something only to the backend that gave it out, while the store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskHandle(TaskPk);

/// The right to write tasks, as a backend gave it to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The process that holds it.
    pub process: Uuid,
    /// Which of the store's leases it is: a later one has a higher number.
    pub epoch: u64,
}

/// How many bits of a log key hold the seq.
const SEQ_BITS: u32 = 20;

/// The highest seq that a log can hold.
pub const MAX_SEQ: u64 = (1 << SEQ_BITS) - 1;

/// How long the records of a finished task are kept for resuming streams, even where a checkpoint covers them.
pub const KEEP_TAIL: Duration = Duration::from_secs(3600);

/// What a replay reads at once, about: every stream whose reader is slow holds so much.
const REPLAY_BYTES: usize = 256 << 10;

/// Tasks, logs or claims deleted in one transaction: few enough that other commits do not notice.
const PRUNE_STEP: u32 = 50;

/// What a task's first append says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// The public id.
    pub id: Uuid,
    /// The agent's name.
    pub agent: Arc<str>,
    /// Whose task it is.
    pub owner: Arc<str>,
    /// The conversation, a name within agent and owner.
    pub context: Arc<str>,
    /// When it was made, in microseconds since 1970.
    pub created_us: i64,
}

/// What of a task is searched and counted. It is written with the append that changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The state.
    pub state: TaskState,
    /// When it was entered, in microseconds since 1970.
    pub status_us: i64,
    /// A run of this process owns the task, so that a restart has to recover it.
    pub live: bool,
}

/// What one commit writes of one task.
#[derive(Debug, Clone)]
pub struct Append {
    /// The task.
    pub task: TaskHandle,
    /// What it is written by. The append is refused when the lease is not this store's any more.
    pub lease: Lease,
    /// The seq that it follows: that of the last record in the task's log, 0 for a new task. The append is refused when
    /// the log ends with another one.
    pub follows: u64,
    /// Set with the first append of a task. `row` is then set, too.
    pub new: Option<NewTask>,
    /// The seq of the last record in `body`, at most [`MAX_SEQ`]; `follows` if there is none.
    pub last: u64,
    /// An encoded [`RecordBatch`] with the records `follows + 1..=last`. Empty: no record, only a row or a checkpoint.
    pub body: Vec<u8>,
    /// Set when state or `live` changed.
    pub row: Option<Row>,
    /// A seq, at most `last`, and the encoded [`Checkpoint`] of the task folded up to it. It replaces the one before.
    pub checkpoint: Option<(u64, Vec<u8>)>,
    /// The claims that this append makes good: a retry is from now on answered with the task.
    pub claims: Vec<ClaimKey>,
}

/// A task as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The backend's name of it.
    pub task: TaskHandle,
    /// The public id.
    pub id: Uuid,
    /// The agent's name.
    pub agent: Arc<str>,
    /// Whose task it is.
    pub owner: Arc<str>,
    /// The conversation.
    pub context: Arc<str>,
    /// The state.
    pub state: TaskState,
    /// When it was entered, in microseconds since 1970.
    pub status_us: i64,
    /// When the task was made, in microseconds since 1970.
    pub created_us: i64,
    /// A run owns it, or did when its process ended.
    pub live: bool,
    /// The epoch that wrote the row last.
    pub epoch: u64,
}

/// What is needed to fold a task.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRead {
    /// The fold to start from, if there is one.
    pub checkpoint: Option<Checkpoint>,
    /// The records after it (or after the seq asked for), in order. Only whole records asked for are in here.
    pub batches: Vec<RecordBatch>,
}

/// What follows a seq.
#[derive(Debug, Clone, PartialEq)]
pub enum Tail {
    /// The next records after it, in order; none if it is the last.
    Records(Vec<RecordBatch>),
    /// Some of them were pruned. Start from the fold.
    Gone,
}

/// Whether the store takes writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Ok,
    /// The last commit failed. The writer tries once a second whether it works again.
    Failing {
        /// What it said.
        why: StoreError,
    },
}

/// What a commit needs of a backend. It is called on the writer's thread only.
trait Log: Send {
    /// Writes everything in one transaction, on the condition that this process still holds the store. A refused
    /// append leaves the others standing; an `Err` means that nothing counts as written.
    fn commit(&mut self, appends: &[Append], jobs: &[Job]) -> Result<Committed, StoreError>;

    /// Tries a small write after a failure.
    fn probe(&mut self) -> Result<(), StoreError>;
}

/// What a commit did, in the order of what it was given.
struct Committed {
    appends: Vec<Result<u64, AppendError>>,
    jobs: Vec<Done>,
}

/// What the store itself has to write, in the same commits as the appends.
#[derive(Debug, Clone)]
enum Job {
    Claim(Claim),
    EndClaim(ClaimKey, ClaimEnd),
    /// Deletes a step of claims and covered logs that are too old at a time.
    Prune {
        now_us: i64,
    },
    /// Deletes those of some tasks that are finished, and were before a time.
    Delete {
        tasks: Vec<TaskPk>,
        before_us: i64,
    },
    #[cfg(test)]
    LimitPages(Option<u32>),
}

impl Job {
    /// Whether it is worth trying while the store is full.
    fn frees_space(&self) -> bool {
        match self {
            Job::Claim(_) | Job::EndClaim(..) => false,
            Job::Prune { .. } | Job::Delete { .. } => true,
            #[cfg(test)]
            Job::LimitPages(_) => true,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
enum Done {
    Claimed(Claimed),
    Ended,
    /// Whether there may be more to prune.
    Pruned {
        more: bool,
    },
}

/// What readers need of a backend. Any thread calls it.
trait Index: Send + Sync {
    fn find(&self, agent: &str, owner: &str, id: Uuid) -> Result<Option<TaskRow>, StoreError>;
    fn find_any(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError>;
    fn checkpoint(&self, pk: TaskPk) -> Result<Option<Checkpoint>, StoreError>;
    /// The seq of the checkpoint.
    fn covered(&self, pk: TaskPk) -> Result<Option<u64>, StoreError>;
    /// The batches that hold a record after `after`, cut to those; the first of them, once they have `most` bytes.
    fn batches(&self, pk: TaskPk, after: u64, most: usize) -> Result<Vec<RecordBatch>, StoreError>;
    fn list(&self, query: &ListQuery) -> Result<Vec<TaskRow>, StoreError>;
    fn total(&self, query: &ListQuery) -> Result<u64, StoreError>;
    fn orphans(&self, after: TaskPk, limit: u32) -> Result<Vec<TaskRow>, StoreError>;
    /// Finished tasks that ended before a time, at most [`PRUNE_STEP`], in order of `pk` after the one given.
    fn finished(&self, after: TaskPk, before_us: i64) -> Result<Vec<TaskPk>, StoreError>;
    /// Moves what was written from the write-ahead log to its place.
    fn checkpoint_wal(&self) -> Result<(), StoreError>;
    /// Closes what is idle, and leaves everything in its place, once the writer is gone.
    fn tidy(&self) -> Result<(), StoreError>;
    /// How a list is read, in the backend's words.
    #[cfg(test)]
    fn list_plan(&self, query: &ListQuery) -> Result<String, StoreError>;
}

/// A store that is open. Clones are handles on the same one; it closes with the last of them.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    index: Box<dyn Index>,
    queue: Queue,
    next_pk: AtomicI64,
    generation: u32,
    process: Uuid,
    epoch: u64,
    pages: PageKey,
    health: watch::Sender<Health>,
    commits: commits::Counters,
    keep_finished: Option<Duration>,
    // Last, so that the lock is given back after the files are closed.
    _location: location::StoreLocation,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store, making it or bringing it up to date as needed, and begins a new epoch in it.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says in one line what is in the way.
    pub fn open(options: &Options) -> Result<Store, OpenError> {
        #[cfg(feature = "sqlite")]
        {
            let place = location::StoreLocation::take(&options.url)?;
            let opened = sqlite::open(&place)?;
            Ok(Store(Arc::new(Inner {
                index: Box::new(opened.index),
                queue: Queue::new(Box::new(opened.log)),
                next_pk: AtomicI64::new(opened.next_pk),
                generation: opened.generation,
                process: Uuid::now_v7(),
                epoch: opened.epoch,
                pages: PageKey::new(&opened.token_key),
                health: watch::Sender::new(Health::Ok),
                commits: commits::Counters::default(),
                keep_finished: options.keep_finished,
                _location: place,
            })))
        }
        #[cfg(not(feature = "sqlite"))]
        Err(OpenError::Address(options.url.to_string()))
    }

    /// Changes only when a backup was restored: an event's id of another generation means nothing here.
    pub fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Counts the times the store was opened. Rows of older epochs belong to processes that are gone.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// How many commits there were since the start, of how many tasks, in how much time.
    pub fn commit_counts(&self) -> CommitCounts {
        self.0.commits.read()
    }

    /// What this process writes tasks by.
    pub fn lease(&self) -> Lease {
        Lease { process: self.0.process, epoch: self.0.epoch }
    }

    /// Returns a handle for a new task. It need not be used.
    pub fn new_task(&self, _id: Uuid) -> TaskHandle {
        TaskHandle(self.0.next_pk.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether writes succeed, and every change of that.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.0.health.subscribe()
    }

    /// A task by its public id, if it is this agent's and this owner's.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store cannot be read. This holds for every read below.
    pub async fn find(&self, agent: &str, owner: &str, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        self.0.index.find(agent, owner, id)
    }

    /// A task by its public id, whosever it is. For operators and hooks, never for a caller.
    pub async fn find_any(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        self.0.index.find_any(id)
    }

    /// What is needed to fold a task.
    pub async fn log(&self, task: TaskHandle) -> Result<LogRead, StoreError> {
        self.read_log(task.0)
    }

    /// What is needed to fold the first of some tasks, in their order: at least one, and no more once about 1 MiB was
    /// read.
    pub async fn logs(&self, tasks: Vec<TaskHandle>) -> Result<Vec<LogRead>, StoreError> {
        let store = self.clone();
        blocking(move || {
            let (mut logs, mut bytes) = (Vec::new(), 0);
            for task in tasks {
                let log = store.read_log(task.0)?;
                bytes += log.checkpoint.as_ref().map_or(0, prost::Message::encoded_len);
                bytes += log.batches.iter().map(prost::Message::encoded_len).sum::<usize>();
                logs.push(log);
                if bytes >= 1 << 20 {
                    break;
                }
            }
            Ok(logs)
        })
        .await
    }

    fn read_log(&self, pk: TaskPk) -> Result<LogRead, StoreError> {
        let checkpoint = self.0.index.checkpoint(pk)?;
        let after = checkpoint.as_ref().map_or(0, |c| c.seq);
        Ok(LogRead { checkpoint, batches: self.0.index.batches(pk, after, usize::MAX)? })
    }

    /// The next records after a seq, for replaying what a stream missed, or that they are gone. There may be more behind
    /// them: about 256 KiB are read at a time.
    pub async fn log_since(&self, task: TaskHandle, after: u64) -> Result<Tail, StoreError> {
        let store = self.clone();
        blocking(move || store.tail(task.0, after, REPLAY_BYTES)).await
    }

    fn tail(&self, pk: TaskPk, after: u64, most: usize) -> Result<Tail, StoreError> {
        let batches = self.0.index.batches(pk, after, most)?;
        let first = batches.first().and_then(|b| b.records.first()).map(|r| r.seq);
        let gone = match first {
            Some(first) => first != after + 1,
            // Pruned up to a checkpoint, or nothing was there.
            None => self.0.index.covered(pk)?.is_some_and(|seq| seq > after),
        };
        Ok(if gone { Tail::Gone } else { Tail::Records(batches) })
    }

    /// One page of tasks, newest status first, then highest id.
    pub async fn list(&self, query: &ListQuery) -> Result<Vec<TaskRow>, StoreError> {
        let (store, query) = (self.clone(), query.clone());
        blocking(move || store.0.index.list(&query)).await
    }

    /// How many tasks match, whatever the cursor. A filter by state alone is looked up; by context or time, counted.
    pub async fn total(&self, query: &ListQuery) -> Result<u64, StoreError> {
        let (store, query) = (self.clone(), query.clone());
        blocking(move || store.0.index.total(&query)).await
    }

    /// The token for the page after `page`, good for this filter, agent and owner alone.
    pub fn page_token(&self, query: &ListQuery, page: &PageToken) -> String {
        self.0.pages.encode(query, page)
    }

    /// Reads a page token.
    ///
    /// # Errors
    ///
    /// [`TokenError`] for one that this store did not make, or made for another query.
    pub fn read_page_token(&self, query: &ListQuery, token: &str) -> Result<PageToken, TokenError> {
        self.0.pages.decode(query, token)
    }

    /// Tasks with a run or on their way (submitted or working) that nobody may write any more, as their lease has ended;
    /// at most `limit` of them, in the order of their handles after the one given.
    pub async fn orphans(&self, after: Option<TaskHandle>, limit: u32) -> Result<Vec<TaskRow>, StoreError> {
        let store = self.clone();
        blocking(move || store.0.index.orphans(after.map_or(0, |task| task.0), limit)).await
    }

    /// Reserves an answer for an idempotency key, or says who did. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when it could not be written; nothing is reserved then.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        match self.0.queue.ask(Job::Claim(claim)).await? {
            Done::Claimed(claimed) => Ok(claimed),
            other => unreachable!("a claim is answered with a claim, not {other:?}"),
        }
    }

    /// Ends a claim: with the message that was the answer, or by giving it back.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when it could not be written.
    pub async fn end_claim(&self, key: ClaimKey, end: ClaimEnd) -> Result<(), StoreError> {
        self.0.queue.ask(Job::EndClaim(key, end)).await.map(drop)
    }
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(read).await.unwrap_or(Err(StoreError::Closed))
}
