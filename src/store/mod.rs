//! The durable task store: logs of records, an index of tasks, and answers for retries.
//!
//! ```text
//! engine ─► Writer: one thread, commits in groups ─┐
//! engine, service ─► Store: reads and jobs ────────┴─► Backend
//! ```
//!
//! A task is a log of records. What waits while a commit is under way is the next commit; reads never wait for one. The
//! store knows nothing of running tasks: the writer asks a [`Pending`] for its next [`Append`]. What keeps the data is a
//! [`backend`], and the rest of this module does not know which.

// Nothing uses the parts of backends without a backend, and the operations on closed stores without the command line.
#![cfg_attr(not(all(feature = "sqlite", feature = "cli")), allow(dead_code, unused_imports))]

mod append;
mod backend;
mod claim;
mod commits;
mod error;
mod handle;
mod job;
mod list;
mod lock;
mod queue;
mod registry;
mod report;
mod rows;
mod scheme;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(all(test, feature = "sqlite"))]
pub(crate) mod tests;
mod url;
mod writer;

pub use append::{Append, NewTask, Row};
pub(crate) use append::{KEEP_TAIL, Lease, MAX_SEQ, TaskHandle};
pub(crate) use claim::{Claim, ClaimEnd, ClaimKey, Claimed, ClaimedAs};
pub(crate) use error::{AppendError, OpenError, StoreError};
pub(crate) use handle::Health;
pub use handle::Store;
#[doc(hidden)]
pub use list::PageKey;
pub use list::{ListQuery, PageToken, TokenError};
pub(crate) use registry::{backup, check, repair, restored, stats};
pub(crate) use rows::{LogRead, Tail, TaskRow};
pub use url::{Options, StoreUrl};
pub use writer::{Commit, Pending, Writer};

/// The schemes of each backend. To add a backend, write its folder, declare the module above, and add a line here.
static BACKENDS: &[&[scheme::Scheme]] = &[
    #[cfg(feature = "sqlite")]
    sqlite::SCHEMES,
];

/// The scheme and the location of the store that is used if none is configured.
const DEFAULT_URL: (&str, &str) = ("sqlite", "tricord.db");
