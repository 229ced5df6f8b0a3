//! The schemes of the registered backends: which URLs there are, and which backend serves one.

use super::backend::Backend;
use super::report::{CheckReport, RepairReport, Stats};
use super::scheme::{Operations, Scheme};
use super::{BACKENDS, DEFAULT_URL, OpenError, Options, StoreUrl};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

impl StoreUrl {
    /// Returns whether tasks are kept when the server stops.
    pub fn is_durable(&self) -> bool {
        find(self.scheme()).is_none_or(|scheme| scheme.is_durable)
    }

    /// Returns how the URLs of this build are written, for help texts: `"a:PATH", "b:" or "c:HOST"`.
    pub fn forms() -> String {
        let forms: Vec<_> = schemes().map(|scheme| format!("\"{}\"", scheme.form)).collect();
        match forms.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => "a build that has a store".to_owned(),
        }
    }
}

impl Default for StoreUrl {
    /// Returns the URL of the store that is used if none is configured.
    fn default() -> Self {
        let (scheme, location) = DEFAULT_URL;
        StoreUrl::new(scheme, location)
    }
}

impl FromStr for StoreUrl {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let parsed = text.split_once(':').and_then(|(name, location)| {
            let scheme = find(name)?;
            Some(StoreUrl::new(scheme.name, (scheme.parse)(location)?))
        });
        // An error repeats only the scheme of a URL with an authority: what follows may contain a password.
        parsed.ok_or_else(|| unsupported(text.split_once("://").map_or(text, |(scheme, _)| scheme)))
    }
}

fn schemes() -> impl Iterator<Item = &'static Scheme> {
    BACKENDS.iter().copied().flatten()
}

fn find(name: &str) -> Option<&'static Scheme> {
    schemes().find(|scheme| scheme.name == name)
}

fn unsupported(found: &str) -> OpenError {
    OpenError::Address { found: found.to_owned(), supported: StoreUrl::forms() }
}

/// Opens the store of a URL.
pub(super) fn open(options: &Options) -> Result<Arc<dyn Backend>, OpenError> {
    let name = options.url.scheme();
    let scheme = find(name).ok_or_else(|| unsupported(name))?;
    (scheme.open)(options)
}

fn operations(url: &StoreUrl) -> Result<&'static Operations, OpenError> {
    let scheme = find(url.scheme()).ok_or_else(|| unsupported(url.scheme()))?;
    scheme.operations.as_ref().ok_or(OpenError::NotKept(scheme.form))
}

/// Checks a store for damage: everything in it against everything else.
///
/// # Errors
///
/// [`OpenError`] if the store cannot be read at all.
pub(crate) fn check(url: &StoreUrl) -> Result<CheckReport, OpenError> {
    (operations(url)?.check)(url.location())
}

/// Copies every task that is whole into a new store at `to`, and leaves the store as it is.
///
/// # Errors
///
/// [`OpenError`] if the store cannot be read at all, or the new one cannot be written, or exists.
pub(crate) fn repair(url: &StoreUrl, to: &Path) -> Result<RepairReport, OpenError> {
    (operations(url)?.repair)(url.location(), to)
}

/// Copies a store, as it is at one moment, to a new file. A server that has it open goes on.
///
/// # Errors
///
/// [`OpenError`] if the store cannot be read or the copy cannot be written, or if the file exists.
pub(crate) fn backup(url: &StoreUrl, to: &Path) -> Result<(), OpenError> {
    (operations(url)?.backup)(url.location(), to)
}

/// Marks a store as restored from a backup, so that clients' event ids of the lost time are not taken for new ones.
/// Returns the new generation.
///
/// # Errors
///
/// [`OpenError`], among others while a server has the store open.
pub(crate) fn restored(url: &StoreUrl) -> Result<u32, OpenError> {
    (operations(url)?.restored)(url.location())
}

/// Returns the statistics of a store.
///
/// # Errors
///
/// [`OpenError`] if the store cannot be read.
pub(crate) fn stats(url: &StoreUrl) -> Result<Stats, OpenError> {
    (operations(url)?.stats)(url.location())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_backends_have_the_same_scheme() {
        for scheme in schemes() {
            assert_eq!(schemes().filter(|other| other.name == scheme.name).count(), 1, "{}", scheme.name);
            assert!(scheme.form.starts_with(&format!("{}:", scheme.name)), "{}", scheme.form);
        }
    }

    #[test]
    #[cfg(feature = "sqlite")]
    fn urls_are_read_and_written() {
        for (text, url) in [
            ("memory:", StoreUrl::memory()),
            ("sqlite:a.db", StoreUrl::sqlite("a.db")),
            ("sqlite:/a/b.db", StoreUrl::sqlite("/a/b.db")),
        ] {
            assert_eq!(text.parse::<StoreUrl>().unwrap(), url);
            assert_eq!(url.to_string(), text);
        }
        assert_eq!("memory://".parse::<StoreUrl>().unwrap(), StoreUrl::memory());
        assert_eq!("sqlite:///a/b.db".parse::<StoreUrl>().unwrap(), StoreUrl::sqlite("/a/b.db"));
        assert_eq!(StoreUrl::default().to_string().parse::<StoreUrl>().unwrap(), StoreUrl::default());
        for text in ["", "memory", "memory:x", "sqlite:", "sqlite:a/", "mysql://x", "/a/b.db"] {
            assert!(matches!(text.parse::<StoreUrl>(), Err(OpenError::Address { .. })), "{text}");
        }
    }

    #[test]
    #[cfg(feature = "sqlite")]
    fn an_unsupported_url_is_answered_with_those_that_are() {
        let error = "mysql://ann:s3cret@h/d".parse::<StoreUrl>().unwrap_err().to_string();
        assert_eq!(error, "unsupported store URL \"mysql\": use \"sqlite:PATH\" or \"memory:\"");
        let error = check(&StoreUrl::memory()).unwrap_err().to_string();
        assert_eq!(error, "a memory: store ends with its server: there is nothing to read");
    }
}
