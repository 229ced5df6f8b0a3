//! One append, or one job, inside the writer's transaction.

use super::super::job::QueuedJob;
use super::super::{
    Append, AppendError, Claim, ClaimEnd, ClaimKey, Claimed, KEEP_TAIL, MAX_SEQ, NewTask, Row, StoreError,
};
use super::connection::{is_conversion, store_error};
use super::sum::{self, TaskColumns};
use super::write::Writes;
use super::{TaskPk, claim, log_key};
use crate::task::lifecycle::is_terminal;
use ring::digest;
use rusqlite::{ErrorCode, OptionalExtension};
use std::collections::HashMap;
use uuid::Uuid;

/// Why a statement of one append failed: its own fault, or the store's.
pub(super) enum Fault {
    Append(AppendError),
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // Damage that one append meets need not concern the others.
            Some(
                ErrorCode::ConstraintViolation
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::DatabaseCorrupt,
            ) => Fault::Append(AppendError::Refused(error.to_string().into())),
            None if is_conversion(&error) => Fault::Append(AppendError::Refused(error.to_string().into())),
            _ => Fault::Store(store_error(&error)),
        }
    }
}

impl Fault {
    /// The fault of something that is not an append.
    pub(super) fn into_store(self) -> StoreError {
        match self {
            Fault::Store(why) => why,
            Fault::Append(why) => StoreError::Corrupt(why.to_string().into()),
        }
    }
}

/// How many tasks entered and left (scope, state), written once per transaction.
pub(super) type Deltas = HashMap<(i64, i32), i64>;

/// What one append does to the counters.
pub(super) struct Move {
    pub(super) scope: i64,
    pub(super) from: Option<i32>,
    pub(super) to: Option<i32>,
}

impl Move {
    pub(super) fn count(&self, deltas: &mut Deltas) {
        if self.from == self.to {
            return;
        }
        let steps = [(self.from, -1), (self.to, 1)];
        for (state, step) in steps.into_iter().filter_map(|(state, step)| Some((state?, step))) {
            *deltas.entry((self.scope, state)).or_default() += step;
        }
    }
}

