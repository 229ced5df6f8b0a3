//! Repair: copies what is whole of a damaged store into a new file.

use super::super::report::RepairReport;
use super::super::{KEEP_TAIL, OpenError};
use super::check::{Checked, check_task, summed_from};
use super::connection::{self, open_error};
use super::location::{StoreLocation, io};
use super::operate::existing;
use super::{TaskPk, log_key, sum};
use crate::store::MAX_SEQ;
use crate::task::lifecycle::is_terminal;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use std::path::Path;
use uuid::Uuid;

/// Tasks copied in one transaction.
const STEP: u32 = 1000;

/// Copies every task that is whole into a new store at `to`, of a new generation.
pub(super) fn repair(path: &Path, to: &Path) -> Result<RepairReport, OpenError> {
    let (path, from) = existing(path)?;
    if to.exists() {
        return Err(OpenError::Other { path: to.into(), why: "the file exists: name a new one".into() });
    }
    let location = StoreLocation::of_file(to)?;
    let opened = connection::open(&location.path, true)?;
    let mut report = RepairReport::default();
    let copied = Repair { from: &from, to: &opened.conn, summed_from: summed_from(&from) }.copy(&mut report);
    drop(opened);
    match copied {
        // The copy must be one file, which can be moved.
        Ok(()) => finish(&location.path).map(|()| report),
        Err(error) => {
            let error = open_error(&path, &error);
            std::fs::remove_file(&location.path).map_err(|e| io(&location.path, e))?;
            Err(error)
        }
    }
}

fn finish(path: &Path) -> Result<(), OpenError> {
    let say = |e| open_error(path, &e);
    let conn = connection::writer(path, true).map_err(say)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(say)
}

struct Repair<'a> {
    from: &'a Connection,
    to: &'a Connection,
    summed_from: TaskPk,
}

