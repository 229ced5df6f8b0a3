//! Server-sent events: a stream of replies as a response body.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http_body::Frame;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::body::{Body, BoxError};
use crate::error::Error;
use crate::gather::{self, Gather, Next};
use crate::output::Output;
use crate::pipeline::BindingSettings;
use crate::reply::{Events, Reply};

/// A comment and *one* newline: a blank line after a comment makes an older client dispatch an event without data once
/// ids were sent.
const PING: &[u8] = b": ping\n";

const GOODBYE: &[u8] = b": the server is going away\n";

/// How a binding writes the data of an event, which must not contain a line break.
pub(crate) trait Framing<T>: Send + Sync + 'static {
    /// Writes an answer.
    fn event(&self, out: &mut Output, reply: &Reply<T>) -> Result<(), Error>;
    /// Returns how many bytes of an answer are still to be encoded.
    fn unencoded(&self, reply: &Reply<T>) -> usize;
    /// Writes an error.
    fn error(&self, out: &mut Vec<u8>, error: &Error);
    /// The event type of an error, if it has one of its own.
    const ERROR_EVENT: Option<&'static str>;
}

/// Makes a response that streams the events, each as one `data:` line and one `id:` line.
pub(crate) fn response<T: prost::Message + 'static>(
    events: Events<T>,
    framing: impl Framing<T>,
    settings: &BindingSettings,
    end: &CancellationToken,
) -> http::Response<Body> {
    let keep_alive = settings.ping.map(|every| KeepAlive { every, since: Instant::now(), timer: None });
    let body = Body::stream(Sse { gather: Gather::new(events, Lines(framing), settings, end), keep_alive });
    let mut response = http::Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells proxies not to buffer the answer.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

struct Sse<T, F> {
    gather: Gather<T, Lines<F>>,
    keep_alive: Option<KeepAlive>,
}

/// Events as lines of an event stream.
struct Lines<F>(F);

impl<T: 'static, F: Framing<T>> gather::Framing<T> for Lines<F> {
    fn event(&self, out: &mut Output, reply: &Reply<T>) -> Result<(), Error> {
        use std::io::Write as _;
        out.extend_from_slice(b"data: ");
        let data = out.mark();
        self.0.event(out, reply)?;
        out.escape_line_ends(data)?;
        if let Some(id) = reply.id() {
            // Writing to a Vec does not fail.
            let _ = write!(**out, "\nid: {id}");
        }
        out.extend_from_slice(b"\n\n");
        Ok(())
    }

    fn unencoded(&self, reply: &Reply<T>) -> usize {
        self.0.unencoded(reply)
    }
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

impl<T: prost::Message + 'static, F: Framing<T>> Sse<T, F> {
    fn error(&self, error: &Error) -> Bytes {
        let mut out = Output::new(None);
        if let Some(name) = F::ERROR_EVENT {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        out.extend_from_slice(b"data: ");
        let data = out.mark();
        self.gather.framing.0.error(&mut out, error);
        // Nothing is charged, so nothing is refused.
        let _ = out.escape_line_ends(data);
        out.extend_from_slice(b"\n\n");
        out.into_vec().into()
    }
}

impl<T: prost::Message + 'static, F: Framing<T>> http_body::Body for Sse<T, F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let bytes = match this.gather.poll_next(cx) {
            Poll::Ready(Next::Bytes(bytes)) => bytes,
            Poll::Ready(Next::Error(error)) => this.error(&error),
            Poll::Ready(Next::Shutdown) => Bytes::from_static(GOODBYE),
            Poll::Ready(Next::End) => return Poll::Ready(None),
            Poll::Pending => match &mut this.keep_alive {
                Some(keep_alive) => {
                    return keep_alive.poll(cx).map(|()| Some(Ok(Frame::data(Bytes::from_static(PING)))));
                }
                None => return Poll::Pending,
            },
        };
        if let Some(keep_alive) = &mut this.keep_alive {
            keep_alive.since = Instant::now();
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.gather.is_over()
    }
}
