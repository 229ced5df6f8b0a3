//! The backend itself: which part answers what, and what blocks a thread and so goes to the blocking pool.

use super::super::backend::{Answer, Backend, Batch, Committed, Identity, later, now};
use super::super::lock::lock;
use super::super::{Lease, ListQuery, LogRead, OpenError, StoreError, Tail, TaskHandle, TaskRow};
use super::connection::{self, store_error, writer};
use super::location::StoreLocation;
use super::read::Reads;
use super::upkeep::Upkeep;
use super::write::Writes;
use rusqlite::Connection;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

/// Opens the store in a file that this process has locked.
pub(super) fn open(location: StoreLocation, keep_finished: Option<Duration>) -> Result<Arc<dyn Backend>, OpenError> {
    Ok(Arc::new(Sqlite::open(location, keep_finished)?))
}

/// The backend: the parts that its threads share, and the thread of the upkeep.
pub(super) struct Sqlite {
    pub(super) file: Arc<StoreFile>,
    upkeep: Upkeep,
}

/// An open file.
pub(super) struct StoreFile {
    identity: Identity,
    reads: Reads,
    /// Held for a transaction; `None` once the store is closed.
    writes: Mutex<Option<Writes>>,
    next_pk: AtomicI64,
    keep_finished: Option<Duration>,
    // Last, so that the lock is given back after the connections are closed.
    location: StoreLocation,
}

impl Sqlite {
    pub(super) fn open(location: StoreLocation, keep_finished: Option<Duration>) -> Result<Sqlite, OpenError> {
        let path = location.path.clone();
        let opened = connection::open(&path, location.durable)?;
        let lease = Lease { process: Uuid::now_v7(), epoch: opened.epoch };
        let next_pk = next_pk(&opened.conn).map_err(|e| connection::open_error(&path, &e))?;
        let file = Arc::new(StoreFile {
            identity: Identity { generation: opened.generation, lease, token_key: opened.token_key },
            reads: Reads::new(path.clone(), lease.epoch, opened.summed_from),
            writes: Mutex::new(Some(Writes::new(opened.conn, path, location.durable, lease, opened.summed_from))),
            next_pk: AtomicI64::new(next_pk),
            keep_finished,
            location,
        });
        let upkeep = Upkeep::start(Arc::clone(&file));
        Ok(Sqlite { file, upkeep })
    }
}

impl StoreFile {
    pub(super) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(super) fn keep_finished(&self) -> Option<Duration> {
        self.keep_finished
    }

    /// Returns the size of the files, if they are worth a check: what is kept from one start to the next.
    pub(super) fn checked_at_start(&self) -> Option<u64> {
        self.location.durable.then(|| self.location.size_bytes()).flatten()
    }

    /// Writes with the one connection that does.
    pub(super) fn write<T>(&self, write: impl FnOnce(&mut Writes) -> Result<T, StoreError>) -> Result<T, StoreError> {
        lock(&self.writes).as_mut().map_or(Err(StoreError::Closed), write)
    }

    /// Moves what was committed from the write-ahead log to its place.
    pub(super) fn empty_wal(&self) -> Result<(), StoreError> {
        let conn = writer(&self.location.path, true).map_err(|e| store_error(&e))?;
        // Copies what is there, beside the writer.
        passive(&conn)?;
        // What came meanwhile is little. With the writer held for that moment the log is empty after it, and the next
        // transaction starts it over; otherwise a busy writer would stay ahead for ever and the log would only grow.
        let _held = lock(&self.writes);
        passive(&conn)
    }

    /// Closes the connections and leaves everything in the file.
    fn close(&self) -> Result<(), StoreError> {
        drop(lock(&self.writes).take());
        self.reads.close_idle();
        // The last connection to close removes the write-ahead log, if it may write.
        self.empty_wal()
    }
}

fn passive(conn: &Connection) -> Result<(), StoreError> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(|e| store_error(&e))
}

/// The first number that no task and no record has.
fn next_pk(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row(
        "SELECT max(coalesce((SELECT max(pk) FROM task), 0), coalesce((SELECT max(k) >> ?1 FROM log), 0)) + 1",
        [super::super::append::SEQ_BITS],
        |row| row.get(0),
    )
}

impl Sqlite {
    /// Reads on the blocking pool.
    fn pooled<'a, T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reads) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'a, T> {
        let file = Arc::clone(&self.file);
        later(async move {
            let answer = tokio::task::spawn_blocking(move || read(&file.reads)).await;
            answer.unwrap_or(Err(StoreError::Closed))
        })
    }
}

/// Refuses a row that is not as it was written.
fn whole(row: Option<TaskRow>) -> Result<Option<TaskRow>, StoreError> {
    match row {
        Some(row) if row.is_damaged => Err(row.damage()),
        row => Ok(row),
    }
}

impl Backend for Sqlite {
    fn identity(&self) -> &Identity {
        &self.file.identity
    }

    fn problems(&self) -> u64 {
        self.upkeep.problems()
    }

    fn size_bytes(&self) -> Option<u64> {
        self.file.location.size_bytes()
    }

    fn new_task(&self, _id: Uuid) -> TaskHandle {
        TaskHandle(self.file.next_pk.fetch_add(1, Ordering::Relaxed))
    }

    fn find<'a>(&'a self, agent: &'a str, owner: &'a str, id: Uuid) -> Answer<'a, Option<TaskRow>> {
        let found = self.file.reads.find(id).and_then(whole);
        now(found.map(|row| row.filter(|row| *row.agent == *agent && *row.owner == *owner)))
    }

    fn find_any(&self, id: Uuid) -> Answer<'_, Option<TaskRow>> {
        now(self.file.reads.find(id).and_then(whole))
    }

    fn log(&self, task: TaskHandle, after: u64) -> Answer<'_, LogRead> {
        now(self.file.reads.log(task.0, after))
    }

    fn log_size(&self, task: TaskHandle) -> Answer<'_, usize> {
        now(self.file.reads.log_size(task.0))
    }

    fn large_log(&self, task: TaskHandle, after: u64) -> Answer<'_, LogRead> {
        self.pooled(move |reads| reads.log(task.0, after))
    }

    fn logs(&self, tasks: Vec<TaskHandle>) -> Answer<'_, Vec<Result<LogRead, StoreError>>> {
        self.pooled(move |reads| reads.logs(tasks.into_iter().map(|task| task.0)))
    }

    fn tail(&self, task: TaskHandle, after: u64) -> Answer<'_, Tail> {
        self.pooled(move |reads| reads.tail(task.0, after))
    }

    fn list(&self, query: &ListQuery) -> Answer<'_, Vec<TaskRow>> {
        let query = query.clone();
        self.pooled(move |reads| reads.list(&query))
    }

    fn total(&self, query: &ListQuery) -> Answer<'_, u64> {
        let query = query.clone();
        self.pooled(move |reads| reads.total(&query))
    }

    fn orphans(&self, after: Option<TaskHandle>, limit: u32) -> Answer<'_, Vec<TaskRow>> {
        self.pooled(move |reads| reads.orphans(after.map_or(0, |task| task.0), limit))
    }

    fn commit<'a>(&'a self, batch: &'a mut Batch) -> Answer<'a, Committed> {
        let committed = self.file.write(|writes| writes.commit(batch));
        if committed.is_ok() {
            self.upkeep.written(&self.file, batch);
        }
        now(committed)
    }

    fn probe(&self) -> Answer<'_, ()> {
        now(self.file.write(Writes::probe))
    }

    fn close(&self) -> Answer<'_, ()> {
        self.upkeep.stop();
        now(self.file.close())
    }
}
