//! Reading: a few connections that never wait for the writer, and every question as one statement.

use super::super::lock::lock;
use super::super::{ListQuery, LogRead, MAX_SEQ, StoreError, Tail, TaskRow};
use super::connection::{reader, store_error};
use super::query::{self, select, state, task_row};
use super::sum;
use super::{PRUNE_STEP, TaskPk, log_key};
use crate::clock::now_us;
use crate::schema::store::{Checkpoint, RecordBatch};
use crate::task::lifecycle::is_terminal;
use prost::Message;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use std::path::PathBuf;
use std::sync::Mutex;
use uuid::Uuid;

/// Idle connections kept. More are opened while more threads read at once.
const POOL: usize = 8;

/// What a replay reads at once, about. Every stream whose reader is slow holds so much.
const REPLAY_BYTES: usize = 32 << 10;

/// What is read of several logs at once, about.
const LOGS_BYTES: usize = 1 << 20;

pub(super) struct Reads {
    path: PathBuf,
    pool: Mutex<Vec<Connection>>,
    epoch: u64,
    /// The first task all of whose rows have a checksum.
    summed_from: TaskPk,
}

impl Reads {
    pub(super) fn new(path: PathBuf, epoch: u64, summed_from: TaskPk) -> Self {
        Reads { path, pool: Mutex::default(), epoch, summed_from }
    }