impl Writes {
    pub(super) fn append(&mut self, append: &Append) -> Result<Option<Move>, Fault> {
        self.check(append)?;
        let pk = append.task.0;
        let step = match (&append.new, &append.row) {
            (Some(new), Some(row)) => Some(self.insert(pk, new, row)?),
            (Some(_), None) => return Err(Fault::Append(AppendError::Refused("a new task without a row".into()))),
            (None, Some(row)) => Some(self.update(pk, row)?),
            (None, None) => None,
        };
        if !append.body.is_empty() {
            let key = log_key(pk, append.last);
            self.conn.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3)")?.execute((
                key,
                &append.body,
                sum::log(key, &append.body),
            ))?;
        }
        if let Some((seq, body)) = &append.checkpoint {
            self.conn.prepare_cached("INSERT OR REPLACE INTO checkpoint VALUES (?1, ?2, ?3, ?4)")?.execute((
                pk,
                *seq as i64,
                body,
                sum::checkpoint(pk, *seq, body),
            ))?;
            if let Some(row) = append.row.filter(|row| *seq == append.last && is_terminal(row.state)) {
                self.conn
                    .prepare_cached("INSERT OR IGNORE INTO tail VALUES (?1, ?2)")?
                    .execute((row.status_us + KEEP_TAIL.as_micros() as i64, pk))?;
            }
        }
        for key in &append.claims {
            let scope = self.scope(&key.agent, &key.owner)?;
            self.conn
                .prepare_cached("UPDATE claim SET state = 1 WHERE scope = ?1 AND key = ?2")?
                .execute((scope, &key.key))?;
        }
        Ok(step)
    }

    /// Refuses an append that somebody else has overtaken.
    fn check(&self, append: &Append) -> Result<(), Fault> {
        let refuse = |why| Err(Fault::Append(why));
        if append.last > MAX_SEQ {
            return refuse(AppendError::LogFull);
        }
        if append.lease != self.lease {
            return refuse(AppendError::LeaseEnded(append.lease.epoch));
        }
        let last = match append.new {
            // Its row is unique, and there is no log without one.
            Some(_) => 0,
            None => self.last_seq(append.task.0)?.ok_or(Fault::Append(AppendError::NoTask))?,
        };
        if append.follows != last {
            return refuse(AppendError::OutOfOrder { follows: append.follows, last });
        }
        Ok(())
    }

    /// The seq of the last record of a task. Where the log was pruned, the checkpoint holds it.
    fn last_seq(&self, pk: TaskPk) -> rusqlite::Result<Option<u64>> {
        let last = self
            .conn
            .prepare_cached("SELECT k FROM log WHERE k BETWEEN ?1 AND ?2 ORDER BY k DESC LIMIT 1")?
            .query_row((log_key(pk, 0), log_key(pk, MAX_SEQ)), |row| Ok(row.get::<_, i64>(0)? as u64 & MAX_SEQ))
            .optional()?;
        if last.is_some() {
            return Ok(last);
        }
        self.conn
            .prepare_cached("SELECT seq FROM checkpoint WHERE pk = ?1")?
            .query_row([pk], |row| Ok(row.get::<_, i64>(0)? as u64))
            .optional()
    }

    fn insert(&mut self, pk: TaskPk, new: &NewTask, row: &Row) -> Result<Move, Fault> {
        let scope = self.scope(&new.agent, &new.owner)?;
        let (key, text) = context_key(&new.context);
        let state = row.state as i32;
        let columns = TaskColumns {
            pk,
            id: new.id.as_bytes(),
            scope,
            context_key: &key,
            context: text,
            state,
            status_us: row.status_us,
            created_us: new.created_us,
            live: row.live,
            epoch: self.lease.epoch as i64,
        };
        self.conn.prepare_cached("INSERT INTO task VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?.execute(
            (
                pk,
                columns.id,
                scope,
                columns.context_key,
                text,
                state,
                columns.status_us,
                columns.created_us,
                columns.live,
                columns.epoch,
                columns.sum(),
            ),
        )?;
        Ok(Move { scope, from: None, to: Some(state) })
    }

    fn update(&self, pk: TaskPk, row: &Row) -> Result<Move, Fault> {
        // The state is read back rather than believed: counters then agree with the rows whatever happened before.
        let (state, epoch) = (row.state as i32, self.lease.epoch as i64);
        let old = self
            .conn
            .prepare_cached(&self.select_task)?
            .query_row([pk], |found| {
                let (old, sum) = TaskColumns::read(found)?;
                let whole = sum::is_whole(pk, sum, || old.sum(), self.summed_from);
                let new = TaskColumns { state, status_us: row.status_us, live: row.live, epoch, ..old };
                Ok((old.scope, old.state, whole, new.sum()))
            })
            .optional()?;
        let Some((scope, from, whole, sum)) = old else { return Err(Fault::Append(AppendError::NoTask)) };
        if !whole {
            // A new checksum would make the damage look like what was written.
            return Err(Fault::Append(AppendError::Refused("the row of the task is damaged".into())));
        }
        self.conn
            .prepare_cached(
                "UPDATE task SET state = ?2, status_us = ?3, live = ?4, epoch = ?5, sum = ?6 WHERE pk = ?1",
            )?
            .execute((pk, state, row.status_us, row.live, epoch, sum))?;
        Ok(Move { scope, from: Some(from), to: Some(state) })
    }

    /// Does a job and leaves its answer in its ticket.
    pub(super) fn job(&mut self, job: &mut QueuedJob) -> Result<(), Fault> {
        match job {
            QueuedJob::Claim(ticket) => ticket.answer = Some(self.claim(&ticket.job)?),
            QueuedJob::EndClaim(ticket) => ticket.answer = Some(self.end_claim(&ticket.job.key, &ticket.job.end)?),
        }
        Ok(())
    }

    fn claim(&mut self, claim: &Claim) -> Result<Claimed, Fault> {
        let scope = self.scope(&claim.key.agent, &claim.key.owner)?;
        Ok(claim::take(&self.conn, scope, self.lease.epoch, claim)?)
    }

    fn end_claim(&mut self, key: &ClaimKey, end: &ClaimEnd) -> Result<(), Fault> {
        let scope = self.scope(&key.agent, &key.owner)?;
        Ok(claim::end(&self.conn, scope, key, end)?)
    }
}

/// Returns the key of a context in the index, and its name where that cannot be told from the key.
pub(super) fn context_key(context: &str) -> ([u8; 16], Option<&str>) {
    let mut buffer = Uuid::encode_buffer();
    match Uuid::try_parse(context) {
        // Only the spelling that comes back from the bytes.
        Ok(id) if id.hyphenated().encode_lower(&mut buffer) == context => (id.into_bytes(), None),
        _ => {
            let digest = digest::digest(&digest::SHA256, context.as_bytes());
            (digest.as_ref()[..16].try_into().expect("a digest is longer"), Some(context))
        }
    }
}
