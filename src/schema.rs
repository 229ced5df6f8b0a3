//! The generated code: the types of the protocol and of the store, the service trait, its bindings and its client.

#![allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_imports)]

/// All generated code, by package and generator. Private, so that `use tricord::schema::*` does not import a module
/// named `tricord`.
mod tree {
    include!(concat!(env!("OUT_DIR"), "/tricord.rs"));
}

#[cfg(feature = "client")]
pub use tree::client::{self, A2aServiceClient};
pub use tree::lf::a2a::v1::*;
pub use tree::service::{self, A2aService, RPCS};
pub use tree::{codec, grpc, http_json, requests};

/// The records that the store keeps.
pub mod store {
    pub use super::tree::tricord::store::v1::*;
}

/// The encoded `FileDescriptorSet` of the schema, options included.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The HTTP+JSON binding as an OpenAPI 3.1 document.
pub const OPENAPI: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

/// The JSON-RPC binding as an OpenRPC 1.3 document.
pub const OPENRPC: &str = include_str!(concat!(env!("OUT_DIR"), "/openrpc.json"));
