//! gRPC bodies that end with the server.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Code;

/// The body of a gRPC response that ends with UNAVAILABLE when the server ends its streams.
pub(super) struct EndingBody<B> {
    body: B,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    has_ended: bool,
}

impl<B> EndingBody<B> {
    /// Ends this body when the token is cancelled.
    pub(super) fn new(body: B, end: &CancellationToken) -> Self {
        Self { body, end: Box::pin(end.clone().cancelled_owned()), has_ended: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for EndingBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        // What is ready goes out first: it may be the end that the client waits for.
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_pending() && self.end.as_mut().poll(cx).is_ready() {
            self.has_ended = true;
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from(Code::Unavailable as i32));
            trailers.insert("grpc-message", HeaderValue::from_static("the server is going away"));
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        // A body of tonic may give its last error again and again, and some readers ask until there is nothing.
        self.has_ended = matches!(&frame, Poll::Ready(Some(Ok(frame))) if frame.is_trailers());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    #[tokio::test]
    async fn nothing_follows_the_trailers() {
        let frames = std::iter::repeat_with(|| Ok::<Frame<Bytes>, std::io::Error>(Frame::trailers(HeaderMap::new())));
        let mut body = EndingBody::new(StreamBody::new(futures::stream::iter(frames)), &CancellationToken::new());
        assert!(body.frame().await.is_some_and(|frame| frame.unwrap().is_trailers()));
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }
}
