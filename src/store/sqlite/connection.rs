//! Connections to the file, and bringing its schema up to date.

use super::super::{OpenError, StoreError};
use super::TaskPk;
use super::wal::{self, Wal};
use crate::clock::now_us;
use ring::rand::{SecureRandom, SystemRandom};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;

/// "Tric": tells our files from other databases.
const APPLICATION_ID: u32 = 0x5472_6963;

/// Applied in order, each in its own transaction; a file's `user_version` says how many it has had.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("migrations/001.sql"), include_str!("migrations/002.sql")];

/// How long a statement waits for another connection's lock. Only starts and checkpoints ever meet.
const BUSY_MS: u32 = 5000;

/// A file that is open for this process.
pub(super) struct Opened {
    /// The one connection that writes.
    pub(super) conn: Connection,
    pub(super) generation: u32,
    pub(super) epoch: u64,
    pub(super) token_key: Vec<u8>,
    /// The first task all of whose rows have a checksum.
    pub(super) summed_from: TaskPk,
}

/// Opens a file that is locked for this process, brings its schema up to date and begins an epoch.
pub(super) fn open(path: &Path, durable: bool) -> Result<Opened, OpenError> {
    let say = |error| open_error(path, &error);
    check_wal(path)?;
    // Looked at before anything is changed: it may be another program's.
    let version = version(&reader(path).map_err(say)?, path)?;
    let mut conn = writer(path, durable).map_err(say)?;
    if version == 0 {
        conn.pragma_update(None, "application_id", APPLICATION_ID).map_err(say)?;
    }
    migrate(&mut conn, version).map_err(say)?;
    first_meta(&conn).map_err(say)?;
    let begin = "UPDATE meta SET epoch = epoch + 1 RETURNING generation, epoch, token_key, summed_from";
    let (generation, epoch, token_key, summed_from) = conn
        .query_row(begin, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64, row.get(2)?, row.get(3)?)))
        .map_err(say)?;
    Ok(Opened { conn, generation, epoch, token_key, summed_from })
}

/// Refuses a write-ahead log of which SQLite would forget durable transactions.
fn check_wal(path: &Path) -> Result<(), OpenError> {
    match wal::scan(path).map_err(|e| super::location::io(&wal::path(path), e))? {
        Wal::Whole => Ok(()),
        Wal::BrokenEnd => {
            let log = wal::path(path);
            tracing::warn!(
                log = %log.display(),
                "the last transaction in the write-ahead log is incomplete, as after a power failure, and is left out"
            );
            Ok(())
        }
        Wal::Damaged(offset) => Err(OpenError::Other {
            path: wal::path(path),
            why: format!(
                "the write-ahead log is damaged at byte {offset}, and transactions after it would be lost: restore a backup, \
                 or go on without them in a new store that `tricord store repair` makes"
            ),
        }),
    }
}

/// Opens a connection that writes.
pub(super) fn writer(path: &Path, durable: bool) -> rusqlite::Result<Connection> {
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

/// Opens a connection that cannot write.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
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

/// Returns how many migrations the file has had; 0 for a new one.
pub(super) fn version(conn: &Connection, path: &Path) -> Result<u32, OpenError> {
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
    conn.execute(
        "INSERT OR IGNORE INTO meta (id, generation, epoch, token_key, created_us) VALUES (1, ?1, 0, ?2, ?3)",
        (generation, key, now_us()),
    )?;
    Ok(())
}

pub(super) fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase(path.into()),
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => OpenError::Permission(path.into()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked(path.into()),
        _ => OpenError::Other { path: path.into(), why: error.to_string() },
    }
}

/// Converts an error of SQLite.
pub(super) fn store_error(error: &rusqlite::Error) -> StoreError {
    let why = error.to_string().into();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(why),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(why),
        // A column holds what was never written to it.
        None if is_conversion(error) => StoreError::Corrupt(why),
        _ => StoreError::Io(why),
    }
}

/// Returns whether a value was read and is not what its column holds.
pub(super) fn is_conversion(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}
