//! What an operator does with a store's file beside [`check`](super::check): copy it, look at its numbers, say that it was
//! restored. All but [`restored`] work while a server runs.

use super::super::OpenError;
use super::super::report::Stats;
use super::connection::{MIGRATIONS, open_error, reader, version, writer};
use super::location::{StoreLocation, io, resolve};
use super::wal;
use crate::schema::TaskState;
use rusqlite::Connection;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Copies the store, as it is at one moment, to a new file. The write-ahead log of a running server grows meanwhile.
pub(super) fn backup(path: &Path, to: &Path) -> Result<(), OpenError> {
    let (path, conn) = existing(path)?;
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

/// Returns the statistics of the store.
pub(super) fn stats(path: &Path) -> Result<Stats, OpenError> {
    let (path, conn) = existing(path)?;
    let size = |path: &Path| path.metadata().map_or(0, |m| m.len());
    let mut stats = Stats { file_bytes: size(&path), journal_bytes: size(&wal::path(&path)), ..Stats::default() };
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

/// Starts a new generation after the file was restored from a backup. Returns it.
pub(super) fn restored(path: &Path) -> Result<u32, OpenError> {
    drop(existing(path)?);
    let place = StoreLocation::of_file(path)?;
    let say = |e| open_error(&place.path, &e);
    let conn = writer(&place.path, true).map_err(say)?;
    conn.query_row("UPDATE meta SET generation = generation + 1 RETURNING generation", [], |row| row.get(0))
        .map_err(say)
}

/// Opens a store for reading only. It has to be there, and of this version.
pub(super) fn existing(path: &Path) -> Result<(PathBuf, Connection), OpenError> {
    let path = resolve(path)?;
    let other = |why: &str| OpenError::Other { path: path.clone(), why: why.into() };
    match path.metadata() {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(other("no such store")),
        Err(e) => return Err(io(&path, e)),
    }
    let conn = reader(&path).map_err(|e| open_error(&path, &e))?;
    match version(&conn, &path)? {
        v if v as usize == MIGRATIONS.len() => Ok((path, conn)),
        0 => Err(other("an empty file, not a store")),
        _ => Err(other("of an older version: start the server once to bring it up to date")),
    }
}
