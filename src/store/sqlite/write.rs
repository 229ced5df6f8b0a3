//! Writing: a batch of appends and jobs as one transaction.

use super::super::writer::lock;
use super::super::{
    Append, AppendError, Committed, Done, Job, KEEP_TAIL, Log, MAX_SEQ, NewTask, PRUNE_STEP, Row, StoreError, TaskPk,
};
use super::{claim, log_key, prune, store_error, writer};
use crate::task::lifecycle::is_terminal;
use ring::digest;
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// Scopes remembered. Beyond that they are looked up again.
const SCOPES: usize = 10_000;

pub(crate) struct Writes {
    conn: Connection,
    path: PathBuf,
    durable: bool,
    gate: Arc<Mutex<()>>,
    epoch: u64,
    /// Agent, owner, and their number.
    scopes: HashMap<Arc<str>, HashMap<Arc<str>, i64>>,
    scope_count: usize,
    /// The connection failed and is opened anew before the next use.
    broken: bool,
    #[cfg(test)]
    page_limit: Option<u32>,
}

/// Why a statement of one append failed: its own fault, or the store's.
enum Fault {
    Append(AppendError),
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
                Fault::Append(AppendError::Refused(error.to_string().into()))
            }
            _ => Fault::Store(store_error(&error)),
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

impl Log for Writes {
    fn commit(&mut self, appends: &[Append], jobs: &[Job]) -> Result<Committed, StoreError> {
        let gate = self.gate.clone();
        let _held = lock(&gate);
        self.reconnect()?;
        let result = self.together(appends, jobs).or_else(|fault| match fault {
            // One of them is at fault. Which one shows when each has a savepoint of its own.
            Fault::Append(_) => {
                self.roll_back()?;
                self.one_by_one(appends, jobs)
            }
            Fault::Store(why) => Err(why),
        });
        if result.is_err() {
            let _ = self.roll_back();
            self.broken = true;
        }
        result
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        let gate = self.gate.clone();
        let _held = lock(&gate);
        self.reconnect()?;
        // As large as a busy commit, and really written: two transactions.
        let tried = (|| {
            self.begin()?;
            self.conn.execute("INSERT INTO log VALUES (0, zeroblob(65536))", [])?;
            self.run("COMMIT")?;
            self.begin()?;
            self.conn.execute("DELETE FROM log WHERE k = 0", [])?;
            self.run("COMMIT")
        })();
        tried.map_err(|fault| {
            self.broken = true;
            match fault {
                Fault::Store(why) => why,
                Fault::Append(why) => StoreError::Corrupt(why.to_string().into()),
            }
        })
    }
}

impl Writes {
    pub(super) fn new(conn: Connection, path: PathBuf, durable: bool, gate: Arc<Mutex<()>>, epoch: u64) -> Self {
        Writes {
            conn,
            path,
            durable,
            gate,
            epoch,
            scopes: HashMap::new(),
            scope_count: 0,
            broken: false,
            #[cfg(test)]
            page_limit: None,
        }
    }

    /// Opens the connection anew after a failure: what state an I/O error left it in is not worth knowing.
    fn reconnect(&mut self) -> Result<(), StoreError> {
        if self.broken {
            self.conn = writer(&self.path, self.durable).map_err(|e| store_error(&e))?;
            self.forget_scopes();
            self.broken = false;
            #[cfg(test)]
            self.limit_pages()?;
        }
        Ok(())
    }

    #[cfg(test)]
    fn limit_pages(&self) -> Result<(), StoreError> {
        let limit = self.page_limit.unwrap_or(u32::MAX - 1);
        self.conn.query_row(&format!("PRAGMA max_page_count = {limit}"), [], |_| Ok(())).map_err(|e| store_error(&e))
    }

