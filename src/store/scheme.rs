//! The schemes of store URLs: what a backend brings for each.

use super::backend::Backend;
use super::report::{CheckReport, RepairReport, Stats};
use super::{OpenError, Options};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

/// A scheme of store URLs, and what the backend does with such a URL.
pub(super) struct Scheme {
    /// What stands before the colon.
    pub(super) name: &'static str,
    /// How such a URL is written, for help texts and error messages.
    pub(super) form: &'static str,
    /// Whether tasks are kept when the server stops.
    pub(super) is_durable: bool,
    /// Reads what stands behind the colon. Returns `None` if it is not a location. Logs and messages show the location: it
    /// must contain no secret.
    pub(super) parse: fn(&str) -> Option<OsString>,
    /// Opens the store at the location of the options' URL.
    pub(super) open: fn(&Options) -> Result<Arc<dyn Backend>, OpenError>,
    /// What an operator can do with a store that the server need not have open. `None` if there is no such store.
    pub(super) operations: Option<Operations>,
}

/// What an operator can do with the store at a location.
pub(super) struct Operations {
    /// Looks for damage.
    pub(super) check: fn(&OsStr) -> Result<CheckReport, OpenError>,
    /// Copies what is whole into a new store.
    pub(super) repair: fn(&OsStr, &Path) -> Result<RepairReport, OpenError>,
    /// Writes a copy into a new file.
    pub(super) backup: fn(&OsStr, &Path) -> Result<(), OpenError>,
    /// Marks the store as restored from a backup. Returns its new generation.
    pub(super) restored: fn(&OsStr) -> Result<u32, OpenError>,
    /// Counts tasks and bytes.
    pub(super) stats: fn(&OsStr) -> Result<Stats, OpenError>,
}