impl Repair<'_> {
    fn copy(&self, report: &mut RepairReport) -> rusqlite::Result<()> {
        self.copy_meta()?;
        let scopes = self
            .copy_rows("SELECT pk, agent, owner, sum FROM scope", "INSERT OR IGNORE INTO scope VALUES (?, ?, ?, ?)")?;
        tracing::debug!(scopes, "copied agents and owners");
        let last = self.last_task();
        self.to.execute_batch("BEGIN")?;
        for pk in 1..=last {
            match check_task(self.from, pk, self.summed_from) {
                // Deleted long ago, or never made.
                Ok(Checked::Missing) => {}
                Ok(Checked::Whole { .. }) if !self.has_owner(pk)? => {
                    report.lost(format!("task {}: its owner is lost", self.name(pk)));
                }
                Ok(Checked::Whole { records }) => {
                    self.copy_task(pk)?;
                    report.tasks += 1;
                    report.records += records;
                }
                Ok(Checked::Damaged(why)) => report.lost(format!("task {}: {why}", self.name(pk))),
                Err(error) => report.lost(format!("task {}: {error}", self.name(pk))),
            }
            if pk % TaskPk::from(STEP) == 0 {
                self.to.execute_batch("COMMIT; BEGIN")?;
            }
        }
        self.to.execute_batch(
            "INSERT INTO counter SELECT scope, state, count(*) FROM task GROUP BY scope, state;
             COMMIT",
        )?;
        // Keys whose claims are lost are free again, which is what a client expects of a key that is a day old.
        self.copy_rows(
            "SELECT scope, key, hash, task, state, message, created_us, epoch FROM claim",
            "INSERT OR IGNORE INTO claim VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        Ok(())
    }

    /// Keeps the secret, so that page tokens stay good, and begins a new generation: events may be missing.
    fn copy_meta(&self) -> rusqlite::Result<()> {
        let meta = self
            .from
            .query_row("SELECT generation, epoch, token_key FROM meta", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
            })
            .ok();
        if let Some((generation, epoch, key)) = meta {
            self.to.execute(
                "UPDATE meta SET generation = ?1, epoch = ?2, token_key = ?3",
                (generation.wrapping_add(1) & 0x7fff_ffff, epoch + 1, key),
            )?;
        }
        self.to.execute("UPDATE meta SET summed_from = ?1", [self.summed_from])?;
        Ok(())
    }

    /// Copies rows as far as they can be read. Returns how many.
    fn copy_rows(&self, select: &str, insert: &str) -> rusqlite::Result<u64> {
        let (mut count, mut statement) = (0, self.to.prepare(insert)?);
        let Ok(mut rows) = self.from.prepare(select) else { return Ok(0) };
        let columns = rows.column_count();
        let Ok(mut rows) = rows.query([]) else { return Ok(0) };
        self.to.execute_batch("BEGIN")?;
        while let Ok(Some(row)) = rows.next() {
            if let Ok(values) = values(row, columns) {
                // A row that breaks a rule of the schema is damaged.
                count += u64::from(statement.execute(params_from_iter(values)).is_ok());
            }
        }
        self.to.execute_batch("COMMIT")?;
        Ok(count)
    }

    /// The highest number that a task has or had, by whatever can be read.
    fn last_task(&self) -> TaskPk {
        let questions = [
            "SELECT max(pk) FROM task",
            "SELECT max(k) >> 20 FROM log",
            "SELECT max(pk) FROM checkpoint",
            "SELECT max(pk) FROM task INDEXED BY task_by_time",
        ];
        let one = |sql| self.from.query_row(sql, [], |row| row.get::<_, Option<TaskPk>>(0)).ok().flatten();
        let pages = self.from.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0)).unwrap_or_default();
        // A task takes more than ten bytes. Keys that were damaged may be far beyond.
        questions.into_iter().filter_map(one).max().unwrap_or(TaskPk::MAX).min(pages.saturating_mul(4096 / 10))
    }

    fn copy_task(&self, pk: TaskPk) -> rusqlite::Result<()> {
        self.copy_of("task", "WHERE pk = ?1", [pk, 0])?;
        self.copy_of("log", "WHERE k BETWEEN ?1 AND ?2", [log_key(pk, 0), log_key(pk, MAX_SEQ)])?;
        self.copy_of("checkpoint", "WHERE pk = ?1", [pk, 0])?;
        let ended: Option<(i32, i64, Option<i64>)> = self
            .to
            .prepare_cached(
                "SELECT state, status_us, (SELECT seq FROM checkpoint c WHERE c.pk = t.pk) FROM task t WHERE pk = ?1",
            )?
            .query_row([pk], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        if let Some((state, status_us, Some(_))) = ended
            && is_terminal(super::query::state(state))
        {
            self.to
                .prepare_cached("INSERT OR IGNORE INTO tail VALUES (?1, ?2)")?
                .execute((status_us + KEEP_TAIL.as_micros() as i64, pk))?;
        }
        Ok(())
    }

    /// Returns whether the agent and the owner of a task were copied, and are as they were written.
    fn has_owner(&self, pk: TaskPk) -> rusqlite::Result<bool> {
        let scope: i64 = self.from.query_row("SELECT scope FROM task WHERE pk = ?1", [pk], |row| row.get(0))?;
        let found = self
            .to
            .prepare_cached("SELECT agent, owner, sum FROM scope WHERE pk = ?1")?
            .query_row([scope], |row| {
                let (agent, owner): (String, String) = (row.get(0)?, row.get(1)?);
                Ok(row.get::<_, Option<u32>>(2)?.is_none_or(|sum| sum == sum::scope(scope, &agent, &owner)))
            })
            .optional()?;
        Ok(found == Some(true))
    }

    fn copy_of(&self, table: &str, filter: &str, keys: [i64; 2]) -> rusqlite::Result<()> {
        let mut select = self.from.prepare_cached(&format!("SELECT * FROM {table} {filter} AND ?2 = ?2"))?;
        let columns = select.column_count();
        let marks = vec!["?"; columns].join(", ");
        let mut insert = self.to.prepare_cached(&format!("INSERT INTO {table} VALUES ({marks})"))?;
        let mut rows = select.query(keys)?;
        while let Some(row) = rows.next()? {
            insert.execute(params_from_iter(values(row, columns)?))?;
        }
        Ok(())
    }

    fn name(&self, pk: TaskPk) -> String {
        let id = self.from.query_row("SELECT id FROM task WHERE pk = ?1", [pk], |row| row.get(0));
        id.map_or_else(|_| format!("number {pk}"), |id| Uuid::from_bytes(id).to_string())
    }
}

fn values(row: &Row<'_>, columns: usize) -> rusqlite::Result<Vec<Value>> {
    (0..columns).map(|column| row.get(column)).collect()
}
