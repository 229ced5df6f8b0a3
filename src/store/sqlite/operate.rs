//! What an operator does with a store's file: check it, copy it, look at its numbers, say that it was restored.
//!
//! All but [`restored`] work beside a running server.

use super::super::location::{StoreLocation, io, resolve};
use super::super::{OpenError, SEQ_BITS, StoreUrl, TaskPk};
use super::{open_error, reader, version, writer};
use crate::schema::TaskState;
use crate::schema::store::record::Event;
use crate::schema::store::{Checkpoint, RecordBatch};
use prost::Message;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Problems named in a report. Beyond that they are only counted.
const NAMED: usize = 100;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Tasks looked at.
    pub tasks: u64,
    /// Records looked at.
    pub records: u64,
    /// What is wrong, the first hundred in words.
    pub problems: Vec<String>,
    /// How many things are wrong.
    pub problem_count: u64,
}

impl CheckReport {
    /// Nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < NAMED {
            self.problems.push(text);
        }
    }
}

/// A store's numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many tasks are in each state.
    pub tasks: BTreeMap<TaskState, u64>,
    /// Bytes of the database.
    pub file_bytes: u64,
    /// Bytes of the write-ahead log.
    pub wal_bytes: u64,
    /// Bytes of the database that deleted rows left and new ones will use.
    pub free_bytes: u64,
    /// Changed when a backup was restored.
    pub generation: u32,
    /// How often it was opened.
    pub epoch: u64,
}

/// Looks at everything: SQLite's own check, logs without gaps, rows and counters that agree with the logs.
///
/// # Errors
///
/// [`OpenError`] if the file cannot be read at all.
pub fn check(url: &StoreUrl) -> Result<CheckReport, OpenError> {
    let (path, conn) = existing(url)?;
    let mut report = CheckReport::default();
    let checked = (|| {
        // One moment of the store, however long it takes.
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

/// Copies the store as it is at one moment to a new file. A server that runs goes on; its write-ahead log grows meanwhile.
///
/// # Errors
///
/// [`OpenError`] if the store cannot be read or the copy not be written, or something is there already.
pub fn backup(url: &StoreUrl, to: &Path) -> Result<(), OpenError> {
    let (path, conn) = existing(url)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(|e| io(to, e))?;
    let copied = match to.to_str() {
        Some(name) => conn.execute("VACUUM INTO ?1", [name]).map_err(|e| open_error(&path, &e)),
        None => Err(OpenError::Other { path: to.into(), why: "the name is not UTF-8".into() }),
    };
    let copied = copied.and_then(|_| file.sync_all().map_err(|e| io(to, e)));
    if copied.is_err() {
        // Half a copy is worse than none.
        let _ = std::fs::remove_file(to);
    }
    copied
}

/// The store's numbers.
///
/// # Errors
///
/// [`OpenError`] if the file cannot be read.
pub fn stats(url: &StoreUrl) -> Result<Stats, OpenError> {
    let (path, conn) = existing(url)?;
    let mut wal = path.clone().into_os_string();
    wal.push("-wal");
    let size = |path: &Path| path.metadata().map_or(0, |m| m.len());
    let mut stats = Stats { file_bytes: size(&path), wal_bytes: size(Path::new(&wal)), ..Stats::default() };
    let read = (|| {
        let number = |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        stats.free_bytes = (number("freelist_count")? * number("page_size")?) as u64;
        (stats.generation, stats.epoch) = conn.query_row("SELECT generation, epoch FROM meta", [], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))
        })?;
        let mut counters = conn.prepare("SELECT state, sum(n) FROM counter GROUP BY state HAVING sum(n) > 0")?;
        let mut rows = counters.query([])?;
        while let Some(row) = rows.next()? {
            let state = TaskState::try_from(row.get::<_, i32>(0)?).unwrap_or(TaskState::Unspecified);
            stats.tasks.insert(state, row.get::<_, i64>(1)? as u64);
        }
        Ok(())
    })();
    read.map_err(|e| open_error(&path, &e))?;
    Ok(stats)
}

/// Says that the file was put back from a backup, so that clients' event ids of the lost time are not taken for new
/// ones. Returns the new generation.
///
/// # Errors
///
/// [`OpenError`], among others while a server has the store open.
pub fn restored(url: &StoreUrl) -> Result<u32, OpenError> {
    drop(existing(url)?);
    let place = StoreLocation::take(url)?;
    let say = |e| open_error(&place.path, &e);
    let conn = writer(&place.path, true).map_err(say)?;
    conn.query_row("UPDATE meta SET generation = generation + 1 RETURNING generation", [], |row| row.get(0))
        .map_err(say)
}

/// Opens a store for reading only. It has to be there, and of this version.
fn existing(url: &StoreUrl) -> Result<(PathBuf, Connection), OpenError> {
    let StoreUrl::Sqlite(path) = url else { return Err(OpenError::Address(url.to_string())) };
    let path = resolve(path)?;
    let other = |why: &str| OpenError::Other { path: path.clone(), why: why.into() };
    match path.metadata() {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(other("no such store")),
        Err(e) => return Err(io(&path, e)),
    }
    let conn = reader(&path).map_err(|e| open_error(&path, &e))?;
    match version(&conn, &path)? {
        v if v as usize == super::MIGRATIONS.len() => Ok((path, conn)),
        0 => Err(other("an empty file, not a store")),
        _ => Err(other("of an older version: start the server once to bring it up to date")),
    }
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
        report.problem(format!("scope {scope}, state {state}: counted {n}, but there are {tasks}"));
    }
    let homeless: i64 =
        conn.query_row("SELECT count(*) FROM task WHERE scope NOT IN (SELECT pk FROM scope)", [], |row| row.get(0))?;
    if homeless > 0 {
        report.problem(format!("{homeless} tasks belong to no agent and owner"));
    }
    Ok(())
}

fn check_logs(conn: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut lost = conn.prepare(
        "SELECT DISTINCT k >> ?1 FROM log WHERE k >> ?1 NOT IN (SELECT pk FROM task)
         UNION SELECT pk FROM checkpoint WHERE pk NOT IN (SELECT pk FROM task) AND ?1 = ?1",
    )?;
    for pk in lost.query_map([SEQ_BITS], |row| row.get::<_, TaskPk>(0))? {
        report.problem(format!("task {}: records or a checkpoint, but no task", pk?));
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

/// Reads one task's log as a fold would. Returns the first thing that is wrong with it.
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
            Ok(fold) => return Ok(Some(format!("a checkpoint of {seq} that says it is of {}", fold.seq))),
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
                return Ok(Some(format!("record {} is older than the one before", record.seq)));
            }
            (last, last_us) = (Some(record.seq), record.time_us);
            if let Some(Event::Status(status)) = record.event
                && record.seq > covered
            {
                last_state = Some(status.state);
            }
        }
        let key = row.get::<_, i64>(0)? as u64 & super::super::MAX_SEQ;
        if last != Some(key) {
            return Ok(Some(format!("a row of {key} ends with record {last:?}")));
        }
    }
    Ok(match last_state {
        _ if last.is_none() && covered == 0 => Some("no record and no checkpoint".into()),
        Some(folded) if folded != state => Some(format!("the row says state {state}, the log {folded}")),
        _ => None,
    })
}
