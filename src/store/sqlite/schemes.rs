//! The schemes of this backend: `sqlite:` and `memory:`.

use super::super::StoreUrl;
use super::super::scheme::{Operations, Scheme};
use super::backend::open;
use super::check::check;
use super::location::StoreLocation;
use super::operate::{backup, restored, stats};
use super::repair::repair;
use std::ffi::OsString;
use std::path::PathBuf;

const SQLITE: &str = "sqlite";
const MEMORY: &str = "memory";

impl StoreUrl {
    /// Returns `sqlite:PATH`: one SQLite file, with a few files beside it.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self::new(SQLITE, path.into())
    }

    /// Returns `memory:`: a store in a private temporary directory, which is removed when the process ends.
    pub fn memory() -> Self {
        Self::new(MEMORY, "")
    }
}

/// The schemes, for the registry.
pub(in crate::store) static SCHEMES: &[Scheme] = &[
    Scheme {
        name: SQLITE,
        form: "sqlite:PATH",
        is_durable: true,
        parse: |text| {
            // `sqlite:///var/x` is how an absolute path is often written.
            let path = text.strip_prefix("//").unwrap_or(text);
            (!path.is_empty() && !path.ends_with('/')).then(|| path.into())
        },
        open: |options| open(StoreLocation::of_file(options.url.location().as_ref())?, options.keep_finished),
        operations: Some(Operations {
            check: |path| check(path.as_ref()),
            repair: |path, to| repair(path.as_ref(), to),
            backup: |path, to| backup(path.as_ref(), to),
            restored: |path| restored(path.as_ref()),
            stats: |path| stats(path.as_ref()),
        }),
    },
    Scheme {
        name: MEMORY,
        form: "memory:",
        is_durable: false,
        parse: |text| matches!(text, "" | "//").then(OsString::new),
        open: |options| open(StoreLocation::temporary()?, options.keep_finished),
        operations: None,
    },
];
