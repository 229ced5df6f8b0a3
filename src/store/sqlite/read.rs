//! Reading: a few connections that never wait for the writer, and every question as one statement.

use super::super::writer::lock;
use super::super::{Index, ListQuery, MAX_SEQ, PRUNE_STEP, StoreError, TaskHandle, TaskPk, TaskRow};
use super::write::context_key;
use super::{log_key, reader, store_error};
use crate::clock::now_us;
use crate::schema::TaskState;
use crate::schema::store::{Checkpoint, RecordBatch};
use crate::task::lifecycle::is_terminal;
use prost::Message;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// Idle connections kept. More are opened while more threads read at once.
const POOL: usize = 8;

/// The columns of a [`TaskRow`], in the order in which `task_row` reads them.
const COLUMNS: &str = "t.pk, t.id, s.agent, s.owner, t.context_key, t.context, t.state, t.status_us, t.created_us, \
                       t.live, t.epoch";

pub(crate) struct Reads {
    path: PathBuf,
    pool: Mutex<Vec<Connection>>,
    gate: Arc<Mutex<()>>,
    epoch: u64,
}

impl Reads {
    pub(super) fn new(path: PathBuf, gate: Arc<Mutex<()>>, epoch: u64) -> Self {
        Reads { path, pool: Mutex::default(), gate, epoch }
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
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
}

impl Index for Reads {
    fn find(&self, agent: &str, owner: &str, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        Ok(self.find_any(id)?.filter(|row| *row.agent == *agent && *row.owner == *owner))
    }

    fn find_any(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        let sql = select("sqlite_autoindex_task_1", "WHERE t.id = ?1");
        self.with(|conn| conn.prepare_cached(&sql)?.query_row([id.as_bytes()], task_row).optional())
    }

    fn checkpoint(&self, pk: TaskPk) -> Result<Option<Checkpoint>, StoreError> {
        let body = self.with(|conn| {
            conn.prepare_cached("SELECT body FROM checkpoint WHERE pk = ?1")?
                .query_row([pk], |row| row.get::<_, Vec<u8>>(0))
                .optional()
        })?;
        body.map(|body| decode(pk, &body)).transpose()
    }

    fn covered(&self, pk: TaskPk) -> Result<Option<u64>, StoreError> {
        self.with(|conn| {
            conn.prepare_cached("SELECT seq FROM checkpoint WHERE pk = ?1")?
                .query_row([pk], |row| Ok(row.get::<_, i64>(0)? as u64))
                .optional()
        })
    }

    fn batches(&self, pk: TaskPk, after: u64, most: usize) -> Result<Vec<RecordBatch>, StoreError> {
        let mut batches = self.with(|conn| {
            let mut statement = conn.prepare_cached("SELECT body FROM log WHERE k BETWEEN ?1 AND ?2 ORDER BY k")?;
            let from = log_key(pk, after.saturating_add(1).min(MAX_SEQ));
            let mut rows = statement.query((from, log_key(pk, MAX_SEQ)))?;
            let (mut batches, mut bytes) = (Vec::new(), 0);
            while bytes < most
                && let Some(row) = rows.next()?
            {
                let body = row.get_ref(0)?.as_blob()?;
                bytes += body.len();
                batches.push(decode::<RecordBatch>(pk, body));
            }
            Ok(batches)
        })?;
        let mut batches = batches.drain(..).collect::<Result<Vec<_>, _>>()?;
        if let Some(first) = batches.first_mut() {
            first.records.retain(|record| record.seq > after);
        }
        batches.retain(|batch| !batch.records.is_empty());
        Ok(batches)
    }

    fn list(&self, query: &ListQuery) -> Result<Vec<TaskRow>, StoreError> {
        let (sql, values) = list(query);
        self.with(|conn| conn.prepare_cached(&sql)?.query_map(params_from_iter(values), task_row)?.collect())
    }

    fn tidy(&self) -> Result<(), StoreError> {
        lock(&self.pool).clear();
        // The last connection to close takes the write-ahead log away, if it may write.
        self.checkpoint_wal()
    }

    #[cfg(test)]
    fn list_plan(&self, query: &ListQuery) -> Result<String, StoreError> {
        let (sql, values) = list(query);
        self.with(|conn| {
            conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?
                .query_map(params_from_iter(values), |row| row.get::<_, String>(3))?
                .collect()
        })
    }

    fn total(&self, query: &ListQuery) -> Result<u64, StoreError> {
        let (sql, values) = if query.context.is_none() && query.after_us.is_none() {
            let mut sql = "SELECT coalesce(sum(n), 0) FROM counter WHERE scope = \
                           (SELECT pk FROM scope WHERE agent = ? AND owner = ?)"
                .to_owned();
            let mut values = vec![Value::from(query.agent.to_string()), Value::from(query.owner.to_string())];
            if let Some(state) = query.state {
                sql.push_str(" AND state = ?");
                values.push(i64::from(state as i32).into());
            }
            (sql, values)
        } else {
            let (index, filter, values) = filter(query);
            (format!("SELECT count(*) FROM task t INDEXED BY {index} {filter}"), values)
        };
        self.with(|conn| {
            conn.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| Ok(row.get::<_, i64>(0)? as u64))
        })
    }

