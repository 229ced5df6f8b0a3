//! Checksums of rows: what tells data that a device or a person changed from what was written.
//!
//! SQLite notices damage to the structure of its file, and none to the content. So each row of `scope`, `task`, `log` and
//! `checkpoint` has a CRC-32 over its columns, its key included: a row that turns up under another key is damaged, too.

use super::TaskPk;
use crc32fast::Hasher;
use rusqlite::Row;

/// Returns the checksum of a row of `log`.
pub(super) fn log(key: i64, body: &[u8]) -> u32 {
    bytes(key, 0, body)
}

/// Returns the checksum of a row of `checkpoint`.
pub(super) fn checkpoint(pk: TaskPk, seq: u64, body: &[u8]) -> u32 {
    bytes(pk, seq, body)
}

fn bytes(key: i64, seq: u64, body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&key.to_le_bytes());
    hasher.update(&seq.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Returns the checksum of a row of `scope`.
pub(super) fn scope(pk: i64, agent: &str, owner: &str) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&pk.to_le_bytes());
    hasher.update(&(agent.len() as u64).to_le_bytes());
    hasher.update(agent.as_bytes());
    hasher.update(owner.as_bytes());
    hasher.finalize()
}

/// What the checksum of a row of `task` covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskColumns<'a> {
    pub(super) pk: TaskPk,
    pub(super) id: &'a [u8],
    pub(super) scope: i64,
    pub(super) context_key: &'a [u8],
    pub(super) context: Option<&'a str>,
    pub(super) state: i32,
    pub(super) status_us: i64,
    pub(super) created_us: i64,
    pub(super) live: bool,
    pub(super) epoch: i64,
}

impl<'a> TaskColumns<'a> {
    /// The columns in the order of [`read`](Self::read).
    pub(super) const NAMES: &'static str =
        "t.pk, t.id, t.scope, t.context_key, t.context, t.state, t.status_us, t.created_us, t.live, t.epoch, t.sum";

    /// Reads a row that begins with [`NAMES`](Self::NAMES). Returns it with its checksum.
    pub(super) fn read(row: &'a Row<'_>) -> rusqlite::Result<(Self, Option<u32>)> {
        let columns = Self {
            pk: row.get(0)?,
            id: row.get_ref(1)?.as_blob()?,
            scope: row.get(2)?,
            context_key: row.get_ref(3)?.as_blob()?,
            context: row.get_ref(4)?.as_str_or_null()?,
            state: row.get(5)?,
            status_us: row.get(6)?,
            created_us: row.get(7)?,
            live: row.get(8)?,
            epoch: row.get(9)?,
        };
        Ok((columns, row.get(10)?))
    }

    /// Returns the checksum.
    pub(super) fn sum(&self) -> u32 {
        let mut hasher = Hasher::new();
        for number in [
            self.pk,
            self.scope,
            i64::from(self.state),
            self.status_us,
            self.created_us,
            i64::from(self.live),
            self.epoch,
            // Tells no name from an empty one.
            self.context.map_or(-1, |name| name.len() as i64),
        ] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(self.id);
        hasher.update(self.context_key);
        hasher.update(self.context.unwrap_or_default().as_bytes());
        hasher.finalize()
    }
}

/// Returns whether a row is as it was written. `summed_from` is the first task all of whose rows have a checksum.
pub(super) fn is_whole(pk: TaskPk, found: Option<u32>, expected: impl FnOnce() -> u32, summed_from: TaskPk) -> bool {
    match found {
        Some(found) => found == expected(),
        None => pk < summed_from,
    }
}
