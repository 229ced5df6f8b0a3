//! The address of a store, and the options that it is opened with.

use super::OpenError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The address of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `sqlite:PATH`: one SQLite file, with a few files beside it.
    Sqlite(PathBuf),
    /// `memory:`: tasks that are gone when the process ends, in a private temporary directory.
    Memory,
}

impl FromStr for StoreUrl {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        if matches!(text, "memory:" | "memory://") {
            return Ok(StoreUrl::Memory);
        }
        let path = text.strip_prefix("sqlite:").ok_or_else(|| OpenError::Address(text.into()))?;
        // `sqlite:///var/x` is how an absolute path is often written.
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.ends_with('/') {
            return Err(OpenError::Address(text.into()));
        }
        Ok(StoreUrl::Sqlite(path.into()))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreUrl::Memory => f.write_str("memory:"),
        }
    }
}

/// What a store is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The address.
    pub url: StoreUrl,
    /// How long after its end a task is deleted. `None` keeps tasks for ever.
    pub keep_finished: Option<Duration>,
}

impl Options {
    /// The store at `url`, which keeps ended tasks for 30 days.
    pub fn new(url: StoreUrl) -> Self {
        Options { url, keep_finished: Some(Duration::from_secs(30 * 24 * 3600)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, url) in [
            ("memory:", StoreUrl::Memory),
            ("sqlite:a.db", StoreUrl::Sqlite("a.db".into())),
            ("sqlite:/a/b.db", StoreUrl::Sqlite("/a/b.db".into())),
        ] {
            assert_eq!(text.parse::<StoreUrl>().unwrap(), url);
            assert_eq!(url.to_string(), text);
        }
        assert_eq!("sqlite:///a/b.db".parse::<StoreUrl>().unwrap(), StoreUrl::Sqlite("/a/b.db".into()));
        for text in ["", "sqlite:", "sqlite:a/", "mysql://x", "/a/b.db"] {
            assert!(matches!(text.parse::<StoreUrl>(), Err(OpenError::Address(_))), "{text}");
        }
    }
}
