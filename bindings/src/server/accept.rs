//! The accept loop, and one connection after it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::{Service, ServiceExt as _};

use super::first_bytes::{FirstBytes, PREFACE};
use super::progress::{Noted, StreamExecutor, WriteTimeout};
use super::strict_http1::StrictHttp1;
use super::{ConnectionLimits, Drain};
use crate::Peer;
use crate::body::BoxError;

/// A port that is listened on.
#[derive(Clone)]
pub struct Port {
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
    drain: Drain,
    http: Builder<StreamExecutor>,
    /// The same where it is known which version is spoken: nothing is read ahead and put back then, which would double
    /// the buffer that a connection keeps.
    http1: Builder<StreamExecutor>,
    http2: Builder<StreamExecutor>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("tls", &self.tls.is_some()).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Port {
    /// A port with these limits, TLS if there is an acceptor, and HTTP/1.1 as well as HTTP/2, with or without TLS.
    pub fn new(tls: Option<TlsAcceptor>, limits: ConnectionLimits, drain: Drain) -> Self {
        let mut http = Builder::new(StreamExecutor { unread: limits.write });
        // Without a timer hyper would never act on its time limits.
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.headers)
            .max_buf_size((limits.header_bytes as usize).max(8 << 10));
        // Windows as large as one connection can be trusted to fill.
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.header_bytes)
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(4 << 20)
            .keep_alive_interval(limits.keep_alive)
            .keep_alive_timeout(limits.keep_alive);
        let (http1, http2) = (http.clone().http1_only(), http.clone().http2_only());
        Self { tls, limits, drain, http, http1, http2 }
    }

    /// Accepts connections until the drain begins; those accepted go on, and the drain knows when they have ended.
    ///
    /// Every request has the [`Peer`] that sent it among its extensions. An `axum::Router` is such a service.
    pub async fn serve<S, B>(self, listener: TcpListener, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>,
        S: Clone + Send + Sync + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let free = Arc::new(Semaphore::new(self.limits.connections.min(Semaphore::MAX_PERMITS)));
        let port = Arc::new(self);
        let begun = port.drain.begun().clone();
        let mut backoff = AcceptBackoff::default();
        while let Some(accepted) = begun.run_until_cancelled(accept(&listener, &free)).await {
            match accepted {
                Ok((stream, peer, permit)) => {
                    backoff = AcceptBackoff::default();
                    let connection = port.clone().connection(stream, peer, service.clone(), permit);
                    port.drain.tracker().spawn(connection);
                }
                Err(error) => backoff.after(&error).await,
            }
        }
    }

    async fn connection<S, B>(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        service: S,
        _permit: OwnedSemaphorePermit,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>,
        S: Clone + Send + Sync + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let deadline = Instant::now() + self.limits.first_bytes;
        if let Err(error) = self.configure(&stream) {
            tracing::debug!(%error, "a connection without its options");
        }
        let Some(tls) = &self.tls else {
            let Some(http) = self.version(&stream, deadline).await else { return };
            return self.http(http, stream, peer.into(), deadline, service).await;
        };
        let handshake = tokio::time::timeout_at(deadline, Box::pin(tls.accept(stream)));
        let Some(accepted) = self.drain.begun().run_until_cancelled(handshake).await else { return };
        match accepted {
            Ok(Ok(stream)) => {
                let peer = Peer::new(peer, stream.get_ref().1.peer_certificates());
                // In a box, so that a connection without TLS has no room for it.
                Box::pin(self.http(self.agreed(&stream), stream, peer, deadline, service)).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    /// What a connection begins with, looked at and left where it is; `None` if nothing comes in time.
    async fn version(&self, stream: &TcpStream, deadline: Instant) -> Option<&Builder<StreamExecutor>> {
        let mut first = [0; PREFACE.len()];
        let looked = tokio::select! {
            looked = tokio::time::timeout_at(deadline, stream.peek(&mut first)) => looked,
            () = self.drain.begun().cancelled() => return None,
        };
        match looked {
            Ok(Ok(count)) if first[..count] == *PREFACE => Some(&self.http2),
            Ok(Ok(count)) if !PREFACE.starts_with(&first[..count]) => Some(&self.http1),
            // A part of the preface, or nothing more to come: the bytes that follow decide.
            Ok(_) => Some(&self.http),
            Err(_) => {
                tracing::debug!("the first bytes are late");
                None
            }
        }
    }

    /// What the TLS handshake agreed on.
    fn agreed(&self, stream: &TlsStream<TcpStream>) -> &Builder<StreamExecutor> {
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => &self.http2,
            Some(b"http/1.1") => &self.http1,
            _ => &self.http,
        }
    }

    fn configure(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        // Otherwise a peer that vanished in the middle of a stream is kept for a quarter of an hour and more.
        #[cfg(target_os = "linux")]
        rustix::net::sockopt::set_tcp_user_timeout(
            stream,
            u32::try_from(self.limits.unread.as_millis()).unwrap_or(u32::MAX),
        )?;
        Ok(())
    }

    async fn http<I, S, B>(&self, http: &Builder<StreamExecutor>, io: I, peer: Peer, deadline: Instant, service: S)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>,
        S: Clone + Send + Sync + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let answer = service.clone().oneshot(request);
            // In a box: hyper keeps the room of a call for as long as its connection, idle streams included.
            Box::pin(async move { answer.await.map(|response| response.map(Noted::new)) })
        });
        let io = TokioIo::new(WriteTimeout::new(StrictHttp1::new(FirstBytes::new(io, deadline)), self.limits.write));
        let mut connection = std::pin::pin!(http.serve_connection(io, service));
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = self.drain.begun().cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.drain.is_cut().cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection broke off");
        }
    }
}

type Accepted = (TcpStream, SocketAddr, OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> io::Result<Accepted> {
    let permit = free.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

/// How long to wait after an error of `accept`, which comes back at once as long as no file can be opened.
#[derive(Debug, Default)]
struct AcceptBackoff(Duration);

impl AcceptBackoff {
    async fn after(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
        if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
            return;
        }
        self.0 = (self.0 * 2).clamp(Duration::from_millis(10), Duration::from_secs(1));
        tracing::warn!(%error, "no connection can be accepted; trying again");
        tokio::time::sleep(self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_grows_to_a_second_and_is_not_for_peers_that_left() {
        let mut backoff = AcceptBackoff::default();
        let begun = Instant::now();
        backoff.after(&io::ErrorKind::ConnectionAborted.into()).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let begun = Instant::now();
            backoff.after(&io::Error::other("too many open files")).await;
            waits.push(begun.elapsed().as_millis());
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }
}
