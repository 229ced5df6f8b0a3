//! Checks the consistency of a store's file.

use super::super::append::SEQ_BITS;
use super::super::report::CheckReport;
use super::super::{MAX_SEQ, OpenError};
use super::TaskPk;
use super::connection::open_error;
use super::operate::existing;
use crate::schema::store::record::Event;
use crate::schema::store::{Checkpoint, RecordBatch};
use prost::Message;
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// Runs SQLite's integrity check, then checks that logs have no gaps and that rows and counters agree with them.
pub(super) fn check(path: &Path) -> Result<CheckReport, OpenError> {
    let (path, conn) = existing(path)?;
    let mut report = CheckReport::default();
    let checked = (|| {
        // A single snapshot, however long the check takes.
        conn.execute_batch("BEGIN")?;
        conn.prepare("PRAGMA integrity_check")?
            .query_map([], |row| row.get::<_, String>(0))?
            .filter(|line| line.as_ref().map_or(true, |line| line != "ok"))
            .try_for_each(|line| line.map(|line| report.problem(line)))?;
        check_counters(&conn, &mut report)?;
        check_logs(&conn, &mut report)
    })();
    checked.map_err(|e| open_error(&path, &e))?;
    Ok(report)
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
    let orphans: i64 =
        conn.query_row("SELECT count(*) FROM task WHERE scope NOT IN (SELECT pk FROM scope)", [], |row| row.get(0))?;
    if orphans > 0 {
        report.problem(format!("{orphans} tasks belong to no agent and owner"));
    }
    Ok(())
}

fn check_logs(conn: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut without_task = conn.prepare(
        "SELECT DISTINCT k >> ?1 FROM log WHERE k >> ?1 NOT IN (SELECT pk FROM task)
         UNION SELECT pk FROM checkpoint WHERE pk NOT IN (SELECT pk FROM task) AND ?1 = ?1",
    )?;
    for pk in without_task.query_map([SEQ_BITS], |row| row.get::<_, TaskPk>(0))? {
        report.problem(format!("task {}: there are records or a checkpoint, but no task", pk?));
    }
    let mut tasks = conn.prepare("SELECT pk, state FROM task ORDER BY pk")?;
    let mut rows = tasks.query([])?;
    while let Some(row) = rows.next()? {
        report.tasks += 1;
        let pk = row.get(0)?;
        if let Some(problem) = check_log(conn, pk, row.get(1)?, &mut report.records)? {
            report.problem(format!("task {pk}: {problem}"));
        }
    }
    Ok(())
}

/// Checks the log of one task. Returns the first problem.
fn check_log(conn: &Connection, pk: TaskPk, state: i32, records: &mut u64) -> rusqlite::Result<Option<String>> {
    let checkpoint = conn
        .prepare_cached("SELECT seq, body FROM checkpoint WHERE pk = ?1")?
        .query_row([pk], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    let (mut covered, mut last_state) = (0, None);
    if let Some((seq, body)) = checkpoint {
        match Checkpoint::decode(&*body) {
            Ok(fold) if fold.seq == seq => {
                covered = seq;
                last_state = fold.task.and_then(|task| task.status).map(|status| status.state);
            }
            Ok(fold) => return Ok(Some(format!("the checkpoint of record {seq} contains record number {}", fold.seq))),
            Err(error) => return Ok(Some(format!("the checkpoint cannot be read: {error}"))),
        }
    }
    let mut statement =
        conn.prepare_cached("SELECT k, body FROM log WHERE k > ?1 << ?2 AND k < (?1 + 1) << ?2 ORDER BY k")?;
    let mut rows = statement.query((pk, SEQ_BITS))?;
    let (mut last, mut last_us) = (None::<u64>, i64::MIN);
    while let Some(row) = rows.next()? {
        let batch = match RecordBatch::decode(row.get_ref(1)?.as_blob()?) {
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
                return Ok(Some(format!("record {} is older than the one before it", record.seq)));
            }
            (last, last_us) = (Some(record.seq), record.time_us);
            if let Some(Event::Status(status)) = record.event
                && record.seq > covered
            {
                last_state = Some(status.state);
            }
        }
        let key = row.get::<_, i64>(0)? as u64 & MAX_SEQ;
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
