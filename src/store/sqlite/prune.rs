//! Deleting what is too old: ended tasks, logs that a checkpoint covers, and claims, a few at a time.

use super::super::MAX_SEQ;
use super::super::claim::KEEP_CLAIM;
use super::append::{Deltas, Move};
use super::{PRUNE_STEP, TaskPk, log_key};
use crate::schema::TaskState;
use crate::task::lifecycle::is_terminal;
use rusqlite::{Connection, OptionalExtension};

/// Deletes claims whose time is over.
pub(super) fn claims(conn: &Connection, now_us: i64) -> rusqlite::Result<usize> {
    conn.prepare_cached(
        "DELETE FROM claim WHERE (scope, key) IN
           (SELECT scope, key FROM claim WHERE created_us <= ?1 ORDER BY created_us LIMIT ?2)",
    )?
    .execute((now_us - KEEP_CLAIM.as_micros() as i64, PRUNE_STEP))
}

/// Deletes the logs of tasks that have ended, are folded to their end, and are so old that no stream resumes in them.
pub(super) fn covered_logs(conn: &Connection, now_us: i64) -> rusqlite::Result<usize> {
    let due: Vec<(i64, TaskPk)> = conn
        .prepare_cached("SELECT due_us, pk FROM tail WHERE due_us <= ?1 ORDER BY due_us, pk LIMIT ?2")?
        .query_map((now_us, PRUNE_STEP), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (due_us, pk) in &due {
        // Never more than the checkpoint holds, whatever was written since.
        conn.prepare_cached("DELETE FROM log WHERE k > ?1 AND k <= ?1 + (SELECT seq FROM checkpoint WHERE pk = ?2)")?
            .execute((log_key(*pk, 0), pk))?;
        conn.prepare_cached("DELETE FROM tail WHERE due_us = ?1 AND pk = ?2")?.execute((due_us, pk))?;
    }
    Ok(due.len())
}

/// Deletes a task with everything that belongs to it, if it ended before a time.
pub(super) fn task(conn: &Connection, pk: TaskPk, before_us: i64, deltas: &mut Deltas) -> rusqlite::Result<()> {
    // Looked at again, as it was chosen before this transaction.
    let found = conn
        .prepare_cached("SELECT scope, state FROM task WHERE pk = ?1 AND status_us < ?2 AND live = 0")?
        .query_row((pk, before_us), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i32>(1)?)))
        .optional()?;
    let Some((scope, state)) = found.filter(|(_, state)| TaskState::try_from(*state).is_ok_and(is_terminal)) else {
        return Ok(());
    };
    conn.prepare_cached("DELETE FROM log WHERE k BETWEEN ?1 AND ?2")?
        .execute((log_key(pk, 0), log_key(pk, MAX_SEQ)))?;
    conn.prepare_cached("DELETE FROM checkpoint WHERE pk = ?1")?.execute([pk])?;
    conn.prepare_cached("DELETE FROM task WHERE pk = ?1")?.execute([pk])?;
    Move { scope, from: Some(state), to: None }.count(deltas);
    Ok(())
}
