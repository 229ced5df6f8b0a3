//! `[store]`: where tasks are kept, and for how long.

use std::time::Duration;

use crate::settings::Section;
use crate::settings::read::parsed;
use crate::settings::value::duration;
use crate::store::{OpenError, Options, StoreUrl};

/// `[store]`: where tasks are kept.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `url`: which store.
    pub url: StoreUrl,
    /// `keep_finished`: how long a finished task is kept; `None` for ever.
    pub keep_finished: Option<Duration>,
}

/// Reads `[store]`.
pub(super) fn read(mut section: Section<'_>) -> StoreConfig {
    let url = section.get("url", parsed(url)).unwrap_or_default();
    let keep = |text: &str| if text == "forever" { Ok(None) } else { duration(text).map(Some) };
    let default = Options::new(url.clone());
    let keep_finished = section.get("keep_finished", parsed(keep)).unwrap_or(default.keep_finished);
    if keep_finished.is_some_and(|keep| keep < Duration::from_secs(3600)) {
        section.problem(
            "keep_finished",
            "is less than an hour, which clients rely on: use \"1h\" or more, or \"forever\"",
        );
    }
    section.finish();
    StoreConfig { url, keep_finished }
}

/// Reads the URL of a store.
pub(super) fn url(text: &str) -> Result<StoreUrl, String> {
    text.parse().map_err(|error: OpenError| error.to_string())
}