    fn orphans(&self, after: TaskPk, limit: u32) -> Result<Vec<TaskRow>, StoreError> {
        let sql = select(
            "task_by_life",
            "WHERE (t.live = 1 OR t.state IN (1, 2)) AND t.pk > ?1 AND t.epoch <> ?2 ORDER BY t.pk LIMIT ?3",
        );
        self.with(|conn| conn.prepare_cached(&sql)?.query_map((after, self.epoch as i64, limit), task_row)?.collect())
    }

    fn finished(&self, after: TaskPk, before_us: i64) -> Result<Vec<TaskPk>, StoreError> {
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

    fn checkpoint_wal(&self) -> Result<(), StoreError> {
        let conn = super::writer(&self.path, true).map_err(|e| store_error(&e))?;
        // Copies what is there, beside the writer.
        passive(&conn)?;
        // What came meanwhile is little. With the writer held for that moment the log is empty after it, and the next
        // transaction starts it over; otherwise a busy writer would stay ahead for ever and the log would only grow.
        let _held = lock(&self.gate);
        passive(&conn)
    }
}

fn passive(conn: &Connection) -> Result<(), StoreError> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(|e| store_error(&e))
}

/// `SELECT` of task rows. The index is named, as SQLite without statistics guesses, and sorts a whole scope where it
/// guesses wrong.
fn select(index: &str, filter: &str) -> String {
    format!("SELECT {COLUMNS} FROM task t INDEXED BY {index} JOIN scope s ON s.pk = t.scope {filter}")
}

/// A page of a query, as a statement and its values.
fn list(query: &ListQuery) -> (String, Vec<Value>) {
    let (index, filter, mut values) = filter(query);
    let mut sql = select(index, &filter);
    if let Some((status_us, id)) = query.cursor {
        sql.push_str(" AND (t.status_us, t.id) < (?, ?)");
        values.extend([Value::from(status_us), Value::from(id.as_bytes().to_vec())]);
    }
    sql.push_str(" ORDER BY t.status_us DESC, t.id DESC LIMIT ?");
    values.push(i64::from(query.limit).into());
    (sql, values)
}

/// The index and the `WHERE` of a query without its cursor.
fn filter(query: &ListQuery) -> (&'static str, String, Vec<Value>) {
    let index = match (&query.context, query.state) {
        (Some(_), _) => "task_by_context",
        (None, Some(_)) => "task_by_state",
        (None, None) => "task_by_time",
    };
    let mut sql = "WHERE t.scope = (SELECT pk FROM scope WHERE agent = ? AND owner = ?)".to_owned();
    let mut values = vec![Value::from(query.agent.to_string()), Value::from(query.owner.to_string())];
    if let Some(context) = &query.context {
        let (key, text) = context_key(context);
        sql.push_str(" AND t.context_key = ? AND t.context IS ?");
        values.extend([Value::from(key.to_vec()), text.map_or(Value::Null, |t| t.to_owned().into())]);
    }
    if let Some(state) = query.state {
        sql.push_str(" AND t.state = ?");
        values.push(i64::from(state as i32).into());
    }
    if let Some(after_us) = query.after_us {
        sql.push_str(" AND t.status_us >= ?");
        values.push(after_us.into());
    }
    (index, sql, values)
}

fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    let key = Uuid::from_bytes(row.get(4)?);
    let context = match row.get_ref(5)?.as_str_or_null()? {
        Some(text) => text.into(),
        None => key.hyphenated().to_string().into(),
    };
    Ok(TaskRow {
        task: TaskHandle(row.get(0)?),
        id: Uuid::from_bytes(row.get(1)?),
        agent: row.get(2)?,
        owner: row.get(3)?,
        context,
        state: state(row.get(6)?),
        status_us: row.get(7)?,
        created_us: row.get(8)?,
        live: row.get(9)?,
        epoch: row.get::<_, i64>(10)? as u64,
    })
}

fn state(number: i32) -> TaskState {
    TaskState::try_from(number).unwrap_or(TaskState::Unspecified)
}

fn decode<M: Message + Default>(pk: TaskPk, body: &[u8]) -> Result<M, StoreError> {
    M::decode(body).map_err(|e| StoreError::Corrupt(format!("task {pk}: {e}").into()))
}

#[cfg(test)]
mod tests {
    use super::super::super::StoreUrl;
    use super::super::super::location::StoreLocation;
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    fn statements_are_prepared_once() {
        let place = StoreLocation::take(&StoreUrl::Memory).unwrap();
        let reads = super::super::open(&place).unwrap().index;
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
            reads.find_any(Uuid::now_v7()).unwrap();
            reads.list(&query(n.to_string())).unwrap();
        }
        let pool = lock(&reads.pool);
        for sql in [list(&query("ann".into())).0, select("sqlite_autoindex_task_1", "WHERE t.id = ?1")] {
            let statement = pool[0].prepare_cached(&sql).unwrap();
            assert_eq!(statement.get_status(StatementStatus::Run), 10, "{sql}");
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }
}
