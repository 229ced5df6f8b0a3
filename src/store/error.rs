//! What goes wrong with a store: opening it, reading and writing it, and one task's append.

use std::path::PathBuf;
use std::sync::Arc;

/// Why a store could not be opened. Each is one line that says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No backend of this build has a store at such a URL.
    #[error("unsupported store URL {found:?}: use {supported}")]
    Address {
        /// The URL, or only its scheme if the rest may contain a password.
        found: String,
        /// How the URLs of this build are written.
        supported: String,
    },
    /// The operation needs a store that is kept when its server stops.
    #[error("a {0} store ends with its server: there is nothing to read")]
    NotKept(&'static str),
    /// The directory of the file does not exist.
    #[error("{}: the directory does not exist", .0.display())]
    NoDirectory(PathBuf),
    /// The operating system refuses access.
    #[error("{}: permission denied", .0.display())]
    Permission(PathBuf),
    /// Another process, or another handle in this one, has the store open.
    #[error("{}: another process has this store open", .0.display())]
    Locked(PathBuf),
    /// The file is not a database that the backend reads.
    #[error("{}: not a database", .0.display())]
    NotADatabase(PathBuf),
    /// The file is a database of another program.
    #[error("{}: a database of another program", .0.display())]
    Foreign(PathBuf),
    /// A newer Tricord wrote the file.
    #[error("{}: written by a newer version (schema {found}, this one knows up to {known})", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest that this build reads.
        known: u32,
    },
    /// Anything else, in the words of the operating system or of the backend.
    #[error("{}: {why}", .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What the operating system or the backend said.
        why: String,
    },
}

/// The store cannot serve now, or not at all. Every append of the failed transaction gets the same one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No space is left for it. It recovers by itself once there is.
    #[error("the store is full: {0}")]
    Full(Arc<str>),
    /// Reading or writing failed. It recovers by itself once the device answers.
    #[error("the store cannot be read or written: {0}")]
    Io(Arc<str>),
    /// A later process took the store over. This one must write no more.
    #[error("another process took the store over")]
    TakenOver,
    /// What is stored cannot be read back.
    #[error("the store is damaged: {0}")]
    Corrupt(Arc<str>),
    /// The writer was closed, or never started.
    #[error("the store is closed")]
    Closed,
}

/// Why one task's append was refused while the rest of its transaction stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The lease that it was written under has ended.
    #[error("the append was written under a lease that has ended (epoch {0})")]
    LeaseEnded(u64),
    /// The log does not end with the record that it follows: somebody else has written the task.
    #[error("the append follows record {follows}, but the log ends with record {last}")]
    OutOfOrder {
        /// The seq that the append follows.
        follows: u64,
        /// The seq of the last record in the log.
        last: u64,
    },
    /// The append breaks a rule of the store: an id that exists, or a first append without a row.
    #[error("the append was refused: {0}")]
    Refused(Arc<str>),
    /// No such task: never made, or deleted since.
    #[error("the task is not in the store")]
    NoTask,
    /// A log holds at most 1,048,575 records.
    #[error("the task's log is full")]
    LogFull,
}
