//! What a wire is, and nothing of any one protocol: the runtime that code made by `tricord-codegen` calls.
//!
//! A request comes in as bytes of one of three wires and leaves this crate as a [`Call`] (what the transport said) and
//! a typed request; the answer comes back as a [`Reply`], [`Events`] or an [`Error`] and leaves as bytes again. The three
//! wires are three files with the same functions in the same order, so that their differences can be read side by side.

pub mod body;
pub mod call;
#[cfg(feature = "client")]
pub mod client;
pub mod details;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod grpc;
pub mod host;
pub mod http_json;
pub mod jsonrpc;
mod meter;
pub mod proto_json;
pub mod query;
pub mod reply;
pub mod rpc;
pub mod server;
mod sse;
#[cfg(test)]
mod testing;
pub mod wkt;

pub use body::Body;
pub use call::{Binding, Call, Identity, Principal};
pub use error::{Error, Kind, Protocol, Violation};
pub use host::{Authenticator, BindingSettings, Host};
pub use meter::CallCount;
pub use proto_json::Validate;
pub use reply::{Encoded, EventId, Events, Reply, Wrapped, Wraps};
pub use rpc::{HttpRule, Rpc};