    pub(super) fn with<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let idle = lock(&self.pool).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => reader(&self.path).map_err(|e| store_error(&e))?,
        };
        // After an error the connection is not trusted again.
        let value = read(&conn).map_err(|e| store_error(&e))?;
        let mut pool = lock(&self.pool);
        if pool.len() < POOL {
            pool.push(conn);
        }
        Ok(value)
    }

    /// Reads with a connection of its own, so that none of the others caches what was read.
    pub(super) fn apart<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let conn = reader(&self.path).map_err(|e| store_error(&e))?;
        read(&conn).map_err(|e| store_error(&e))
    }

    /// Closes the idle connections.
    pub(super) fn close_idle(&self) {
        lock(&self.pool).clear();
    }

    pub(super) fn find(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        let sql = select("sqlite_autoindex_task_1", "WHERE t.id = ?1");
        self.with(|conn| conn.prepare_cached(&sql)?.query_row([id.as_bytes()], |row| self.row(row)).optional())
    }

    fn row(&self, row: &Row<'_>) -> rusqlite::Result<TaskRow> {
        task_row(row, self.summed_from)
    }

    pub(super) fn log(&self, pk: TaskPk, after: u64) -> Result<LogRead, StoreError> {
        if after > 0
            && let Tail::Records(batches) = self.records(pk, after, usize::MAX)?
        {
            return Ok(LogRead { checkpoint: None, batches });
        }
        self.log_and_size(pk).map(|(log, _)| log)
    }

    pub(super) fn log_size(&self, pk: TaskPk) -> Result<usize, StoreError> {
        self.with(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT coalesce((SELECT length(body) FROM checkpoint WHERE pk = ?1), 0)
                 + coalesce((SELECT sum(length(body)) FROM log WHERE k BETWEEN
                     ?2 + coalesce((SELECT seq FROM checkpoint WHERE pk = ?1), 0) AND ?3), 0)",
            )?;
            let bounds = (pk, log_key(pk, 1), log_key(pk, MAX_SEQ));
            statement.query_row(bounds, |row| Ok(usize::try_from(row.get::<_, i64>(0)?).unwrap_or(usize::MAX)))
        })
    }

    pub(super) fn logs(
        &self,
        tasks: impl IntoIterator<Item = TaskPk>,
    ) -> Result<Vec<Result<LogRead, StoreError>>, StoreError> {
        let (mut logs, mut bytes) = (Vec::new(), 0);
        for pk in tasks {
            logs.push(match self.log_and_size(pk) {
                Ok((log, size)) => {
                    bytes += size;
                    Ok(log)
                }
                Err(damage @ StoreError::Corrupt(_)) => Err(damage),
                Err(error) => return Err(error),
            });
            if bytes >= LOGS_BYTES {
                break;
            }
        }
        Ok(logs)
    }

    fn log_and_size(&self, pk: TaskPk) -> Result<(LogRead, usize), StoreError> {
        let found = self.with(|conn| {
            conn.prepare_cached("SELECT seq, body, sum FROM checkpoint WHERE pk = ?1")?
                .query_row([pk], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, Vec<u8>>(1)?, row.get(2)?)))
                .optional()
        })?;
        let size = found.as_ref().map_or(0, |(_, body, _)| body.len());
        let checkpoint = match found {
            Some((seq, body, sum)) => Some(self.checkpoint(pk, seq, &body, sum)?),
            None => None,
        };
        let covered = checkpoint.as_ref().map_or(0, |c| c.seq);
        let (batches, bytes) = self.batches(pk, covered, usize::MAX)?;
        match batches.first().and_then(|batch| batch.records.first()) {
            Some(first) if first.seq != covered + 1 => {
                Err(self.damaged(pk, &format!("the records before {} are missing", first.seq)))
            }
            _ => Ok((LogRead { checkpoint, batches }, bytes + size)),
        }
    }

    fn checkpoint(&self, pk: TaskPk, seq: u64, body: &[u8], sum: Option<u32>) -> Result<Checkpoint, StoreError> {
        if !sum::is_whole(pk, sum, || sum::checkpoint(pk, seq, body), self.summed_from) {
            return Err(self.damaged(pk, "its checkpoint is not as it was written"));
        }
        match Checkpoint::decode(body) {
            Ok(checkpoint) if checkpoint.seq == seq && checkpoint.task.is_some() => Ok(checkpoint),
            Ok(_) => Err(self.damaged(pk, "its checkpoint is incomplete")),
            Err(error) => Err(self.damaged(pk, &format!("its checkpoint cannot be read: {error}"))),
        }
    }

    /// Returns the error for damage to a task, with the id by which others know it.
    fn damaged(&self, pk: TaskPk, why: &str) -> StoreError {
        let id = self.with(|conn| {
            conn.prepare_cached("SELECT id FROM task WHERE pk = ?1")?.query_row([pk], |row| row.get(0)).optional()
        });
        StoreError::Corrupt(match id {
            Ok(Some(id)) => format!("task {}: {why}", Uuid::from_bytes(id)).into(),
            _ => format!("task number {pk}: {why}").into(),
        })
    }

    pub(super) fn tail(&self, pk: TaskPk, after: u64) -> Result<Tail, StoreError> {
        self.records(pk, after, REPLAY_BYTES)
    }

    fn records(&self, pk: TaskPk, after: u64, most: usize) -> Result<Tail, StoreError> {
        let (batches, _) = self.batches(pk, after, most)?;
        let first = batches.first().and_then(|b| b.records.first()).map(|r| r.seq);
        let gone = match first {
            Some(first) => first != after + 1,
            // Pruned up to a checkpoint, or nothing was there.
            None => self.covered(pk)?.is_some_and(|seq| seq > after),
        };
        Ok(if gone { Tail::Gone } else { Tail::Records(batches) })
    }

    /// The seq of the checkpoint.
    fn covered(&self, pk: TaskPk) -> Result<Option<u64>, StoreError> {
        self.with(|conn| {
            conn.prepare_cached("SELECT seq FROM checkpoint WHERE pk = ?1")?
                .query_row([pk], |row| Ok(row.get::<_, i64>(0)? as u64))
                .optional()
        })
    }

    /// The batches that hold a record after `after`, cut to those, with their size. No more once they have `most` bytes.
    fn batches(&self, pk: TaskPk, after: u64, most: usize) -> Result<(Vec<RecordBatch>, usize), StoreError> {
        let read = self.with(|conn| {
            let mut statement =
                conn.prepare_cached("SELECT k, body, sum FROM log WHERE k BETWEEN ?1 AND ?2 ORDER BY k")?;
            let from = log_key(pk, after.saturating_add(1).min(MAX_SEQ));
            let mut rows = statement.query((from, log_key(pk, MAX_SEQ)))?;
            let (mut batches, mut bytes, mut last) = (Vec::new(), 0, None);
            while bytes < most
                && let Some(row) = rows.next()?
            {
                let (key, body) = (row.get(0)?, row.get_ref(1)?.as_blob()?);
                bytes += body.len();
                match self.batch(pk, key, body, row.get(2)?, &mut last) {
                    Ok(batch) => batches.push(batch),
                    Err(why) => return Ok(Err(why)),
                }
            }
            Ok(Ok((batches, bytes)))
        });
        let (mut batches, bytes) = match read {
            Ok(Ok(read)) => read,
            Ok(Err(why)) => return Err(self.damaged(pk, &why)),
            Err(StoreError::Corrupt(why)) => return Err(self.damaged(pk, &why)),
            Err(error) => return Err(error),
        };
        if let Some(first) = batches.first_mut() {
            first.records.retain(|record| record.seq > after);
        }
        batches.retain(|batch| !batch.records.is_empty());
        Ok((batches, bytes))
    }

    /// Reads one row of a log, of which `last` is the last record read before. Returns what is wrong with it, if anything.
    fn batch(
        &self,
        pk: TaskPk,
        key: i64,
        body: &[u8],
        sum: Option<u32>,
        last: &mut Option<u64>,
    ) -> Result<RecordBatch, String> {
        let end = key as u64 & MAX_SEQ;
        if !sum::is_whole(pk, sum, || sum::log(key, body), self.summed_from) {
            return Err(format!("the records up to {end} are not as they were written"));
        }
        let batch = RecordBatch::decode(body).map_err(|e| format!("the records up to {end} cannot be read: {e}"))?;
        for record in &batch.records {
            if last.is_some_and(|last| record.seq != last + 1) || record.event.is_none() {
                return Err(format!("record {} does not follow those before it", record.seq));
            }
            *last = Some(record.seq);
        }
        match last {
            Some(last) if *last == end => Ok(batch),
            _ => Err(format!("the records up to {end} are incomplete")),
        }
    }

    pub(super) fn list(&self, query: &ListQuery) -> Result<Vec<TaskRow>, StoreError> {
        let (sql, values) = query::list(query);
        self.with(|conn| conn.prepare_cached(&sql)?.query_map(params_from_iter(values), |row| self.row(row))?.collect())
    }

    pub(super) fn total(&self, query: &ListQuery) -> Result<u64, StoreError> {
        let (sql, values) = query::total(query);
        self.with(|conn| {
            conn.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| Ok(row.get::<_, i64>(0)? as u64))
        })
    }

    /// Tasks under way that another epoch wrote last: the lock on the file says that those have ended.
    pub(super) fn orphans(&self, after: TaskPk, limit: u32) -> Result<Vec<TaskRow>, StoreError> {
        let sql = select(
            "task_by_life",
            "WHERE (t.live = 1 OR t.state IN (1, 2)) AND t.pk > ?1 AND t.epoch <> ?2 ORDER BY t.pk LIMIT ?3",
        );
        self.with(|conn| {
            conn.prepare_cached(&sql)?.query_map((after, self.epoch as i64, limit), |row| self.row(row))?.collect()
        })
    }

    /// Ended tasks that ended before a time, at most a step of the upkeep, in the order of their numbers after the one given.
    pub(super) fn ended(&self, after: TaskPk, before_us: i64) -> Result<Vec<TaskPk>, StoreError> {
        self.with(|conn| {
            let mut statement = conn
                .prepare_cached("SELECT pk, created_us, state, status_us, live FROM task WHERE pk > ?1 ORDER BY pk")?;
            let mut rows = statement.query([after])?;
            let (mut found, now_us) = (Vec::new(), now_us());
            while let Some(row) = rows.next()? {
                // Numbers follow the order of creation: from here on all are young. Unless the clock was wrong then.
                let young = (before_us..=now_us).contains(&row.get(1)?);
                if found.len() >= PRUNE_STEP as usize || young {
                    break;
                }
                if is_terminal(state(row.get(2)?)) && row.get::<_, i64>(3)? < before_us && !row.get::<_, bool>(4)? {
                    found.push(row.get(0)?);
                }
            }
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection;
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    fn statements_are_prepared_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        std::fs::File::create(&path).unwrap();
        let _opened = connection::open(&path, false).unwrap();
        let reads = Reads::new(path, 1, 1);
        let query = |owner: String| ListQuery {
            agent: "support".into(),
            owner: owner.into(),
            context: None,
            state: None,
            after_us: None,
            limit: 50,
            cursor: None,
        };
        for n in 0..10 {
            reads.find(Uuid::now_v7()).unwrap();
            reads.list(&query(n.to_string())).unwrap();
        }
        let pool = lock(&reads.pool);
        for sql in [query::list(&query("ann".into())).0, select("sqlite_autoindex_task_1", "WHERE t.id = ?1")] {
            let statement = pool[0].prepare_cached(&sql).unwrap();
            assert_eq!(statement.get_status(StatementStatus::Run), 10, "{sql}");
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }
}
