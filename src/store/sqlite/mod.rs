//! The store in one SQLite file: opening it, its schema, its connections.

mod claim;
mod operate;
mod prune;
mod read;
mod write;

pub use operate::{CheckReport, Stats, backup, check, restored, stats};
pub(super) use read::Reads;
pub(super) use write::Writes;

use super::location::StoreLocation;
use super::{OpenError, SEQ_BITS, StoreError};
use crate::clock::now_us;
use ring::rand::{SecureRandom, SystemRandom};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// "Tric": tells our files from other databases.
const APPLICATION_ID: u32 = 0x5472_6963;

/// Applied in order, each in its own transaction; a file's `user_version` says how many it has had.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("../migrations/001.sql")];

/// How long a statement waits for another connection's lock. Only starts and checkpoints ever meet.
const BUSY_MS: u32 = 5000;

/// A store that is open for this process.
pub(super) struct Opened {
    pub(super) index: Reads,
    pub(super) log: Writes,
    pub(super) next_pk: i64,
    pub(super) generation: u32,
    pub(super) epoch: u64,
    pub(super) token_key: Vec<u8>,
}

/// Opens the file that `place` holds, brings its schema up to date and begins an epoch.
pub(super) fn open(place: &StoreLocation) -> Result<Opened, OpenError> {
    let path = &place.path;
    let say = |error| open_error(path, &error);
    // Looked at before anything is changed: it may be another program's.
    let version = version(&reader(path).map_err(say)?, path)?;
    let mut conn = writer(path, place.durable).map_err(say)?;
    if version == 0 {
        conn.pragma_update(None, "application_id", APPLICATION_ID).map_err(say)?;
    }
    migrate(&mut conn, version).map_err(say)?;
    first_meta(&conn).map_err(say)?;
    let (generation, epoch, token_key) = conn
        .query_row("UPDATE meta SET epoch = epoch + 1 RETURNING generation, epoch, token_key", [], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)? as u64, row.get(2)?))
        })
        .map_err(say)?;
    let next_pk = conn
        .query_row(
            "SELECT max(coalesce((SELECT max(pk) FROM task), 0), coalesce((SELECT max(k) >> ?1 FROM log), 0)) + 1",
            [SEQ_BITS],
            |row| row.get(0),
        )
        .map_err(say)?;
    // Held for a transaction, so that the write-ahead log can be emptied between two.
    let gate = Arc::new(Mutex::new(()));
    Ok(Opened {
        index: Reads::new(path.clone(), gate.clone(), epoch),
        log: Writes::new(conn, path.clone(), place.durable, gate, epoch),
        next_pk,
        generation,
        epoch,
        token_key,
    })
}

/// The one connection that writes.
fn writer(path: &Path, durable: bool) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.execute_batch(&format!(
        "PRAGMA busy_timeout = {BUSY_MS};
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = {};
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = {};
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;",
        if durable { "FULL" } else { "OFF" },
        64 << 20,
    ))?;
    keep_plans(&conn)?;
    Ok(conn)
}

/// A connection that cannot write.
fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.execute_batch(&format!(
        "PRAGMA busy_timeout = {BUSY_MS}; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2048;"
    ))?;
    keep_plans(&conn)?;
    Ok(conn)
}

/// Has statements prepared once. Without "query planner stability" SQLite makes the plan anew whenever another value is
/// bound, which costs more than the statement does.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// How many migrations the file has had; 0 for a new one.
fn version(conn: &Connection, path: &Path) -> Result<u32, OpenError> {
    let number =
        |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, u32>(0)).map_err(|e| open_error(path, &e));
    let tables: u32 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(|e| open_error(path, &e))?;
    let id = number("application_id")?;
    if id != APPLICATION_ID && (id != 0 || tables > 0) {
        return Err(OpenError::Foreign(path.into()));
    }
    let (found, known) = (number("user_version")?, MIGRATIONS.len() as u32);
    if found > known {
        return Err(OpenError::Newer { path: path.into(), found, known });
    }
    Ok(found)
}

fn migrate(conn: &mut Connection, from: u32) -> rusqlite::Result<()> {
    for (migration, version) in MIGRATIONS.iter().zip(1u32..).skip(from as usize) {
        let transaction = conn.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Writes the row of `meta` if the file is new.
fn first_meta(conn: &Connection) -> rusqlite::Result<()> {
    let mut key = [0u8; 32];
    let mut generation = [0u8; 4];
    let random = SystemRandom::new();
    let drawn = random.fill(&mut key).and_then(|()| random.fill(&mut generation));
    drawn.map_err(|_| rusqlite::Error::InvalidParameterName("the system gives no random numbers".into()))?;
    // Random, so that a file made anew is not taken for the one it replaces.
    let generation = u32::from_le_bytes(generation) >> 1;
    conn.execute("INSERT OR IGNORE INTO meta VALUES (1, ?1, 0, ?2, ?3)", (generation, key, now_us()))?;
    Ok(())
}

fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase(path.into()),
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => OpenError::Permission(path.into()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked(path.into()),
        _ => OpenError::Other { path: path.into(), why: error.to_string() },
    }
}

/// An error of SQLite as one of the store.
fn store_error(error: &rusqlite::Error) -> StoreError {
    let why = error.to_string().into();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(why),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(why),
        _ => StoreError::Io(why),
    }
}

/// A log's key.
fn log_key(pk: i64, seq: u64) -> i64 {
    pk << SEQ_BITS | seq as i64
}
