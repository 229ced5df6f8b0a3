//! The handle on an open store: what the engine and the service call.

use super::backend::{Backend, Identity};
use super::commits::{CommitMeter, CommitStats};
use super::job::EndClaim;
use super::queue::Queue;
use super::{
    Claim, ClaimEnd, ClaimKey, Claimed, Lease, ListQuery, LogRead, OpenError, Options, PageKey, PageToken, StoreError,
    Tail, TaskHandle, TaskRow, TokenError,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use uuid::Uuid;

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

/// An open store. Clones are handles on the same one; it closes with the last of them.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    backend: Arc<dyn Backend>,
    queue: Queue,
    page_key: PageKey,
    health: watch::Sender<Health>,
    commits: CommitMeter,
    /// How often damaged data was met.
    damaged: AtomicU64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("lease", &self.lease()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store and takes a new lease in it. Creates it or brings it up to date as needed.
    ///
    /// It blocks: call it where that is allowed.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says in one line what is in the way.
    pub fn open(options: &Options) -> Result<Store, OpenError> {
        super::registry::open(options).map(Store::on)
    }

    /// Returns a handle on a backend.
    pub(crate) fn on(backend: Arc<dyn Backend>) -> Store {
        let page_key = PageKey::new(&backend.identity().token_key);
        Store(Arc::new(Inner {
            backend,
            queue: Queue::default(),
            page_key,
            health: watch::Sender::new(Health::Ok),
            commits: CommitMeter::default(),
            damaged: AtomicU64::new(0),
        }))
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        &*self.0.backend
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    pub(super) fn commits(&self) -> &CommitMeter {
        &self.0.commits
    }

    pub(super) fn set_health(&self, health: Health) {
        self.0.health.send_replace(health);
    }

    fn identity(&self) -> &Identity {
        self.0.backend.identity()
    }

    /// Returns the generation of the store. It changes only when a backup was restored: an event's id of another
    /// generation means nothing here.
    pub fn generation(&self) -> u32 {
        self.identity().generation
    }

    /// Returns the lease that this process writes under.
    pub fn lease(&self) -> Lease {
        self.identity().lease
    }

    /// Returns the size of what the store keeps, in bytes; `None` where the backend does not know it.
    pub fn size_bytes(&self) -> Option<u64> {
        self.0.backend.size_bytes()
    }

    /// Returns how often damaged data was met, by reads and by the check at the start.
    pub fn damage_count(&self) -> u64 {
        self.0.damaged.load(Ordering::Relaxed) + self.0.backend.problems()
    }

    /// Counts a read that met damaged data, and logs what it says.
    fn noted<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Corrupt(why)) = &read {
            self.0.damaged.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%why, "stored data is damaged; `tricord store check` finds all of it");
        }
        read
    }

    /// The same for rows, each of which says whether it is damaged.
    fn note_rows(&self, read: Result<Vec<TaskRow>, StoreError>) -> Result<Vec<TaskRow>, StoreError> {
        for row in read.iter().flatten().filter(|row| row.is_damaged) {
            let _ = self.noted::<()>(Err(row.damage()));
        }
        self.noted(read)
    }

    /// Returns the statistics of the commits since the start.
    pub fn commit_stats(&self) -> CommitStats {
        self.0.commits.read()
    }

    /// Returns a handle for a task that is about to be created. It need not be used.
    pub fn new_task(&self, id: Uuid) -> TaskHandle {
        self.0.backend.new_task(id)
    }

    /// Returns whether writes succeed, and every change of that.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.0.health.subscribe()
    }

    /// Finds a task by its public id, if it is this agent's and this owner's.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store cannot be read. This holds for every read below.
    pub async fn find(&self, agent: &str, owner: &str, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        self.noted(self.0.backend.find(agent, owner, id).await)
    }

    /// Finds a task by its public id, whoever owns it. For operators and hooks, never for a caller.
    pub async fn find_any(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        self.noted(self.0.backend.find_any(id).await)
    }

    /// Reads what is needed to fold a task (`after` 0), or to bring a fold up to date whose last record is `after`. In the
    /// second case a checkpoint comes only if records after it were deleted; it then replaces the fold.
    pub async fn log(&self, task: TaskHandle, after: u64) -> Result<LogRead, StoreError> {
        self.noted(self.0.backend.log(task, after).await)
    }

    /// Returns how many bytes are read to fold a task: 0 for one that is not there.
    pub async fn log_size(&self, task: TaskHandle) -> Result<usize, StoreError> {
        self.noted(self.0.backend.log_size(task).await)
    }

    /// Does what [`log`](Self::log) does for a log that is large.
    pub async fn large_log(&self, task: TaskHandle, after: u64) -> Result<LogRead, StoreError> {
        self.noted(self.0.backend.large_log(task, after).await)
    }

    /// Reads what is needed to fold the first of some tasks, in order: at least one, and no more once they have about
    /// 1 MiB. One that is damaged is an error in its place.
    pub async fn logs(&self, tasks: Vec<TaskHandle>) -> Result<Vec<Result<LogRead, StoreError>>, StoreError> {
        let logs = self.noted(self.0.backend.logs(tasks).await)?;
        Ok(logs.into_iter().map(|log| self.noted(log)).collect())
    }

    /// Reads the next records after a seq, about 32 KiB of them, for a stream that resumes.
    pub async fn log_since(&self, task: TaskHandle, after: u64) -> Result<Tail, StoreError> {
        self.noted(self.0.backend.tail(task, after).await)
    }

    /// Reads one page of tasks, newest status first, then highest id. Damaged rows keep their places, and say that they
    /// are damaged.
    pub async fn list(&self, query: &ListQuery) -> Result<Vec<TaskRow>, StoreError> {
        self.note_rows(self.0.backend.list(query).await)
    }

    /// Counts the tasks that match, whatever the cursor.
    pub async fn total(&self, query: &ListQuery) -> Result<u64, StoreError> {
        self.noted(self.0.backend.total(query).await)
    }

    /// Returns the token for the page after `page`, good for this filter, agent and owner alone.
    pub fn page_token(&self, query: &ListQuery, page: &PageToken) -> String {
        self.0.page_key.encode(query, page)
    }

    /// Reads a page token.
    ///
    /// # Errors
    ///
    /// [`TokenError`] for one that this store did not make, or made for another query.
    pub fn read_page_token(&self, query: &ListQuery, token: &str) -> Result<PageToken, TokenError> {
        self.0.page_key.decode(query, token)
    }

    /// Finds tasks that were under way in a process whose lease has ended: at most `limit`, in the order of their handles
    /// after the one given.
    pub async fn orphans(&self, after: Option<TaskHandle>, limit: u32) -> Result<Vec<TaskRow>, StoreError> {
        self.note_rows(self.0.backend.orphans(after, limit).await)
    }

    /// Claims an idempotency key, or finds who has it. The claim is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when it could not be written; nothing is claimed then.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.0.queue.run(claim).await
    }

    /// Ends a claim: with the message that was the answer, or by giving it back.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when it could not be written.
    pub async fn end_claim(&self, key: ClaimKey, end: ClaimEnd) -> Result<(), StoreError> {
        self.0.queue.run(EndClaim { key, end }).await
    }
}
