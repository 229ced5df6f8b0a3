//! What a transport says about one request, in the same words for every wire.

use std::sync::Arc;
use std::time::Instant;

/// The wire that a request came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// gRPC over HTTP/2.
    Grpc,
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// HTTP verbs and paths with JSON bodies.
    HttpJson,
}

impl Wire {
    /// The name used in spans and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Grpc => "grpc",
            Wire::JsonRpc => "jsonrpc",
            Wire::HttpJson => "http",
        }
    }
}

/// Who the door found a caller to be. Plain data; it becomes a [`Principal`] only inside this crate, after a door said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The customer that tasks belong to; empty for everybody, where there is no authentication.
    pub owner: Arc<str>,
}

impl Identity {
    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self { owner: Arc::from("") }
    }
}

/// A caller that went through the door. It cannot be made anywhere else, so a handler that has one was called by the
/// server, after authentication.
#[derive(Debug, Clone)]
pub struct Principal(Identity);

impl Principal {
    #[allow(dead_code)]
    pub(crate) fn admitted(identity: Identity) -> Self {
        Self(identity)
    }

    /// The customer that this caller acts for.
    pub fn owner(&self) -> &Arc<str> {
        &self.0.owner
    }
}

/// What a transport says about one request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Who calls.
    pub principal: Principal,
    /// The wire it came by.
    pub wire: Wire,
    /// The rpc's name in the schema.
    pub rpc: &'static str,
    /// The agent that is meant: the scope field of the request, resolved by the service (never empty after that).
    pub agent: Arc<str>,
    /// The protocol version asked for, `Major.Minor`.
    pub version: &'static str,
    /// Extension URIs: those that the client named, and after the service's admission those in use.
    pub extensions: Vec<String>,
    /// When the client stops waiting.
    pub deadline: Option<Instant>,
    /// The `traceparent` header, verbatim.
    pub trace: Option<String>,
    /// The `Idempotency-Key` header or metadata, verbatim.
    pub idempotency_key: Option<String>,
    /// The `Last-Event-ID` header or metadata, verbatim.
    pub last_event_id: Option<String>,
}
