//! The backend that keeps tasks in one SQLite file.
//!
//! - `schemes`: its URLs, for the registry.
//! - `location`: the file, and the lock beside it that is the lease.
//! - `connection`: opening it; its schema, in numbered migrations.
//! - `backend`: which part answers what, and on which thread.
//! - `write`, `append`, `claim`, `prune`: the one connection that writes, a transaction for each batch.
//! - `read`, `query`: a few connections that read, and never wait for the writer.
//! - `upkeep`: a thread that keeps the write-ahead log short and deletes what is too old.
//! - `sum`: the checksums of rows.
//! - `wal`: a look at the write-ahead log before SQLite uses it.
//! - `operate`, `check`, `repair`: what an operator does with the file.
//!
//! A task is one row of `task` with a small number, which is its handle. All records of a task in a commit are one row of
//! `log`.

mod append;
mod backend;
mod check;
mod claim;
mod connection;
mod location;
mod operate;
mod prune;
mod query;
mod read;
mod repair;
mod schemes;
mod sum;
#[cfg(test)]
mod tests;
mod upkeep;
mod wal;
mod write;

pub(super) use schemes::SCHEMES;

/// The number of a task in its file.
type TaskPk = i64;

/// Tasks, logs or claims deleted in one transaction: few enough that other commits do not notice.
const PRUNE_STEP: u32 = 50;

/// Returns the key of a row of `log`.
fn log_key(pk: TaskPk, seq: u64) -> i64 {
    pk << super::append::SEQ_BITS | seq as i64
}
