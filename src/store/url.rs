//! The URL of a store, and the options that a store is opened with.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::time::Duration;

/// The URL of a store: a scheme of one of the backends, and a location that this backend understands.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    scheme: &'static str,
    location: OsString,
}

impl StoreUrl {
    /// Combines a scheme with a location.
    pub(super) fn new(scheme: &'static str, location: impl Into<OsString>) -> Self {
        Self { scheme, location: location.into() }
    }

    /// Returns what stands before the colon.
    pub(super) fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Returns what stands behind the colon.
    pub(super) fn location(&self) -> &OsStr {
        &self.location
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, self.location.display())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// What a store is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The URL.
    pub url: StoreUrl,
    /// How long after its end a task is deleted. `None` keeps tasks for ever.
    pub keep_finished: Option<Duration>,
}

impl Options {
    /// Returns the options for the store at `url`, which keeps ended tasks for 30 days.
    pub fn new(url: StoreUrl) -> Self {
        Options { url, keep_finished: Some(Duration::from_secs(30 * 24 * 3600)) }
    }
}
