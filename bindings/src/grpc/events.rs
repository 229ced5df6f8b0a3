//! A stream of events as tonic sends it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

use super::status;
use crate::error::{Error, Protocol};
use crate::reply::{Events, Reply};

/// Events with errors as statuses, until the server ends its streams.
pub(super) struct GrpcEvents<A> {
    protocol: &'static Protocol,
    /// `None` once the stream has ended.
    events: Option<Events<A>>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<A> GrpcEvents<A> {
    pub(super) fn new(protocol: &'static Protocol, events: Events<A>, shutdown: &CancellationToken) -> Self {
        Self { protocol, events: Some(events), shutdown: Box::pin(shutdown.clone().cancelled_owned()) }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Reply<A>, Error>>> {
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        let event = Pin::new(events).poll_next(cx);
        // What is ready goes out first: it may be the end that the client waits for.
        if event.is_pending() && self.shutdown.as_mut().poll(cx).is_ready() {
            let error = Error::unavailable("the server is going away", Duration::from_secs(1));
            return Poll::Ready(Some(Err(error)));
        }
        event
    }
}

impl<A> Stream for GrpcEvents<A> {
    type Item = Result<Reply<A>, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = std::task::ready!(self.poll_event(cx));
        if !matches!(event, Some(Ok(_))) {
            self.events = None;
        }
        Poll::Ready(event.map(|event| event.map_err(|error| status(self.protocol, &error))))
    }
}
