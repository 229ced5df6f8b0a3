//! Bodies: request bodies are read whole, within limits; response bodies are one piece or a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;

use crate::budget::{Budget, BudgetPermit};
use crate::error::{Error, Kind, kinds};
use crate::output::Pieces;

/// Any error of a body's source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response. A whole answer is not boxed.
pub enum Body {
    /// A whole answer.
    Full(Pieces),
    /// A whole answer of gRPC: a message, and the status in trailers.
    Unary(Pieces, Option<Box<HeaderMap>>),
    /// A stream of pieces.
    Stream(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>),
    /// A body made by tonic.
    Grpc(tonic::body::Body),
}

impl Body {
    /// Makes an empty body.
    pub fn empty() -> Self {
        Self::Full(Pieces::default())
    }

    /// Makes a body from a stream of pieces.
    pub fn stream(body: impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static) -> Self {
        Self::Stream(Box::pin(body))
    }
}

impl Default for Body {
    /// [`Body::empty`].
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Into<Pieces>> From<T> for Body {
    fn from(pieces: T) -> Self {
        Self::Full(pieces.into())
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Body::Full(_) => "Body::Full",
            Body::Unary(..) => "Body::Unary",
            Body::Stream(_) => "Body::Stream",
            Body::Grpc(_) => "Body::Grpc",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut *self {
            Body::Full(pieces) => Poll::Ready(pieces.next().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Unary(pieces, trailers) => Poll::Ready(match pieces.next() {
                Some(bytes) => Some(Ok(Frame::data(bytes))),
                None => trailers.take().map(|trailers| Ok(Frame::trailers(*trailers))),
            }),
            Body::Stream(body) => body.as_mut().poll_frame(cx),
            Body::Grpc(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(pieces) => pieces.is_empty(),
            Body::Unary(pieces, trailers) => pieces.is_empty() && trailers.is_none(),
            Body::Stream(body) => body.is_end_stream(),
            Body::Grpc(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(pieces) => SizeHint::with_exact(pieces.len() as u64),
            Body::Unary(..) => SizeHint::default(),
            Body::Stream(body) => body.size_hint(),
            Body::Grpc(body) => body.size_hint(),
        }
    }
}

/// A body that did not arrive in time (RFC 9110, section 15.5.9).
static REQUEST_TIMEOUT: Kind = Kind {
    jsonrpc_keeps_http_status: true,
    ..Kind::new("REQUEST_TIMEOUT", -32600, tonic::Code::DeadlineExceeded, 408)
};

/// How request bodies are read.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// The longest body, in bytes.
    pub bytes: usize,
    /// How long a body may take to arrive.
    pub time: Duration,
    /// The most values of a body: members of objects, elements of lists, entries of maps.
    pub values: usize,
    /// What all requests together may hold: their bodies, and their messages once they are decoded.
    pub budget: Arc<Budget>,
}

impl Default for BodyLimits {
    /// 16 MiB, 60 s, 250,000 values, and 256 MiB for all.
    fn default() -> Self {
        Self {
            bytes: Self::DEFAULT_BYTES,
            time: Duration::from_secs(60),
            values: Self::DEFAULT_VALUES,
            budget: Budget::new("requests", 256 << 20),
        }
    }
}

/// The most memory that is reserved for a body before it arrives, in bytes.
const MOST_RESERVED: u64 = 16 << 20;

impl BodyLimits {
    /// The largest body by default, in bytes.
    pub const DEFAULT_BYTES: usize = 16 << 20;
    /// The most values of a body by default.
    pub const DEFAULT_VALUES: usize = 250_000;

    /// Checks the length that the headers announce, before anything is read.
    ///
    /// # Errors
    /// [`kinds::TOO_LARGE`].
    pub fn announced(&self, headers: &HeaderMap) -> Result<(), Error> {
        let Some(length) = headers.get(CONTENT_LENGTH) else { return Ok(()) };
        let length = length.to_str().ok().and_then(|text| text.parse::<u64>().ok());
        if length.is_some_and(|length| length > self.bytes as u64) {
            return Err(self.too_large());
        }
        Ok(())
    }

    /// Reads a body to its end. One that came in one piece is not copied; the rest of one that is refused is discarded.
    /// `framing` is how many bytes the binding adds to a message.
    ///
    /// # Errors
    /// Those of [`BodyLimits::read`].
    pub(crate) async fn read_or_discard<B>(
        &self,
        headers: &HeaderMap,
        mut body: B,
        framing: usize,
    ) -> Result<(Bytes, BudgetPermit), Error>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    {
        let read = self.read(&mut body, framing).await;
        if read.is_err() {
            discard(headers, body);
        }
        read
    }

    /// Reads a body to its end. One that came in one piece is not copied. `framing` is how many bytes the binding adds to a
    /// message.
    ///
    /// # Errors
    /// [`kinds::TOO_LARGE`] as soon as the limit is passed, [`kinds::UNAVAILABLE`] if all bodies together hold too much,
    /// [`kinds::INVALID_REQUEST`] if it breaks off, and `REQUEST_TIMEOUT` if it takes too long.
    pub(crate) async fn read<B>(&self, body: &mut B, framing: usize) -> Result<(Bytes, BudgetPermit), Error>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let mut held = BudgetPermit::none(&self.budget);
        let bytes = tokio::time::timeout(self.time, self.collect(body, framing, &mut held))
            .await
            .map_err(|_| Error::new(&REQUEST_TIMEOUT, "the body did not arrive in time"))??;
        Ok((bytes, held))
    }

    async fn collect<B>(&self, body: &mut B, framing: usize, held: &mut BudgetPermit) -> Result<Bytes, Error>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let most = self.bytes.saturating_add(framing);
        let mut first = Bytes::new();
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Error::new(&kinds::INVALID_REQUEST, "the body broke off"))?;
            let Ok(piece) = frame.into_data() else { continue };
            if first.len().max(all.len()) + piece.len() > most {
                return Err(self.too_large());
            }
            held.more(piece.len())?;
            if first.is_empty() && all.is_empty() {
                first = piece;
                continue;
            }
            if all.is_empty() {
                // A client can announce any length, so only a part of it is reserved.
                let expected = body.size_hint().lower().min((most as u64).min(MOST_RESERVED));
                all.reserve(first.len() + piece.len() + usize::try_from(expected).unwrap_or(0));
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&piece);
        }
        Ok(if all.is_empty() { first } else { Bytes::from(all) })
    }

    pub(crate) fn too_large(&self) -> Error {
        Error::new(&kinds::TOO_LARGE, format!("the request is larger than {} bytes", self.bytes))
    }
}

