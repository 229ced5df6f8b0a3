//! What the events of a stream become on their way out, the same for server-sent events and gRPC.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream as _;
use futures::future::BoxFuture;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::budget::Budget;
use crate::error::Error;
use crate::offload::{LARGE, Offload};
use crate::output::{Output, Pieces};
use crate::pipeline::BindingSettings;
use crate::reply::{Events, Reply};

/// What is ready goes out together, up to about this many bytes.
const TOGETHER: usize = 16 << 10;

/// How a binding writes events.
pub(crate) trait Framing<T>: Send + Sync + 'static {
    /// Writes an event.
    fn event(&self, out: &mut Output, reply: &Reply<T>) -> Result<(), Error>;

    /// Returns how many bytes of an event are still to be encoded.
    fn unencoded(&self, reply: &Reply<T>) -> usize;
}

/// The events of a stream as bytes.
pub(crate) struct Gather<T, F> {
    /// `None` once the stream has ended.
    events: Option<Events<T>>,
    pub(crate) framing: Arc<F>,
    /// Bytes that were made and not yet taken.
    pieces: Pieces,
    /// A large event that is being encoded.
    encoding: Option<BoxFuture<'static, Result<Pieces, Error>>>,
    /// The error that follows what was gathered before it.
    failed: Option<Error>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    offload: Offload,
    answers: Arc<Budget>,
}

/// What comes next in a stream.
pub(crate) enum Next {
    /// Bytes of events.
    Bytes(Bytes),
    /// The last: an error.
    Error(Error),
    /// The last: the server ends its streams.
    Shutdown,
    /// The stream has ended.
    End,
}

impl<T: Send + Sync + 'static, F: Framing<T>> Gather<T, F> {
    pub(crate) fn new(events: Events<T>, framing: F, settings: &BindingSettings, shutdown: &CancellationToken) -> Self {
        Self {
            events: Some(events),
            framing: Arc::new(framing),
            pieces: Pieces::default(),
            encoding: None,
            failed: None,
            shutdown: Box::pin(shutdown.clone().cancelled_owned()),
            offload: settings.offload.clone(),
            answers: settings.answers.clone(),
        }
    }

    /// Returns whether nothing is to come.
    pub(crate) fn is_over(&self) -> bool {
        self.events.is_none() && self.failed.is_none() && self.encoding.is_none() && self.pieces.is_empty()
    }

    /// Returns what comes next: the bytes of the events that are ready, together.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            if let Some(bytes) = self.pieces.next() {
                return Poll::Ready(Next::Bytes(bytes));
            }
            if let Some(encoding) = &mut self.encoding {
                let encoded = std::task::ready!(encoding.as_mut().poll(cx));
                self.encoding = None;
                self.take(encoded);
                continue;
            }
            if let Some(error) = self.failed.take() {
                self.events = None;
                return Poll::Ready(Next::Error(error));
            }
            if self.events.is_none() {
                return Poll::Ready(Next::End);
            }
            let mut out = Output::new(Some(&self.answers));
            self.gather(cx, &mut out);
            let gathered = out.finish();
            self.take(gathered);
            if self.pieces.is_empty() && self.encoding.is_none() && self.failed.is_none() && self.events.is_some() {
                // What is ready goes out first: it may be the end that the client waits for.
                std::task::ready!(self.shutdown.as_mut().poll(cx));
                self.events = None;
                return Poll::Ready(Next::Shutdown);
            }
        }
    }

    fn take(&mut self, encoded: Result<Pieces, Error>) {
        match encoded {
            Ok(pieces) => self.pieces = pieces,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }

    /// Writes the events that are ready into `out`, and notes the end of the stream.
    fn gather(&mut self, cx: &mut Context<'_>, out: &mut Output) {
        while out.total() < TOGETHER {
            let Some(events) = &mut self.events else { return };
            match Pin::new(events).poll_next(cx) {
                Poll::Ready(Some(Ok(reply))) => {
                    let unencoded = self.framing.unencoded(&reply);
                    if unencoded >= LARGE {
                        return self.encode(reply, unencoded);
                    }
                    let mark = out.mark();
                    if let Err(error) = self.framing.event(out, &reply) {
                        out.truncate_to(mark);
                        self.failed = Some(error);
                        self.events = None;
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.failed = Some(error);
                    self.events = None;
                }
                Poll::Ready(None) => self.events = None,
                Poll::Pending => return,
            }
        }
    }

    /// Begins to encode a large event, elsewhere. What was gathered before goes out meanwhile.
    fn encode(&mut self, reply: Reply<T>, unencoded: usize) {
        let (framing, offload, answers) = (self.framing.clone(), self.offload.clone(), self.answers.clone());
        let encode = async move {
            let encode = || {
                let mut out = Output::new(Some(&answers));
                framing.event(&mut out, &reply)?;
                out.finish()
            };
            offload.run(unencoded, encode).await
        };
        self.encoding = Some(Box::pin(encode));
    }
}
