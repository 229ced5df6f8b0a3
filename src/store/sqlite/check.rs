//! The check of a store's file: everything in it against everything else.

use super::super::append::SEQ_BITS;
use super::super::report::CheckReport;
use super::super::{MAX_SEQ, OpenError};
use super::connection::open_error;
use super::operate::existing;
use super::sum::{self, TaskColumns};
use super::wal::{self, Wal};
use super::{TaskPk, log_key};
use crate::schema::store::record::Event;
use crate::schema::store::{Checkpoint, RecordBatch};
use prost::Message;
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use std::path::Path;
use uuid::Uuid;

/// Checks everything: the write-ahead log, SQLite's own check, checksums, logs without gaps, rows and counters that agree
/// with the logs.
pub(super) fn check(path: &Path) -> Result<CheckReport, OpenError> {
    let mut report = CheckReport::default();
    let (path, conn) = existing(path)?;
    // A server that runs writes to it meanwhile, so that its end need not be whole.
    if let Ok(Wal::Damaged(offset)) = wal::scan(&path) {
        report.problem(format!("the write-ahead log is damaged at byte {offset}: what was committed after it is lost"));
    }
    check_connection(&conn, &mut report).map_err(|e| open_error(&path, &e))?;
    Ok(report)
}

/// Checks everything that a connection sees.
///
/// # Errors
/// When the check cannot go on. Damage is no error, but a problem of the report.
pub(super) fn check_connection(conn: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    // One moment of the store, however long it takes.
    conn.execute_batch("BEGIN")?;
    for part in [check_structure, check_counters, check_logs] {
        match part(conn, report) {
            Err(error) if is_damage(&error) => report.problem(error.to_string()),
            done => done?,
        }
    }
    Ok(())
}

fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase),
        None => super::connection::is_conversion(error),
    }
}

fn check_structure(conn: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    conn.prepare("PRAGMA integrity_check")?
        .query_map([], |row| row.get::<_, String>(0))?
        .filter(|line| line.as_ref().map_or(true, |line| line != "ok"))
        .try_for_each(|line| line.map(|line| report.problem(line)))
}

fn check_counters(conn: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(
        "SELECT scope, state, sum(n), sum(rows) FROM (
           SELECT scope, state, n, 0 AS rows FROM counter
           UNION ALL SELECT scope, state, 0, count(*) FROM task GROUP BY scope, state
         ) GROUP BY scope, state HAVING sum(n) <> sum(rows)",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (scope, state, n, tasks): (i64, i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        report.problem(format!("scope {scope}, state {state}: the counter is {n}, the number of tasks {tasks}"));
    }
    let homeless: i64 =
        conn.query_row("SELECT count(*) FROM task WHERE scope NOT IN (SELECT pk FROM scope)", [], |row| row.get(0))?;
    if homeless > 0 {
        report.problem(format!("{homeless} tasks belong to no agent and owner"));
    }
    let mut scopes = conn.prepare("SELECT pk, agent, owner, sum FROM scope WHERE sum IS NOT NULL")?;
    let mut rows = scopes.query([])?;
    while let Some(row) = rows.next()? {
        let (pk, agent, owner): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if row.get::<_, u32>(3)? != sum::scope(pk, &agent, &owner) {
            report.problem(format!("scope {pk}: agent or owner is not as it was written"));
        }
    }
    Ok(())
}