/// Reads and discards the rest of a body for at most 10 s. Closing a connection with unread input resets it, and the client
/// would lose the answer that says why.
pub fn discard<B>(headers: &HeaderMap, mut body: B)
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
{
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let rest = async move { while let Some(Ok(_)) = body.frame().await {} };
    tokio::spawn(tokio::time::timeout(Duration::from_secs(10), rest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Full, StreamBody};

    fn pieces(
        pieces: &[&'static str],
    ) -> StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Unpin> {
        let frames: Vec<_> = pieces.iter().map(|p| Ok(Frame::data(Bytes::from_static(p.as_bytes())))).collect();
        StreamBody::new(futures::stream::iter(frames))
    }

    fn limits(bytes: usize, budget: usize) -> BodyLimits {
        BodyLimits { bytes, budget: Budget::new("requests", budget), ..BodyLimits::default() }
    }

    #[tokio::test]
    async fn one_piece_is_handed_on_and_many_are_joined() {
        let limits = limits(10, 100);
        let whole = Bytes::from_static(b"hello");
        let (read, _held) = limits.read(&mut Full::new(whole.clone()), 0).await.unwrap();
        assert_eq!(read.as_ptr(), whole.as_ptr(), "not copied");
        let (read, _held) = limits.read(&mut pieces(&["ab", "", "cd", "ef"]), 0).await.unwrap();
        assert_eq!(read, "abcdef");
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_at_the_piece_that_passes_it() {
        let mut body = pieces(&["abcd", "ef", "gh"]);
        let error = limits(5, 100).read(&mut body, 0).await.unwrap_err();
        assert_eq!(error.kind().reason, "TOO_LARGE");
        assert!(body.frame().await.is_some(), "what follows was not read");
    }

    #[tokio::test]
    async fn the_budget_of_all_bodies_is_given_back() {
        let limits = limits(10, 8);
        let (_, held) = limits.read(&mut pieces(&["abcdef"]), 0).await.unwrap();
        let error = limits.read(&mut pieces(&["abcdef"]), 0).await.unwrap_err();
        assert_eq!(error.kind().reason, "UNAVAILABLE");
        drop(held);
        assert!(limits.read(&mut pieces(&["abcdef"]), 0).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let mut body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
        let error = limits(5, 5).read(&mut body, 0).await.unwrap_err();
        assert_eq!(error.kind().reason, "REQUEST_TIMEOUT");
    }

    #[test]
    fn an_announced_length_is_judged_before_reading() {
        let mut headers = HeaderMap::new();
        assert!(limits(5, 5).announced(&headers).is_ok());
        headers.insert(CONTENT_LENGTH, "6".parse().unwrap());
        assert_eq!(limits(5, 5).announced(&headers).unwrap_err().kind().reason, "TOO_LARGE");
    }
}
