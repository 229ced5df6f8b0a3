//! A deadline for the bytes that tell HTTP/1.1 from HTTP/2. Until they are there no other timer runs.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What an HTTP/2 connection begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection that is broken off when its first bytes are late.
pub(super) struct FirstBytes<I> {
    io: I,
    /// The bytes of the preface seen so far, until they are all there or others are.
    waiting: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<I> FirstBytes<I> {
    pub(super) fn new(io: I, deadline: Instant) -> Self {
        Self { io, waiting: Some((0, Box::pin(tokio::time::sleep_until(deadline)))) }
    }

    fn seen(&mut self, bytes: &[u8]) {
        let Some((seen, _)) = &mut self.waiting else { return };
        let expected = &PREFACE[*seen..];
        let common = expected.len().min(bytes.len());
        if bytes.is_empty() || expected[..common] != bytes[..common] || expected.len() == common {
            self.waiting = None;
        } else {
            *seen += common;
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for FirstBytes<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        match Pin::new(&mut this.io).poll_read(cx, buf) {
            Poll::Ready(result) => {
                this.seen(&buf.filled()[before..]);
                Poll::Ready(result)
            }
            Poll::Pending => {
                let Some((_, timer)) = &mut this.waiting else { return Poll::Pending };
                ready!(timer.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the first bytes are late")))
            }
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for FirstBytes<I> {
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
