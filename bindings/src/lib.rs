//! What a binding is, and nothing of any one protocol: the runtime that code made by `tricord-codegen` calls.
//!
//! A request comes in as bytes of one of three bindings and becomes a [`Call`] (what the transport said) and a typed
//! request; the answer comes back as a [`Reply`], [`Events`] or an [`Error`] and leaves as bytes again. One [`Pipeline`]
//! runs these steps. The bindings are three implementations of one trait, [`pipeline::Exchange`], with the same functions
//! in the same order, so that their differences can be read side by side.

mod authenticator;
mod binding;
pub mod body;
pub mod budget;
pub mod call;
#[cfg(feature = "client")]
pub mod client;
pub mod codec;
pub mod details;
mod encoded;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
mod gather;
pub mod grpc;
pub mod http_json;
pub mod jsonrpc;
pub mod media_type;
pub mod meter;
pub mod offload;
pub mod output;
pub mod pipeline;
pub mod proto_json;
pub mod query;
pub mod reply;
pub mod request;
pub mod rpc;
pub mod server;
mod sse;
#[cfg(test)]
mod testing;
pub mod weight;
pub mod wkt;

pub use authenticator::{Anonymous, Authenticator, Identity, Peer, Principal, RequestHead};
pub use binding::{Binding, UnknownBinding};
pub use body::Body;
pub use call::Call;
pub use codec::Codec;
pub use encoded::{Encoded, Wrapped, Wraps};
pub use error::{Error, Kind, Protocol, Violation};
pub use meter::CallStats;
pub use output::Output;
pub use pipeline::{BindingSettings, Pipeline};
pub use proto_json::Validate;
pub use reply::{EventId, Events, Reply};
pub use rpc::{Capability, HttpRule, Rpc};
