//! Claims of idempotency keys, as part of the writer's transaction.

use super::super::claim::{Claim, ClaimEnd, ClaimKey, Claimed, ClaimedAs, KEEP_CLAIM};
use crate::clock::now_us;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

/// Claims a key, or returns the answer that fulfilled an earlier claim of it.
pub(super) fn take(conn: &Connection, scope: i64, epoch: u64, claim: &Claim) -> rusqlite::Result<Claimed> {
    let now = now_us();
    let found = conn
        .prepare_cached(
            "SELECT hash, task, state, message, created_us, EXISTS (SELECT 1 FROM task t WHERE t.id = claim.task)
             FROM claim WHERE scope = ?1 AND key = ?2",
        )?
        .query_row((scope, &claim.key.key), |row| {
            let state = match row.get(2)? {
                1 if row.get(5)? => ClaimedAs::Task,
                2 => ClaimedAs::Message(row.get(3)?),
                // The claim is open: its request failed or its process ended, as this process claims a key once at a
                // time. Or the task was deleted since, and there is nothing to answer with.
                _ => return Ok(None),
            };
            let old = row.get::<_, i64>(4)? <= now - KEEP_CLAIM.as_micros() as i64;
            Ok((!old).then_some(Claimed::Existing { hash: row.get(0)?, task: Uuid::from_bytes(row.get(1)?), state }))
        })
        .optional()?;
    if let Some(Some(existing)) = found {
        return Ok(existing);
    }
    conn.prepare_cached("INSERT OR REPLACE INTO claim VALUES (?1, ?2, ?3, ?4, 0, NULL, ?5, ?6)")?.execute((
        scope,
        &claim.key.key,
        claim.hash,
        claim.reserve.as_bytes(),
        now,
        epoch as i64,
    ))?;
    Ok(Claimed::New)
}

/// Ends the claim of a key.
pub(super) fn end(conn: &Connection, scope: i64, key: &ClaimKey, end: &ClaimEnd) -> rusqlite::Result<()> {
    match end {
        ClaimEnd::Message(message) => conn
            .prepare_cached("UPDATE claim SET state = 2, message = ?3 WHERE scope = ?1 AND key = ?2")?
            .execute((scope, &key.key, message))?,
        ClaimEnd::Release => conn
            .prepare_cached("DELETE FROM claim WHERE scope = ?1 AND key = ?2 AND state = 0")?
            .execute((scope, &key.key))?,
    };
    Ok(())
}
