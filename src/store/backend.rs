//! The seam: what a store has to do, whatever it keeps its data in.
//!
//! ```text
//! engine, service ─► Store ─► reads ───────────────────┐
//! engine ─► Writer (one thread) ─► commit, probe, close ─► Backend
//! ```
//!
//! A backend is one folder beside this file with a function that opens it. It owns its files or connections, the lease of
//! this process, its options, and the deletion of what is too old.

use super::job::QueuedJob;
use super::{Append, AppendError, Lease, ListQuery, LogRead, StoreError, Tail, TaskHandle, TaskRow};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either, Ready, ready};
use uuid::Uuid;

/// An answer of a backend: there at once, or after a wait.
///
/// A read that does not wait for a network or for long work answers at once; awaiting that costs no allocation and never
/// leaves the thread.
pub(crate) type Answer<'a, T> = Either<Ready<Result<T, StoreError>>, BoxFuture<'a, Result<T, StoreError>>>;

/// Returns an answer that is there.
pub(super) fn now<'a, T>(result: Result<T, StoreError>) -> Answer<'a, T> {
    Either::Left(ready(result))
}

/// Returns an answer that has to be waited for.
pub(super) fn later<'a, T>(answer: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Answer<'a, T> {
    Either::Right(answer.boxed())
}

/// What a store is, from the time it was opened on.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Changes only when a backup was restored.
    pub(crate) generation: u32,
    /// What this process writes under.
    pub(crate) lease: Lease,
    /// The secret that authenticates page tokens. It is the same for every process that opens the store.
    pub(crate) token_key: Vec<u8>,
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Of tasks. A task may be in it more than once, in order.
    pub(crate) appends: Vec<Append>,
    /// Of the store itself.
    pub(crate) jobs: Vec<QueuedJob>,
}

/// For each append of a batch, in order: the seq of its last record, or why it alone was refused.
pub(crate) type Committed = Vec<Result<u64, AppendError>>;

/// A place where tasks are kept.
///
/// # Reads
///
/// Any thread calls them, any number at a time, from inside a tokio runtime. They never wait for a commit, and see every
/// commit that was answered before they were called. `find`, `find_any`, `log_size` and `log` are on the way of a request: a backend
/// in this process answers them at once. All others may take long: a backend that has to block does it on the runtime's
/// blocking pool, so that callers need not know.
///
/// Agent and owner are part of every question that a client asks: "not yours" and "does not exist" are one answer.
///
/// # Writes
///
/// The store's writer calls [`commit`](Self::commit), [`probe`](Self::probe) and [`close`](Self::close), one at a time, from
/// a thread of its own, outside a runtime: a backend may block it. The next batch comes after the last was answered, so a
/// batch is what arrived meanwhile.
///
/// # Errors
///
/// A [`StoreError`] says that the store as a whole cannot serve now. What concerns one append is an [`AppendError`] in the
/// answer to its commit.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Returns what the store is.
    fn identity(&self) -> &Identity;

    /// Returns how many problems were found without anybody asking for the data.
    fn problems(&self) -> u64 {
        0
    }

    /// Returns the size of what is kept, in bytes; `None` where that is not known without asking somebody else.
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns a handle for a task that is about to be created. It need not be used. Must not wait: it is called for every
    /// new task, before anything is known of its fate.
    fn new_task(&self, id: Uuid) -> TaskHandle;

    /// Finds a task of an agent and an owner.
    fn find<'a>(&'a self, agent: &'a str, owner: &'a str, id: Uuid) -> Answer<'a, Option<TaskRow>>;

    /// Finds a task of anybody.
    fn find_any(&self, id: Uuid) -> Answer<'_, Option<TaskRow>>;

    /// Reads what is needed to fold a task (`after` 0): the latest checkpoint and every record after it. For a fold that
    /// exists, reads the records after the last one in it; if some of those were deleted, the checkpoint comes even so and
    /// replaces the fold. A task that is not there has neither.
    fn log(&self, task: TaskHandle, after: u64) -> Answer<'_, LogRead>;

    /// Returns how many bytes [`log`](Self::log) reads for `after` 0: 0 for a task that is not there.
    fn log_size(&self, task: TaskHandle) -> Answer<'_, usize>;

    /// Does what [`log`](Self::log) does for a log that is large: a backend in this process does not answer it at once.
    fn large_log(&self, task: TaskHandle, after: u64) -> Answer<'_, LogRead>;

    /// Reads the logs of the first of these tasks, in order: at least one, and no more once they have about 1 MiB.
    /// One that is damaged is an error in its place.
    fn logs(&self, tasks: Vec<TaskHandle>) -> Answer<'_, Vec<Result<LogRead, StoreError>>>;

    /// Reads the records after a seq, whatever a checkpoint covers: at least one if there is one, and no more once they have
    /// about 32 KiB. [`Tail::Gone`] if the next one was deleted.
    fn tail(&self, task: TaskHandle, after: u64) -> Answer<'_, Tail>;

    /// Reads one page, newest status first, then highest id. Damaged rows keep their places, and say that they are damaged.
    fn list(&self, query: &ListQuery) -> Answer<'_, Vec<TaskRow>>;

    /// Counts the tasks that match, whatever the cursor.
    fn total(&self, query: &ListQuery) -> Answer<'_, u64>;

    /// Finds tasks that are live, submitted or working, and were last written under a lease that has ended: at most `limit`,
    /// in the order of their handles after the one given. The store judges the leases, not the caller.
    fn orphans(&self, after: Option<TaskHandle>, limit: u32) -> Answer<'_, Vec<TaskRow>>;

    /// Writes a batch in one transaction, which is durable when this answers, and answers its jobs.
    ///
    /// An append is refused when its lease is not the one of [`identity`](Self::identity), when its log does not end with
    /// the seq that it follows, or when it breaks another rule of [`Append`]. The others of the batch stand, and a refused
    /// one leaves nothing behind.
    ///
    /// After an error nothing of the batch counts as written. Where the device failed in the very commit, some of it may be
    /// found later all the same: what the store then says is the truth. If the lease has ended the error is
    /// [`StoreError::TakenOver`], for good.
    fn commit<'a>(&'a self, batch: &'a mut Batch) -> Answer<'a, Committed>;

    /// Tries whether the store takes writes again. Called about once a second after a commit failed.
    fn probe(&self) -> Answer<'_, ()>;

    /// Ends the upkeep and leaves the data in good order. Nothing is committed after it; reads may still come.
    fn close(&self) -> Answer<'_, ()>;
}