fn check_logs(conn: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut lost = conn.prepare(
        "SELECT DISTINCT k >> ?1 FROM log WHERE k >> ?1 NOT IN (SELECT pk FROM task)
         UNION SELECT pk FROM checkpoint WHERE pk NOT IN (SELECT pk FROM task) AND ?1 = ?1",
    )?;
    for pk in lost.query_map([SEQ_BITS], |row| row.get::<_, TaskPk>(0))? {
        report.problem(format!("task number {}: there are records or a checkpoint, but no task", pk?));
    }
    let summed_from = summed_from(conn);
    let mut tasks = conn.prepare("SELECT pk FROM task ORDER BY pk")?;
    let mut rows = tasks.query([])?;
    while let Some(row) = rows.next()? {
        report.tasks += 1;
        let pk = row.get(0)?;
        match check_task(conn, pk, summed_from) {
            Ok(Checked::Whole { records }) => report.records += records,
            Ok(Checked::Damaged(why)) => report.problem(format!("task {}: {why}", name(conn, pk))),
            Ok(Checked::Missing) => report.problem(format!("task number {pk}: its row cannot be found")),
            Err(error) if is_damage(&error) => report.problem(format!("task {}: {error}", name(conn, pk))),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn name(conn: &Connection, pk: TaskPk) -> String {
    let id = conn.query_row("SELECT id FROM task WHERE pk = ?1", [pk], |row| row.get(0));
    id.map_or_else(|_| format!("number {pk}"), |id| Uuid::from_bytes(id).to_string())
}

/// The first task all of whose rows have a checksum.
pub(super) fn summed_from(conn: &Connection) -> TaskPk {
    conn.query_row("SELECT summed_from FROM meta", [], |row| row.get(0)).unwrap_or(1)
}

/// What a look at one task found.
pub(super) enum Checked {
    /// Everything is as it was written.
    Whole {
        /// How many records there are.
        records: u64,
    },
    /// The first thing that is wrong with it.
    Damaged(String),
    /// There is no such task.
    Missing,
}

/// Looks at one task's row, log and checkpoint.
pub(super) fn check_task(conn: &Connection, pk: TaskPk, summed_from: TaskPk) -> rusqlite::Result<Checked> {
    let mut statement = conn.prepare_cached(&format!("SELECT {} FROM task t WHERE pk = ?1", TaskColumns::NAMES))?;
    let row = statement
        .query_row([pk], |row| {
            let (columns, sum) = TaskColumns::read(row)?;
            Ok((columns.state, sum::is_whole(pk, sum, || columns.sum(), summed_from)))
        })
        .optional()?;
    match row {
        None => Ok(Checked::Missing),
        Some((_, false)) => Ok(Checked::Damaged("its row is not as it was written".into())),
        Some((state, true)) => {
            let mut records = 0;
            let problem = check_log(conn, pk, state, summed_from, &mut records)?;
            Ok(problem.map_or(Checked::Whole { records }, Checked::Damaged))
        }
    }
}

/// Reads one task's log as a fold would. Returns the first thing that is wrong with it.
fn check_log(
    conn: &Connection,
    pk: TaskPk,
    state: i32,
    summed_from: TaskPk,
    records: &mut u64,
) -> rusqlite::Result<Option<String>> {
    let checkpoint = conn
        .prepare_cached("SELECT seq, body, sum FROM checkpoint WHERE pk = ?1")?
        .query_row([pk], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, Vec<u8>>(1)?, row.get(2)?)))
        .optional()?;
    let (mut covered, mut last_state) = (0, None);
    if let Some((seq, body, sum)) = checkpoint {
        if !sum::is_whole(pk, sum, || sum::checkpoint(pk, seq, &body), summed_from) {
            return Ok(Some("its checkpoint is not as it was written".into()));
        }
        match Checkpoint::decode(&*body) {
            Ok(fold) if fold.seq == seq => {
                covered = seq;
                last_state = fold.task.and_then(|task| task.status).map(|status| status.state);
            }
            Ok(fold) => return Ok(Some(format!("the checkpoint of record {seq} contains record number {}", fold.seq))),
            Err(error) => return Ok(Some(format!("the checkpoint cannot be read: {error}"))),
        }
    }
    let mut statement = conn.prepare_cached("SELECT k, body, sum FROM log WHERE k BETWEEN ?1 AND ?2 ORDER BY k")?;
    let mut rows = statement.query((log_key(pk, 0), log_key(pk, MAX_SEQ)))?;
    let (mut last, mut last_us) = (None::<u64>, i64::MIN);
    while let Some(row) = rows.next()? {
        let (k, body) = (row.get(0)?, row.get_ref(1)?.as_blob()?);
        let key = k as u64 & MAX_SEQ;
        if !sum::is_whole(pk, row.get(2)?, || sum::log(k, body), summed_from) {
            return Ok(Some(format!("the records up to {key} are not as they were written")));
        }
        let batch = match RecordBatch::decode(body) {
            Ok(batch) => batch,
            Err(error) => return Ok(Some(format!("records cannot be read: {error}"))),
        };
        for record in batch.records {
            *records += 1;
            let follows = match last {
                Some(last) => record.seq == last + 1,
                None => record.seq == 1 || (covered > 0 && record.seq <= covered + 1),
            };
            if !follows {
                return Ok(Some(format!("record {} follows {}", record.seq, last.unwrap_or(covered))));
            }
            if record.time_us < last_us {
                return Ok(Some(format!("record {} is older than the one before", record.seq)));
            }
            (last, last_us) = (Some(record.seq), record.time_us);
            if let Some(Event::Status(status)) = record.event
                && record.seq > covered
            {
                last_state = Some(status.state);
            }
        }
        if last != Some(key) {
            return Ok(Some(format!("the row for record {key} ends with record {last:?}")));
        }
    }
    Ok(match last_state {
        _ if last.is_none() && covered == 0 => Some("there is neither a record nor a checkpoint".into()),
        Some(folded) if folded != state => {
            Some(format!("the task has state {state}, but its log ends in state {folded}"))
        }
        _ => None,
    })
}