    fn run(&self, sql: &str) -> Result<(), Fault> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Begins a transaction, if the store is still this process's.
    fn begin(&self) -> Result<(), Fault> {
        self.run("BEGIN IMMEDIATE")?;
        let epoch: i64 = self.conn.prepare_cached("SELECT epoch FROM meta")?.query_row([], |row| row.get(0))?;
        if epoch as u64 != self.epoch {
            return Err(Fault::Store(StoreError::TakenOver));
        }
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        // Scopes made in the transaction are gone with it.
        self.forget_scopes();
        if !self.conn.is_autocommit() {
            self.conn.execute_batch("ROLLBACK").map_err(|e| store_error(&e))?;
        }
        Ok(())
    }

    fn together(&mut self, appends: &[Append], jobs: &[Job]) -> Result<Committed, Fault> {
        self.begin()?;
        let mut deltas = Deltas::new();
        for append in appends {
            if let Some(step) = self.append(append)? {
                step.count(&mut deltas);
            }
        }
        self.finish(appends.iter().map(|a| Ok(a.last)).collect(), jobs, deltas)
    }

    fn one_by_one(&mut self, appends: &[Append], jobs: &[Job]) -> Result<Committed, StoreError> {
        let store_fault = |fault| match fault {
            Fault::Store(why) => why,
            // Not of an append: those are handled below.
            Fault::Append(why) => StoreError::Corrupt(why.to_string().into()),
        };
        self.begin().map_err(store_fault)?;
        let mut deltas = Deltas::new();
        let mut results = Vec::with_capacity(appends.len());
        for append in appends {
            self.run("SAVEPOINT one").map_err(store_fault)?;
            results.push(match self.append(append) {
                Ok(step) => {
                    if let Some(step) = step {
                        step.count(&mut deltas);
                    }
                    Ok(append.last)
                }
                Err(Fault::Append(why)) => {
                    self.forget_scopes();
                    self.run("ROLLBACK TO one").map_err(store_fault)?;
                    Err(why)
                }
                Err(Fault::Store(why)) => return Err(why),
            });
            self.run("RELEASE one").map_err(store_fault)?;
        }
        self.finish(results, jobs, deltas).map_err(store_fault)
    }

    /// Does the jobs, writes the counters, commits.
    fn finish(
        &mut self,
        appends: Vec<Result<u64, AppendError>>,
        jobs: &[Job],
        mut deltas: Deltas,
    ) -> Result<Committed, Fault> {
        let mut done = Vec::with_capacity(jobs.len());
        for job in jobs {
            done.push(self.job(job, &mut deltas)?);
        }
        for ((scope, state), delta) in deltas {
            if delta != 0 {
                self.conn
                    .prepare_cached(
                        "INSERT INTO counter VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET n = n + excluded.n",
                    )?
                    .execute((scope, state, delta))?;
            }
        }
        self.run("COMMIT")?;
        Ok(Committed { appends, jobs: done })
    }

