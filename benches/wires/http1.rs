//! An HTTP/1.1 client that does only what the load needs: one request at a time on a connection, bodies with a length
//! or in chunks.

use std::net::SocketAddr;

use bytes::{Buf as _, BytesMut};
use memchr::{memchr, memmem};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::seen::{COMPLETED, Seen};

/// A kept-alive connection.
pub struct Connection {
    socket: TcpStream,
    /// Bytes that were read and not used yet.
    buffer: BytesMut,
}

enum Length {
    Bytes(usize),
    Chunked,
}

impl Connection {
    pub async fn open(server: SocketAddr) -> Result<Self, String> {
        let socket = TcpStream::connect(server).await.map_err(|error| format!("connect: {error}"))?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self { socket, buffer: BytesMut::with_capacity(16 << 10) })
    }

    /// Makes a GET request. Any status but 200 is an error.
    pub async fn get(&mut self, path: &str) -> Result<Vec<u8>, String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\n\r\n");
        let (status, body) = self.exchange(request.as_bytes()).await?;
        if status == 200 { Ok(body.to_vec()) } else { Err(format!("GET {path}: HTTP {status}")) }
    }

    /// Makes a call whose answer is a completed task, and returns the body.
    pub async fn completed(&mut self, request: &[u8]) -> Result<BytesMut, String> {
        let (status, body) = self.exchange(request).await?;
        if status == 200 && memmem::find(&body, COMPLETED).is_some() {
            return Ok(body);
        }
        Err(format!("HTTP {status}: {}", String::from_utf8_lossy(&body[..body.len().min(300)])))
    }

    /// Makes a streaming call and reads it to the end.
    pub async fn stream(&mut self, request: &[u8], mut seen: Seen) -> Result<Seen, String> {
        self.write(request).await?;
        let (status, length) = self.head().await?;
        if status != 200 {
            let body = self.whole(length).await?;
            return Err(format!("HTTP {status}: {}", String::from_utf8_lossy(&body[..body.len().min(300)])));
        }
        let Length::Chunked = length else { return Err("a stream with a length".into()) };
        // An event may come in several chunks, and a chunk may hold several events.
        let mut rest = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if rest.is_empty() {
                let used = lines(&chunk, &mut seen);
                rest.extend_from_slice(&chunk[used..]);
            } else {
                rest.extend_from_slice(&chunk);
                let used = lines(&rest, &mut seen);
                rest.advance(used);
            }
        }
        Ok(seen)
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<(u16, BytesMut), String> {
        self.write(request).await?;
        let (status, length) = self.head().await?;
        Ok((status, self.whole(length).await?))
    }

    async fn write(&mut self, request: &[u8]) -> Result<(), String> {
        self.socket.write_all(request).await.map_err(|error| format!("write: {error}"))
    }

    async fn read(&mut self) -> Result<(), String> {
        self.buffer.reserve(16 << 10);
        match self.socket.read_buf(&mut self.buffer).await {
            Ok(0) => Err("the connection was closed".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("read: {error}")),
        }
    }

    async fn at_least(&mut self, count: usize) -> Result<(), String> {
        while self.buffer.len() < count {
            self.read().await?;
        }
        Ok(())
    }

    async fn head(&mut self) -> Result<(u16, Length), String> {
        let end = loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            self.read().await?;
        };
        let head = self.buffer.split_to(end + 4);
        let status = head.get(9..12).and_then(number).ok_or("no status")?;
        let mut length = None;
        for line in head[..].split(|byte| *byte == b'\n').skip(1) {
            let Some(colon) = memchr(b':', line) else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                length = number(value).map(Length::Bytes);
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                length = Some(Length::Chunked);
            }
        }
        let status = u16::try_from(status).map_err(|_| "no status")?;
        Ok((status, length.ok_or("a body without a length")?))
    }

    async fn whole(&mut self, length: Length) -> Result<BytesMut, String> {
        match length {
            Length::Bytes(count) => {
                self.at_least(count).await?;
                Ok(self.buffer.split_to(count))
            }
            Length::Chunked => {
                let mut body = BytesMut::new();
                while let Some(chunk) = self.chunk().await? {
                    body.extend_from_slice(&chunk);
                }
                Ok(body)
            }
        }
    }

    /// Returns the next chunk, or `None` at the end of the body.
    async fn chunk(&mut self) -> Result<Option<BytesMut>, String> {
        let end = loop {
            if let Some(end) = memchr(b'\n', &self.buffer) {
                break end;
            }
            self.read().await?;
        };
        let line = self.buffer.split_to(end + 1);
        let digits = std::str::from_utf8(line.trim_ascii()).map_err(|_| "not a chunk")?;
        let size = usize::from_str_radix(digits, 16).map_err(|_| format!("not the size of a chunk: {digits}"))?;
        self.at_least(size + 2).await?;
        let chunk = self.buffer.split_to(size);
        self.buffer.advance(2);
        Ok((size > 0).then_some(chunk))
    }
}

/// Handles the complete lines of a stream and returns their length in bytes.
fn lines(bytes: &[u8], seen: &mut Seen) -> usize {
    let mut at = 0;
    while let Some(length) = memchr(b'\n', &bytes[at..]) {
        if let Some(data) = bytes[at..at + length].strip_prefix(b"data:") {
            seen.json(data);
        }
        at += length + 1;
    }
    at
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
