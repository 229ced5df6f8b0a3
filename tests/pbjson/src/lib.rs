//! The messages of A2A with the ProtoJSON that pbjson generates from the same schema.
//!
//! The product does not depend on this crate. `tests/schema/pbjson.rs` compares both codecs case by case, and
//! `benches/codecs.rs` compares their speed.

#![allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rust_2018_idioms)]

include!(concat!(env!("OUT_DIR"), "/lf.a2a.v1.rs"));
include!(concat!(env!("OUT_DIR"), "/lf.a2a.v1.serde.rs"));