    fn append(&mut self, append: &Append) -> Result<Option<Move>, Fault> {
        if append.last > MAX_SEQ {
            return Err(Fault::Append(AppendError::LogFull));
        }
        let step = match (&append.new, &append.row) {
            (Some(new), Some(row)) => Some(self.insert(append.task.0, new, row)?),
            (Some(_), None) => return Err(Fault::Append(AppendError::Refused("a new task without a row".into()))),
            (None, Some(row)) => Some(self.update(append.task.0, row)?),
            (None, None) => None,
        };
        if !append.body.is_empty() {
            self.conn
                .prepare_cached("INSERT INTO log VALUES (?1, ?2)")?
                .execute((log_key(append.task.0, append.last), &append.body))?;
        }
        if let Some((seq, body)) = &append.checkpoint {
            self.conn.prepare_cached("INSERT OR REPLACE INTO checkpoint VALUES (?1, ?2, ?3)")?.execute((
                append.task.0,
                *seq as i64,
                body,
            ))?;
            if let Some(row) = append.row.filter(|row| *seq == append.last && is_terminal(row.state)) {
                self.conn
                    .prepare_cached("INSERT OR IGNORE INTO tail VALUES (?1, ?2)")?
                    .execute((row.status_us + KEEP_TAIL.as_micros() as i64, append.task.0))?;
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

    fn insert(&mut self, pk: TaskPk, new: &NewTask, row: &Row) -> Result<Move, Fault> {
        let scope = self.scope(&new.agent, &new.owner)?;
        let (key, text) = context_key(&new.context);
        let state = row.state as i32;
        self.conn.prepare_cached("INSERT INTO task VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?.execute((
            pk,
            new.id.as_bytes(),
            scope,
            key,
            text,
            state,
            row.status_us,
            new.created_us,
            row.live,
            self.epoch as i64,
        ))?;
        Ok(Move { scope, from: None, to: Some(state) })
    }

    fn update(&self, pk: TaskPk, row: &Row) -> Result<Move, Fault> {
        // The state is read back rather than believed: counters then agree with the rows whatever happened before.
        let old = self
            .conn
            .prepare_cached("SELECT scope, state FROM task WHERE pk = ?1")?
            .query_row([pk], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((scope, from)) = old else { return Err(Fault::Append(AppendError::NoTask)) };
        let state = row.state as i32;
        self.conn
            .prepare_cached("UPDATE task SET state = ?2, status_us = ?3, live = ?4, epoch = ?5 WHERE pk = ?1")?
            .execute((pk, state, row.status_us, row.live, self.epoch as i64))?;
        Ok(Move { scope, from: Some(from), to: Some(state) })
    }

    /// The number of an agent and an owner, made if they are new.
    fn scope(&mut self, agent: &Arc<str>, owner: &Arc<str>) -> Result<i64, Fault> {
        if let Some(scope) = self.scopes.get(agent).and_then(|owners| owners.get(owner)) {
            return Ok(*scope);
        }
        let find = "SELECT pk FROM scope WHERE agent = ?1 AND owner = ?2";
        let found = self.conn.prepare_cached(find)?.query_row((agent, owner), |row| row.get(0)).optional()?;
        let scope = match found {
            Some(scope) => scope,
            None => {
                self.conn
                    .prepare_cached("INSERT INTO scope (agent, owner) VALUES (?1, ?2)")?
                    .execute((agent, owner))?;
                self.conn.last_insert_rowid()
            }
        };
        if self.scope_count >= SCOPES {
            self.forget_scopes();
        }
        self.scopes.entry(agent.clone()).or_default().insert(owner.clone(), scope);
        self.scope_count += 1;
        Ok(scope)
    }

    fn forget_scopes(&mut self) {
        self.scopes.clear();
        self.scope_count = 0;
    }

    fn job(&mut self, job: &Job, deltas: &mut Deltas) -> Result<Done, Fault> {
        match job {
            Job::Claim(claim) => {
                let scope = self.scope(&claim.key.agent, &claim.key.owner)?;
                Ok(Done::Claimed(claim::take(&self.conn, scope, self.epoch, claim)?))
            }
            Job::EndClaim(key, end) => {
                let scope = self.scope(&key.agent, &key.owner)?;
                claim::end(&self.conn, scope, key, end)?;
                Ok(Done::Ended)
            }
            Job::Prune { now_us } => {
                let claims = prune::claims(&self.conn, *now_us)?;
                let logs = prune::covered_logs(&self.conn, *now_us)?;
                Ok(Done::Pruned { more: claims.max(logs) >= PRUNE_STEP as usize })
            }
            Job::Delete { tasks, before_us } => {
                for pk in tasks {
                    prune::task(&self.conn, *pk, *before_us, deltas)?;
                }
                Ok(Done::Ended)
            }
            #[cfg(test)]
            Job::LimitPages(limit) => {
                self.page_limit = *limit;
                self.broken = true;
                Ok(Done::Ended)
            }
        }
    }
}

/// What the index holds of a context, and its name where that cannot be told from the key.
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
