//! Server-sent events: a stream of replies as a response body.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream as _;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http_body::Frame;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::body::{Body, BoxError};
use crate::error::Error;
use crate::reply::{Events, Reply};

/// What is ready goes out together, up to about this many bytes.
const FRAME: usize = 16 << 10;

/// A comment and *one* newline: a blank line after a comment makes an older client dispatch an event without data once
/// ids were sent.
const PING: &[u8] = b": ping\n";

const GOODBYE: &[u8] = b": the server is going away\n";

/// How a binding writes the data of an event, which must not contain a line break.
pub(crate) trait Framing<T>: Send + Unpin + 'static {
    /// Writes an answer.
    fn event(&self, out: &mut Vec<u8>, reply: &Reply<T>) -> Result<(), Error>;
    /// Writes an error.
    fn error(&self, out: &mut Vec<u8>, error: &Error);
    /// The event type of an error, if it has one of its own.
    const ERROR_EVENT: Option<&'static str>;
}

/// Makes a response that streams the events, each as one `data:` line and one `id:` line.
pub(crate) fn response<T: Send + 'static>(
    events: Events<T>,
    framing: impl Framing<T>,
    ping: Option<Duration>,
    end: &CancellationToken,
) -> http::Response<Body> {
    let keep_alive = ping.map(|every| KeepAlive { every, since: Instant::now(), timer: None });
    let end = Box::pin(end.clone().cancelled_owned());
    let body = Body::stream(Sse { events: Some(events), framing, keep_alive, end });
    let mut response = http::Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells proxies not to buffer the answer.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

struct Sse<T, F> {
    /// `None` once the stream has ended.
    events: Option<Events<T>>,
    framing: F,
    keep_alive: Option<KeepAlive>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Measures the time since something was sent. The timer is set once per ping, not once per event.
struct KeepAlive {
    every: Duration,
    since: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.since + self.every)));
        loop {
            std::task::ready!(timer.as_mut().poll(cx));
            let due = self.since + self.every;
            if due <= Instant::now() {
                self.since = Instant::now();
                timer.as_mut().reset(self.since + self.every);
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
    }
}

impl<T, F: Framing<T>> Sse<T, F> {
    /// Writes the events that are ready into `out`, and notes the end of the stream.
    fn gather(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) {
        while out.len() < FRAME {
            let Some(events) = &mut self.events else { return };
            match Pin::new(events).poll_next(cx) {
                Poll::Ready(Some(Ok(reply))) => {
                    let start = out.len();
                    if let Err(error) = self.write_event(out, &reply) {
                        out.truncate(start);
                        self.write_error(out, &error);
                        self.events = None;
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.write_error(out, &error);
                    self.events = None;
                }
                Poll::Ready(None) => self.events = None,
                Poll::Pending => return,
            }
        }
    }

    fn write_event(&self, out: &mut Vec<u8>, reply: &Reply<T>) -> Result<(), Error> {
        use std::io::Write as _;
        out.extend_from_slice(b"data: ");
        let data = out.len();
        self.framing.event(out, reply)?;
        escape_line_ends(out, data);
        if let Some(id) = reply.id() {
            // Writing to a Vec does not fail.
            let _ = write!(out, "\nid: {id}");
        }
        out.extend_from_slice(b"\n\n");
        Ok(())
    }

    fn write_error(&self, out: &mut Vec<u8>, error: &Error) {
        if let Some(name) = F::ERROR_EVENT {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        out.extend_from_slice(b"data: ");
        let data = out.len();
        self.framing.error(out, error);
        escape_line_ends(out, data);
        out.extend_from_slice(b"\n\n");
    }
}

/// Writes U+0085, U+2028 and U+2029 in the JSON from `start` on as escapes. An event stream's lines do not end there, but
/// those that the common HTTP library of Python reads do, and its readers would lose the event.
fn escape_line_ends(out: &mut Vec<u8>, start: usize) {
    let found = |bytes: &[u8]| {
        memchr::memchr2_iter(0xC2, 0xE2, bytes).find_map(|at| match &bytes[at..] {
            [0xC2, 0x85, ..] => Some((at, 2, b"\\u0085")),
            [0xE2, 0x80, 0xA8, ..] => Some((at, 3, b"\\u2028")),
            [0xE2, 0x80, 0xA9, ..] => Some((at, 3, b"\\u2029")),
            _ => None,
        })
    };
    if found(&out[start..]).is_none() {
        return;
    }
    let json = out.split_off(start);
    let mut rest = json.as_slice();
    while let Some((at, length, escape)) = found(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(escape);
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
}

impl<T, F: Framing<T>> http_body::Body for Sse<T, F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.events.is_none() {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        this.gather(cx, &mut out);
        if !out.is_empty() {
            if let Some(keep_alive) = &mut this.keep_alive {
                keep_alive.since = Instant::now();
            }
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(out)))));
        }
        if this.events.is_none() {
            return Poll::Ready(None);
        }
        // What is ready goes out first: it may be the end that the client waits for.
        if this.end.as_mut().poll(cx).is_ready() {
            this.events = None;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(GOODBYE)))));
        }
        match &mut this.keep_alive {
            Some(keep_alive) => keep_alive.poll(cx).map(|()| Some(Ok(Frame::data(Bytes::from_static(PING))))),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.events.is_none()
    }
}
