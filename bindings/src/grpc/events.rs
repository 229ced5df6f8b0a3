//! A stream of events as the body of a gRPC response.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio_util::sync::CancellationToken;

use super::{trailers, write_message};
use crate::body::BoxError;
use crate::error::{Error, Protocol};
use crate::gather::{Framing, Gather, Next};
use crate::output::Output;
use crate::pipeline::{BindingSettings, ReplyMessage};
use crate::reply::{Events, Reply};

/// Events as messages, and the status in the trailers.
pub(super) struct GrpcEvents<A> {
    protocol: &'static Protocol,
    gather: Gather<A, Messages>,
    /// Whether the trailers were sent.
    is_over: bool,
}

impl<A: ReplyMessage> GrpcEvents<A> {
    pub(super) fn new(
        protocol: &'static Protocol,
        events: Events<A>,
        settings: &BindingSettings,
        shutdown: &CancellationToken,
    ) -> Self {
        Self { protocol, gather: Gather::new(events, Messages, settings, shutdown), is_over: false }
    }
}

struct Messages;

impl<A: ReplyMessage> Framing<A> for Messages {
    fn event(&self, out: &mut Output, reply: &Reply<A>) -> Result<(), Error> {
        write_message(out, reply)
    }

    fn unencoded(&self, reply: &Reply<A>) -> usize {
        reply.unencoded(None)
    }
}

impl<A: ReplyMessage> http_body::Body for GrpcEvents<A> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        let error = match std::task::ready!(this.gather.poll_next(cx)) {
            Next::Bytes(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Next::Error(error) => Some(error),
            Next::Shutdown => Some(Error::unavailable("the server is going away", Duration::from_secs(1))),
            Next::End => None,
        };
        this.is_over = true;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(this.protocol, error.as_ref())))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}
