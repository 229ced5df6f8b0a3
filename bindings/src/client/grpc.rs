//! The gRPC transport: tonic's client over this crate's connections.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use http::Uri;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, Error as SendError, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tonic::metadata::MetadataMap;
use tonic_prost::ProstCodec;

use super::Code;
use super::transport::{KEEPALIVE, connector, origin, uri, wrapped_send_error};
use super::{CallOptions, ClientError, EventStream, MAX_ANSWER, ServerError, StreamEvent, Transport, WireMessage};
use crate::error::Protocol;
use crate::rpc::Rpc;

/// How long the server may take to answer an HTTP/2 ping.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Calls a server over gRPC.
#[derive(Clone)]
pub struct Grpc {
    channel: Channel,
    origin: Uri,
    protocol: &'static Protocol,
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grpc({})", self.origin)
    }
}

impl Grpc {
    /// Creates a transport for the server at `url`: `https://host:port`, or `http://host:port` for HTTP/2 without TLS.
    ///
    /// # Errors
    /// When `url` is not an `http` or `https` URL.
    pub fn new(url: &str, protocol: &'static Protocol) -> Result<Self, ClientError> {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_only(true)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(PROBE_TIMEOUT)
            .build(connector(true));
        Ok(Self { channel: Channel(client), origin: uri(url)?, protocol })
    }

    fn client(&self) -> tonic::client::Grpc<Channel> {
        tonic::client::Grpc::with_origin(self.channel.clone(), self.origin.clone())
            .max_decoding_message_size(MAX_ANSWER)
            .max_encoding_message_size(MAX_ANSWER)
    }

    fn request<Q: Clone>(&self, request: &Q, options: &CallOptions) -> Result<tonic::Request<Q>, ClientError> {
        let mut request = tonic::Request::new(request.clone());
        *request.metadata_mut() = MetadataMap::from_headers(options.headers(self.protocol)?);
        if let Some(wait) = options.wait() {
            request.set_timeout(wait);
        }
        Ok(request)
    }

    fn error(&self, status: &tonic::Status) -> ClientError {
        if let Some(cause) = std::error::Error::source(status) {
            return wrapped_send_error(&origin(&self.origin), cause);
        }
        let mut error = ServerError::new(Code::Grpc(status.code()), status.message());
        error.read_protobuf(status.details());
        if error.retry_after.is_none() {
            error.read_retry_after(status.metadata().get("retry-after").and_then(|value| value.to_str().ok()));
        }
        error.into()
    }
}

impl Transport for Grpc {
    async fn unary<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<A, ClientError> {
        let request = self.request(request, options)?;
        let mut client = self.client();
        let path = PathAndQuery::from_static(rpc.path);
        let answer = options.deadline().bound(client.unary(request, path, ProstCodec::<Q, A>::default())).await?;
        answer.map(tonic::Response::into_inner).map_err(|status| self.error(&status))
    }

    async fn stream<Q: WireMessage, A: WireMessage>(
        &self,
        rpc: &'static Rpc,
        request: &Q,
        options: &CallOptions,
    ) -> Result<EventStream<A>, ClientError> {
        let request = self.request(request, options)?;
        let deadline = options.deadline();
        let mut client = self.client();
        let path = PathAndQuery::from_static(rpc.path);
        let answer = deadline.bound(client.server_streaming(request, path, ProstCodec::<Q, A>::default())).await?;
        let events = answer.map_err(|status| self.error(&status))?.into_inner();
        let reading = Some((events, self.clone()));
        Ok(EventStream::new(stream::unfold(reading, move |reading| async move {
            let (mut events, wire) = reading?;
            match deadline.bound(events.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(message))) => Some((Ok(StreamEvent { id: None, message }), Some((events, wire)))),
                Ok(Some(Err(status))) => Some((Err(wire.error(&status)), None)),
                Err(error) => Some((Err(error), None)),
            }
        })))
    }
}

/// Adapts connections to the type that tonic expects.
#[derive(Clone)]
struct Channel(Client<HttpsConnector<HttpConnector>, tonic::body::Body>);

impl tower::Service<http::Request<tonic::body::Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = SendError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let answer = self.0.request(request);
        Box::pin(answer)
    }
}
