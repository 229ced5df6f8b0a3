//! A gRPC client on bare HTTP/2 frames: one connection, one call at a time.

use std::net::SocketAddr;

use bytes::{Buf as _, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tricord::schema::StreamResponse;

use crate::seen::Seen;

/// A kept-alive connection.
pub struct Connection {
    sender: SendRequest<Bytes>,
    server: SocketAddr,
}

impl Connection {
    pub async fn open(server: SocketAddr) -> Result<Self, String> {
        let socket = TcpStream::connect(server).await.map_err(|error| format!("connect: {error}"))?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut builder = h2::client::Builder::new();
        // Windows large enough that a stream never waits for this client.
        builder.initial_window_size(4 << 20).initial_connection_window_size(16 << 20);
        let (sender, connection) = builder.handshake(socket).await.map_err(text)?;
        spawn_local(connection);
        Ok(Self { sender, server })
    }

    /// Makes a unary call and returns the message of the answer.
    pub async fn unary(&mut self, rpc: &str, request: &[u8]) -> Result<Bytes, String> {
        let (mut body, head) = self.start(rpc, request).await?;
        let mut message = BytesMut::new();
        while let Some(data) = next(&mut body).await? {
            message.extend_from_slice(&data);
        }
        finish(&mut body, &head).await?;
        if message.len() < 5 {
            return Err("an answer without a message".into());
        }
        message.advance(5);
        Ok(message.freeze())
    }

    /// Makes a streaming call and reads it to the end.
    pub async fn stream(&mut self, rpc: &str, request: &[u8], mut seen: Seen) -> Result<Seen, String> {
        let (mut body, head) = self.start(rpc, request).await?;
        let mut rest = BytesMut::new();
        while let Some(data) = next(&mut body).await? {
            rest.extend_from_slice(&data);
            while let Some(prefix) = rest.first_chunk::<5>() {
                let [_, length @ ..] = *prefix;
                let end = 5 + u32::from_be_bytes(length) as usize;
                if rest.len() < end {
                    break;
                }
                let event = StreamResponse::decode(&rest[5..end]).map_err(text)?;
                rest.advance(end);
                seen.message(&event);
            }
        }
        finish(&mut body, &head).await?;
        Ok(seen)
    }

    async fn start(&mut self, rpc: &str, request: &[u8]) -> Result<(RecvStream, HeaderMap), String> {
        let head = Request::post(format!("http://{}/lf.a2a.v1.A2AService/{rpc}", self.server))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("a2a-version", "1.0")
            .body(())
            .map_err(text)?;
        std::future::poll_fn(|cx| self.sender.poll_ready(cx)).await.map_err(text)?;
        let (response, mut sending) = self.sender.send_request(head, false).map_err(text)?;
        sending.send_data(Bytes::copy_from_slice(request), true).map_err(text)?;
        let (head, body) = response.await.map_err(text)?.into_parts();
        Ok((body, head.headers))
    }
}

async fn next(body: &mut RecvStream) -> Result<Option<Bytes>, String> {
    let Some(data) = body.data().await.transpose().map_err(text)? else { return Ok(None) };
    body.flow_control().release_capacity(data.len()).map_err(text)?;
    Ok(Some(data))
}

/// Reads the status, which is in the headers of a call that failed at once.
async fn finish(body: &mut RecvStream, head: &HeaderMap) -> Result<(), String> {
    let trailers = body.trailers().await.map_err(text)?.unwrap_or_default();
    let field = |name| trailers.get(name).or_else(|| head.get(name)).and_then(|value| value.to_str().ok());
    match field("grpc-status") {
        Some("0") => Ok(()),
        status => Err(format!("gRPC status {status:?}: {}", field("grpc-message").unwrap_or_default())),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
