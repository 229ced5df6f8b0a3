//! A document as it is served: its bytes, and what caches need to know of it.

use std::time::SystemTime;

use bytes::Bytes;
use ring::digest;
use serde::Serialize;

/// JSON that is served as it is.
#[derive(Debug, Clone)]
pub struct Document {
    /// The JSON.
    pub json: Bytes,
    /// The `ETag`, quotes included: of the same bytes always the same.
    pub etag: String,
    /// The `Last-Modified`.
    pub last_modified: SystemTime,
}

impl Document {
    /// Writes a value down.
    pub fn new(value: &impl Serialize, last_modified: SystemTime) -> Self {
        Self::of(serde_json::to_vec(value).unwrap_or_default(), last_modified)
    }

    /// Takes JSON that is written already.
    pub fn of(json: impl Into<Bytes>, last_modified: SystemTime) -> Self {
        let json = json.into();
        let hash = digest::digest(&digest::SHA256, &json);
        let hex: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { json, etag: format!("\"{hex}\""), last_modified }
    }
}
