//! Ends responses and connections whose peer has stopped reading.
//!
//! On HTTP/1.1 the socket takes no more bytes. On HTTP/2 it may take them while a single stream has no window left. Nobody
//! polls the body of that stream then, so the task around it is what keeps the time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;
use tokio::time::{Instant, Sleep};

/// A whole body up to this size, in bytes, is handed over at once and not watched. A larger one is not over before all of
/// it was taken, which costs an empty frame.
const SMALL: u64 = 16 << 10;

/// How many bytes of a write take as much of a task's turn as one operation. A turn has 128 operations.
const TURN_UNIT: usize = 8 << 10;

tokio::task_local! {
    /// The progress of the stream that this task serves.
    static PROGRESS: Arc<Progress>;
}

/// How often a body was polled, and in the lowest bit whether it handed bytes over the last time. It is polled again when
/// they are on their way.
#[derive(Debug, Default)]
struct Progress(AtomicU64);

impl Progress {
    fn note(&self, handed_over: bool) {
        // Only the task itself writes.
        let polls = self.0.load(Ordering::Relaxed) >> 1;
        self.0.store((polls + 1) << 1 | u64::from(handed_over), Ordering::Relaxed);
    }

    /// Returns the number of polls if bytes were handed over in the last one.
    fn waits_since(&self) -> Option<u64> {
        let state = self.0.load(Ordering::Relaxed);
        (state & 1 == 1).then_some(state >> 1)
    }
}

/// Spawns the streams of HTTP/2 connections, and resets those whose peer has not read for a time.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor {
    pub(super) unread: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let progress = Arc::<Progress>::default();
        let watched =
            Watched { stream: Box::pin(stream), progress: progress.clone(), unread: self.unread, timer: None };
        tokio::spawn(PROGRESS.scope(progress, watched));
    }
}

/// A stream, and the time since its body was polled last while bytes wait.
struct Watched<F> {
    stream: Pin<Box<F>>,
    progress: Arc<Progress>,
    unread: Duration,
    timer: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<F: Future> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(poll) = this.progress.waits_since() else {
            // It waits for the handler, or for an event: that may take as long as it likes.
            this.timer = None;
            return Poll::Pending;
        };
        let unread = this.unread;
        let (since, timer) = this.timer.get_or_insert_with(|| (poll, Box::pin(tokio::time::sleep(unread))));
        if *since != poll {
            *since = poll;
            timer.as_mut().reset(Instant::now() + unread);
        }
        if timer.as_mut().poll(cx).is_ready() {
            tracing::debug!("a stream is reset: its peer does not read");
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// The body of a response, which notes its progress for the task that serves it.
pub(super) struct Noted<B> {
    body: B,
    progress: Option<Arc<Progress>>,
    is_small: bool,
}

impl<B: http_body::Body> Noted<B> {
    /// Wraps a body. Call it in the task that serves the stream.
    pub(super) fn new(body: B) -> Self {
        let is_small = body.size_hint().exact().is_some_and(|size| size <= SMALL);
        Self { body, progress: PROGRESS.try_with(Arc::clone).ok(), is_small }
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Noted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(progress) = &self.progress {
            progress.note(matches!(&polled, Poll::Ready(Some(Ok(frame))) if frame.is_data()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        (self.is_small || self.progress.is_none()) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that is broken off when it has taken no bytes for a time.
pub(super) struct WriteTimeout<I> {
    io: I,
    unread: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<I> WriteTimeout<I> {
    pub(super) fn new(io: I, unread: Duration) -> Self {
        Self { io, unread, timer: None }
    }

    /// Passes on how many bytes were written. A peer that reads fast could be written to without an end, so each write uses
    /// up as much of the task's turn as it has bytes: others on the same worker wait for about a megabyte at most.
    fn wrote(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            for _ in 0..bytes / TURN_UNIT {
                let Poll::Ready(proceed) = coop::poll_proceed(cx) else { break };
                proceed.made_progress();
            }
        }
        self.judge(cx, written)
    }

    /// Passes on what a write said, or that it has been pending for too long.
    fn judge<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let unread = self.unread;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(unread)));
        std::task::ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WriteTimeout<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.io).poll_shutdown(cx);
        self.judge(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const UNREAD: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_reads_ends_and_a_slow_reader_does_not() {
        let (near, mut far) = tokio::io::duplex(10);
        let mut near = WriteTimeout::new(near, UNREAD);
        near.write_all(&[0; 10]).await.unwrap();
        let reading = tokio::spawn(async move {
            for _ in 0..5 {
                tokio::time::sleep(UNREAD - Duration::from_secs(1)).await;
                tokio::io::AsyncReadExt::read_exact(&mut far, &mut [0; 2]).await.unwrap();
            }
            far
        });
        near.write_all(&[0; 10]).await.unwrap();
        let _far = reading.await.unwrap();
        let begun = Instant::now();
        assert_eq!(near.write_all(&[0; 10]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), UNREAD.as_secs());
    }

    #[tokio::test]
    async fn a_fast_reader_does_not_keep_the_others_waiting() {
        let mut near = WriteTimeout::new(tokio::io::sink(), UNREAD);
        let mut turns = 0;
        let mut writing = std::pin::pin!(async {
            for _ in 0..64 {
                near.write_all(&[0; 64 << 10]).await.unwrap();
            }
        });
        std::future::poll_fn(|cx| {
            turns += 1;
            writing.as_mut().poll(cx)
        })
        .await;
        assert!((4..=6).contains(&turns), "4 MiB in {turns} turns");
    }

    /// Runs a stream that notes this of its body and then waits.
    async fn ends(handed_over: &'static [bool]) -> bool {
        let (sender, ended) = tokio::sync::oneshot::channel::<()>();
        StreamExecutor { unread: UNREAD }.execute(async move {
            let _sender = sender;
            let progress = PROGRESS.with(Arc::clone);
            for handed_over in handed_over {
                progress.note(*handed_over);
                tokio::time::sleep(UNREAD / 2).await;
            }
            std::future::pending::<()>().await;
        });
        tokio::time::timeout(UNREAD * 10, ended).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_only_while_bytes_wait() {
        assert!(ends(&[true]).await);
        assert!(ends(&[true, true, true, true]).await);
        assert!(!ends(&[]).await);
        assert!(!ends(&[false]).await);
        assert!(!ends(&[true, false]).await, "it waits for an event");
    }
}
