//! A request body that is counted while tonic reads it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tokio::time::Sleep;

use crate::body::{BodyLimits, BoxError, BudgetPermit};
use crate::error::{Error, kinds};

/// A request body that is counted while tonic reads it, with a limit on its time. Its errors are [`Error`]s.
pub(super) struct Metered<B> {
    body: B,
    limits: BodyLimits,
    permit: BudgetPermit,
    seen: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

/// What a frame adds to its message, for one that is as large as allowed.
const FRAME_HEADER: usize = 5;

impl<B> Metered<B> {
    pub(super) fn new(limits: &BodyLimits, body: B) -> Self {
        Self { body, limits: limits.clone(), permit: BudgetPermit::none(&limits.budget), seen: 0, timer: None }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.seen += bytes;
        if self.seen > self.limits.bytes.saturating_add(FRAME_HEADER) {
            return Err(self.limits.too_large());
        }
        self.permit.more(bytes)
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Metered<B>
where
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let time = this.limits.time;
                let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
                std::task::ready!(timer.as_mut().poll(cx));
                let error = Error::new(&kinds::INVALID_REQUEST, "the request did not arrive in time");
                return Poll::Ready(Some(Err(error.into())));
            }
        };
        Poll::Ready(match frame {
            None => None,
            Some(Err(error)) => Some(Err(error.into())),
            Some(Ok(frame)) => match this.count(frame.data_ref().map_or(0, Bytes::len)) {
                Ok(()) => Some(Ok(frame)),
                Err(error) => Some(Err(error.into())),
            },
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
