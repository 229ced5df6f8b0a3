//! Refuses HTTP/1.1 requests that a proxy in front may read differently (RFC 9112, sections 2.2, 3.2 and 6.3).
//!
//! hyper takes a line feed alone for the end of a line, lets `Transfer-Encoding` override `Content-Length`, and does not ask
//! for `Host`. A proxy that does otherwise sees other requests on the same connection (request smuggling). So the heads of
//! requests are read here too, on their way to hyper. What is to be refused is made unreadable, and hyper answers 400.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest line that is kept over two reads, in bytes. hyper refuses longer heads.
const LONGEST_LINE: usize = 1 << 20;

/// What takes the place of a byte that makes a request ambiguous. No head can hold it.
const UNREADABLE: u8 = 0;

/// A connection whose requests are checked while they are read. HTTP/2 passes.
pub(super) struct StrictHttp1<I> {
    io: I,
    scanner: Scanner,
}

impl<I> StrictHttp1<I> {
    pub(super) fn new(io: I) -> Self {
        Self { io, scanner: Scanner::default() }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for StrictHttp1<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        std::task::ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        self.scanner.scan(&mut buf.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for StrictHttp1<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// The part of a connection that the next byte belongs to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// Bytes of a body, or of a chunk with its line end.
    Data {
        left: u64,
        then_chunk: bool,
    },
    ChunkSize,
    Trailers,
    /// Nothing more is looked at: HTTP/2, or what hyper refuses by itself.
    Unchecked,
}

/// What a head has said so far.
#[derive(Debug, Default)]
struct Head {
    /// Whether the request line was read.
    begun: bool,
    needs_host: bool,
    has_host: bool,
    length: Option<u64>,
    /// Whether there is a transfer coding; `Some(true)` if the last one is `chunked`.
    chunked: Option<bool>,
}

#[derive(Debug, Default)]
struct Scanner {
    part: Part,
    head: Head,
    /// The beginning of a line that did not come in one read.
    line: Vec<u8>,
}

impl Scanner {
    /// Follows the bytes of the next read, and makes unreadable what must not be read.
    fn scan(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match self.part {
                Part::Unchecked => return,
                Part::Data { left, then_chunk } => {
                    let taken = left.min((bytes.len() - at) as u64);
                    at += usize::try_from(taken).unwrap_or(usize::MAX);
                    self.part = match left - taken {
                        0 if then_chunk => Part::ChunkSize,
                        0 => Part::Head,
                        left => Part::Data { left, then_chunk },
                    };
                }
                Part::Head | Part::ChunkSize | Part::Trailers => {
                    let Some(length) = memchr::memchr(b'\n', &bytes[at..]) else {
                        self.line.extend_from_slice(&bytes[at..]);
                        if self.line.len() > LONGEST_LINE {
                            self.part = Part::Unchecked;
                        }
                        return;
                    };
                    let end = at + length;
                    let is_good = if self.line.is_empty() {
                        self.end_line(&bytes[at..end])
                    } else {
                        let mut line = std::mem::take(&mut self.line);
                        line.extend_from_slice(&bytes[at..end]);
                        self.end_line(&line)
                    };
                    if !is_good {
                        bytes[end] = UNREADABLE;
                        self.part = Part::Unchecked;
                    }
                    at = end + 1;
                }
            }
        }
    }

    /// Takes a line, up to its line feed. Returns whether the request may go on.
    fn end_line(&mut self, line: &[u8]) -> bool {
        let Some(line) = line.strip_suffix(b"\r") else { return false };
        match self.part {
            Part::Head if !line.is_empty() => {
                self.head.read(line);
                if self.head.begun && line == b"PRI * HTTP/2.0" {
                    self.part = Part::Unchecked;
                }
                true
            }
            // Empty lines before a request are ignored, as hyper does.
            Part::Head if !self.head.begun => true,
            Part::Head => {
                let head = std::mem::take(&mut self.head);
                self.part = head.body();
                head.is_clear()
            }
            Part::ChunkSize => {
                self.part = chunk(line);
                true
            }
            Part::Trailers if line.is_empty() => {
                self.part = Part::Head;
                true
            }
            Part::Trailers | Part::Data { .. } | Part::Unchecked => true,
        }
    }
}

impl Head {
    fn read(&mut self, line: &[u8]) {
        if !self.begun {
            self.begun = true;
            self.needs_host = line.ends_with(b" HTTP/1.1");
            return;
        }
        let Some(colon) = memchr::memchr(b':', line) else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"host") {
            self.has_host = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            self.length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).or(Some(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            self.chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        }
    }

    /// Returns whether everybody reads this head in the same way.
    fn is_clear(&self) -> bool {
        (self.has_host || !self.needs_host) && (self.length.is_none() || self.chunked.is_none())
    }

    /// Returns what follows the head.
    fn body(&self) -> Part {
        match (self.chunked, self.length) {
            (Some(true), _) => Part::ChunkSize,
            // hyper refuses it.
            (Some(false), _) => Part::Unchecked,
            (None, Some(left)) if left > 0 => Part::Data { left, then_chunk: false },
            (None, _) => Part::Head,
        }
    }
}

/// Returns what follows a line with the size of a chunk.
fn chunk(line: &[u8]) -> Part {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match size {
        Some(0) => Part::Trailers,
        Some(size) => size.checked_add(2).map_or(Part::Unchecked, |left| Part::Data { left, then_chunk: true }),
        // hyper refuses it.
        None => Part::Unchecked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the bytes pass unchanged, in reads of every size alike.
    fn passes(bytes: &[u8]) -> bool {
        let outcomes = [1, 2, 3, 7, 64, bytes.len()].map(|size| {
            let mut scanner = Scanner::default();
            let mut read = bytes.to_vec();
            read.chunks_mut(size).for_each(|piece| scanner.scan(piece));
            read == bytes
        });
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}: {}", bytes.escape_ascii());
        outcomes[0]
    }

    #[test]
    fn clear_requests_pass() {
        for clear in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            b"GET / HTTP/1.0\r\n\r\n",
            b"\r\nGET / HTTP/1.1\r\nhost:a\r\n\r\nGET / HTTP/1.1\r\nhost:a\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n\n\n\n\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n2;x=y\r\n\n\n\r\n0\r\nx: y\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\n\n\n",
        ] {
            assert!(passes(clear), "{}", clear.escape_ascii());
        }
    }

    #[test]
    fn ambiguous_requests_do_not() {
        for ambiguous in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"GET / HTTP/1.1\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
            // After a body, whatever its framing.
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n\nGET / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\nGET / HTTP/1.1\n\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx: y\n\r\n",
        ] {
            assert!(!passes(ambiguous), "{}", ambiguous.escape_ascii());
        }
    }
}
