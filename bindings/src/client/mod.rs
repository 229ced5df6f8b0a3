//! Calls a service over any of the three bindings: one generated, typed client over one [`Transport`] for each binding.
//!
//! A call fails with a [`ClientError`]: the server refused it, could not be reached, or sent an answer that the
//! protocol does not allow. A refusal looks the same over every binding.

mod details;
mod error;
pub mod grpc;
pub mod http_json;
pub mod jsonrpc;
mod options;
pub mod sse;
mod stream;
pub mod transport;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rpc::Rpc;

pub use error::{ClientError, Code, ServerError};
pub use grpc::Grpc;
pub use http_json::HttpJson;
pub use jsonrpc::JsonRpc;
pub use options::CallOptions;
pub use transport::HttpClient;

/// The most bytes of one answer, or of one event of a stream, that a client reads.
pub const MAX_ANSWER: usize = 128 << 20;

/// A message that every binding can send and read. Every generated message is one.
pub trait WireMessage: prost::Message + Serialize + DeserializeOwned + Clone + Default + 'static {}

impl<T: prost::Message + Serialize + DeserializeOwned + Clone + Default + 'static> WireMessage for T {}

/// Sends typed requests to a server over one binding, and reads its typed answers.
pub trait Transport: Send + Sync {
    /// Calls an rpc that answers once.
    fn unary<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> impl Future<Output = Result<A, ClientError>> + Send;

    /// Calls an rpc that answers with a stream. Returns when the server has accepted the call.
    fn stream<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> impl Future<Output = Result<EventStream<A>, ClientError>> + Send;
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEvent<T> {
    /// The event's id, with which a stream can be resumed after it. Not every binding and server sends one.
    pub id: Option<String>,
    /// The event itself.
    pub message: T,
}

/// The events of a stream, in order. It ends after the last event or after the first error.
pub struct EventStream<T>(Pin<Box<dyn Stream<Item = Result<StreamEvent<T>, ClientError>> + Send>>);

impl<T> EventStream<T> {
    /// Wraps a stream of events.
    pub fn new(stream: impl Stream<Item = Result<StreamEvent<T>, ClientError>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }
}

impl<T> Stream for EventStream<T> {
    type Item = Result<StreamEvent<T>, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl<T> std::fmt::Debug for EventStream<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventStream")
    }
}

/// A wire chosen at run time.
#[derive(Debug, Clone)]
pub enum AnyTransport {
    /// gRPC.
    Grpc(Grpc),
    /// JSON-RPC.
    JsonRpc(JsonRpc),
    /// HTTP+JSON.
    HttpJson(HttpJson),
}

impl Transport for AnyTransport {
    async fn unary<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<A, ClientError> {
        match self {
            Self::Grpc(wire) => wire.unary(rpc, request, options).await,
            Self::JsonRpc(wire) => wire.unary(rpc, request, options).await,
            Self::HttpJson(wire) => wire.unary(rpc, request, options).await,
        }
    }

    async fn stream<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<EventStream<A>, ClientError> {
        match self {
            Self::Grpc(wire) => wire.stream(rpc, request, options).await,
            Self::JsonRpc(wire) => wire.stream(rpc, request, options).await,
            Self::HttpJson(wire) => wire.stream(rpc, request, options).await,
        }
    }
}
