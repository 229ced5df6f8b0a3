//! The fuzz targets: functions that accept any bytes and panic if a property does not hold.
//!
//! `cargo fuzz run <name>` runs them on nightly Rust. `tests/fuzz.rs` includes this file and runs them for a while on
//! stable. Each target returns whether the bytes were accepted, so that the stable driver knows which inputs to change
//! further.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic)]

mod cards;
mod messages;
mod server;
mod texts;

pub use cards::{card, keys};
pub use messages::{proto_json, protobuf};
pub use server::server;
pub use texts::{envelope, headers, last_event_id, page_token, path, query, sse};

/// A fuzz target.
pub type Target = fn(&[u8]) -> bool;

/// All targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("card", card),
    ("envelope", envelope),
    ("headers", headers),
    ("keys", keys),
    ("last_event_id", last_event_id),
    ("page_token", page_token),
    ("path", path),
    ("proto_json", proto_json),
    ("protobuf", protobuf),
    ("query", query),
    ("server", server),
    ("sse", sse),
];
