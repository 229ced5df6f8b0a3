//! The bindings of a service, as one enum for servers, clients and metrics.

use std::fmt;
use std::str::FromStr;

/// How a service is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    /// gRPC over HTTP/2.
    Grpc,
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// HTTP verbs and paths with JSON bodies.
    HttpJson,
}

impl Binding {
    /// Every binding, in the order in which they are listed to people.
    pub const ALL: [Self; 3] = [Self::Grpc, Self::JsonRpc, Self::HttpJson];

    /// Returns the name used in logs, metrics and options: `grpc`, `jsonrpc` or `http`.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Grpc => "grpc",
            Binding::JsonRpc => "jsonrpc",
            Binding::HttpJson => "http",
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no binding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown binding {0:?}: use grpc, jsonrpc or http")]
pub struct UnknownBinding(String);

impl FromStr for Binding {
    type Err = UnknownBinding;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|binding| binding.name() == text).ok_or_else(|| UnknownBinding(text.to_owned()))
    }
}
