//! The connection that writes, and its transactions: batches of appends and jobs, probes, and steps of the upkeep.

use super::super::backend::{Batch, Committed};
use super::super::{Lease, StoreError};
use super::append::{Deltas, Fault};
use super::connection::{store_error, writer};
use super::sum::{self, TaskColumns};
use super::{PRUNE_STEP, TaskPk, prune};
use rusqlite::{Connection, OptionalExtension};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Scopes remembered. Beyond that they are looked up again.
const SCOPES: usize = 10_000;

pub(super) struct Writes {
    pub(super) conn: Connection,
    path: PathBuf,
    durable: bool,
    pub(super) lease: Lease,
    /// Agent, owner, and their number.
    scopes: HashMap<Arc<str>, HashMap<Arc<str>, i64>>,
    scope_count: usize,
    /// The connection failed and is opened anew before the next use.
    broken: bool,
    /// The first task all of whose rows have a checksum.
    pub(super) summed_from: TaskPk,
    /// Reads the row of a task, for its new checksum.
    pub(super) select_task: String,
}

impl Writes {
    pub(super) fn new(conn: Connection, path: PathBuf, durable: bool, lease: Lease, summed_from: TaskPk) -> Self {
        let select_task = format!("SELECT {} FROM task t WHERE pk = ?1", TaskColumns::NAMES);
        let (scopes, scope_count, broken) = (HashMap::new(), 0, false);
        Writes { conn, path, durable, lease, scopes, scope_count, broken, summed_from, select_task }
    }

    /// Writes a batch in one transaction, on the condition that the lease has not ended.
    pub(super) fn commit(&mut self, batch: &mut Batch) -> Result<Committed, StoreError> {
        self.reconnect()?;
        let result = self.all_at_once(batch).or_else(|fault| match fault {
            // One of them is at fault. Which one shows when each has a savepoint of its own.
            Fault::Append(_) => {
                self.roll_back()?;
                self.one_by_one(batch).map_err(Fault::into_store)
            }
            Fault::Store(why) => Err(why),
        });
        self.settle(result)
    }

    /// Tries whether writes succeed, with one as large as a busy commit.
    pub(super) fn probe(&mut self) -> Result<(), StoreError> {
        self.reconnect()?;
        let tried = self
            .transaction(|writes, _| writes.run("INSERT INTO log VALUES (0, zeroblob(65536), NULL)"))
            .and_then(|()| self.transaction(|writes, _| writes.run("DELETE FROM log WHERE k = 0")));
        self.settle(tried.map_err(Fault::into_store))
    }

    /// Deletes a step of claims and covered logs that are too old. Returns whether there may be more.
    pub(super) fn prune(&mut self, now_us: i64) -> Result<bool, StoreError> {
        self.reconnect()?;
        let pruned = self.transaction(|writes, _| {
            let claims = prune::claims(&writes.conn, now_us)?;
            let logs = prune::covered_logs(&writes.conn, now_us)?;
            Ok(claims.max(logs) >= PRUNE_STEP as usize)
        });
        self.settle(pruned.map_err(Fault::into_store))
    }

    /// Deletes those of some tasks that ended before a time.
    pub(super) fn delete(&mut self, tasks: &[TaskPk], before_us: i64) -> Result<(), StoreError> {
        self.reconnect()?;
        let deleted = self.transaction(|writes, deltas| {
            tasks.iter().try_for_each(|pk| Ok(prune::task(&writes.conn, *pk, before_us, deltas)?))
        });
        self.settle(deleted.map_err(Fault::into_store))
    }

    /// Opens the connection anew after a failure: what state an I/O error left it in is not worth knowing.
    pub(super) fn reconnect(&mut self) -> Result<(), StoreError> {
        if self.broken {
            self.conn = writer(&self.path, self.durable).map_err(|e| store_error(&e))?;
            self.forget_scopes();
            self.broken = false;
        }
        Ok(())
    }

    /// Ends a transaction that failed, and distrusts the connection.
    fn settle<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            let _ = self.roll_back();
            self.broken = true;
        }
        result
    }

    fn run(&self, sql: &str) -> Result<(), Fault> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Runs `write` in a transaction and commits it with the counters. After an error the transaction is still open.
    fn transaction<T>(&mut self, write: impl FnOnce(&mut Self, &mut Deltas) -> Result<T, Fault>) -> Result<T, Fault> {
        self.run("BEGIN IMMEDIATE")?;
        let epoch: i64 = self.conn.prepare_cached("SELECT epoch FROM meta")?.query_row([], |row| row.get(0))?;
        if epoch as u64 != self.lease.epoch {
            return Err(Fault::Store(StoreError::TakenOver));
        }
        let mut deltas = Deltas::new();
        let written = write(self, &mut deltas)?;
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
        Ok(written)
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        // Scopes made in the transaction are gone with it.
        self.forget_scopes();
        if !self.conn.is_autocommit() {
            self.conn.execute_batch("ROLLBACK").map_err(|e| store_error(&e))?;
        }
        Ok(())
    }

    fn all_at_once(&mut self, batch: &mut Batch) -> Result<Committed, Fault> {
        self.transaction(|writes, deltas| {
            for append in &batch.appends {
                if let Some(step) = writes.append(append)? {
                    step.count(deltas);
                }
            }
            batch.jobs.iter_mut().try_for_each(|job| writes.job(job))?;
            Ok(batch.appends.iter().map(|append| Ok(append.last)).collect())
        })
    }

    fn one_by_one(&mut self, batch: &mut Batch) -> Result<Committed, Fault> {
        self.transaction(|writes, deltas| {
            let mut results = Vec::with_capacity(batch.appends.len());
            for append in &batch.appends {
                writes.run("SAVEPOINT one")?;
                results.push(match writes.append(append) {
                    Ok(step) => {
                        if let Some(step) = step {
                            step.count(deltas);
                        }
                        Ok(append.last)
                    }
                    Err(Fault::Append(why)) => {
                        writes.forget_scopes();
                        writes.run("ROLLBACK TO one")?;
                        Err(why)
                    }
                    Err(fault) => return Err(fault),
                });
                writes.run("RELEASE one")?;
            }
            batch.jobs.iter_mut().try_for_each(|job| writes.job(job))?;
            Ok(results)
        })
    }

    /// Returns the number of an agent and an owner. Creates it if they are new.
    pub(super) fn scope(&mut self, agent: &Arc<str>, owner: &Arc<str>) -> Result<i64, Fault> {
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
                let pk = self.conn.last_insert_rowid();
                let sum = sum::scope(pk, agent, owner);
                self.conn.prepare_cached("UPDATE scope SET sum = ?2 WHERE pk = ?1")?.execute((pk, sum))?;
                pk
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
}
