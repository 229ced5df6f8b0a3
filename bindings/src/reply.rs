//! Answers of handlers: a message, or a stream of events.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::Stream;
use tokio::time::Sleep;

use crate::Error;
use crate::codec::{Codec, JsonMessage};
use crate::encoded::{Encoded, Wrapped, Wraps};
use crate::output::Output;

/// The position of an event in its stream, written `<generation>.<seq>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// The generation of the store that numbered the event.
    pub generation: u32,
    /// The event's number.
    pub seq: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.seq)
    }
}

impl std::str::FromStr for EventId {
    type Err = ();

    /// Reads `<generation>.<seq>`, digits only.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (generation, seq) = text.split_once('.').ok_or(())?;
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(generation) || !digits(seq) {
            return Err(());
        }
        Ok(Self { generation: generation.parse().map_err(drop)?, seq: seq.parse().map_err(drop)? })
    }
}

/// One answer, or one event of a stream.
#[derive(Debug)]
pub enum Reply<T> {
    /// A message for this caller alone, encoded into its answer.
    Owned(T),
    /// A message that others read too.
    Shared {
        /// The message.
        message: Arc<Encoded<T>>,
        /// Its position in its stream, if it is an event.
        id: Option<EventId>,
    },
    /// A message with one field, whose value others read too.
    Wrapped {
        /// The value of the field.
        message: Arc<dyn Wrapped<T>>,
        /// Its position in its stream, if it is an event.
        id: Option<EventId>,
    },
}

impl<T: 'static> Reply<T> {
    /// Answers with the `T` that has `message` as its only field. The message is not copied.
    pub fn wrapped<M>(message: Arc<Encoded<M>>, id: Option<EventId>) -> Self
    where
        T: Wraps<M>,
        M: Clone + fmt::Debug + prost::Message + serde::Serialize + 'static,
    {
        Self::Wrapped { message, id }
    }
}

impl<T> Reply<T> {
    /// Makes a reply from a shared message.
    pub fn shared(message: Arc<Encoded<T>>) -> Self {
        Self::Shared { message, id: None }
    }

    /// Makes an event from a shared message and its position.
    pub fn event(message: Arc<Encoded<T>>, id: EventId) -> Self {
        Self::Shared { message, id: Some(id) }
    }

    /// Returns the message, or a copy where it exists only as the field of a wrapper.
    pub fn value(&self) -> Cow<'_, T>
    where
        T: Clone,
    {
        match self {
            Reply::Owned(value) => Cow::Borrowed(value),
            Reply::Shared { message, .. } => Cow::Borrowed(message.value()),
            Reply::Wrapped { message, .. } => Cow::Owned(message.to_wrapper()),
        }
    }

    /// Returns the message, or the field of its wrapper where it exists only as that.
    pub(crate) fn as_any(&self) -> &dyn Any
    where
        T: 'static,
    {
        match self {
            Reply::Owned(value) => value,
            Reply::Shared { message, .. } => message.value(),
            Reply::Wrapped { message, .. } => message.message(),
        }
    }

    /// Returns the position of an event in its stream.
    pub fn id(&self) -> Option<EventId> {
        match self {
            Reply::Owned(_) => None,
            Reply::Shared { id, .. } | Reply::Wrapped { id, .. } => *id,
        }
    }
}

impl<T: JsonMessage> Reply<T> {
    /// Writes the message as JSON: encoded in place, or copied if it was encoded before.
    ///
    /// # Errors
    /// If the message holds what JSON cannot, such as an infinite number, or if it is large and the budget of answers is used
    /// up.
    pub fn write_json(&self, codec: &dyn Codec, out: &mut Output) -> Result<(), Error> {
        match self {
            Reply::Owned(value) => codec.write_json(value, out),
            Reply::Shared { message, .. } => message.write_json(codec, out),
            Reply::Wrapped { message, .. } => message.write_wrapped_json(codec, out),
        }
    }
}

impl<T: prost::Message> Reply<T> {
    /// Writes the message as protobuf.
    ///
    /// # Errors
    /// If it is large and the budget of answers is used up.
    pub(crate) fn write_protobuf(&self, out: &mut Output) -> Result<(), Error> {
        match self {
            Reply::Owned(value) => {
                // A buffer that grows is never full.
                let _ = value.encode(&mut **out);
                Ok(())
            }
            Reply::Shared { message, .. } => message.write_protobuf(out),
            Reply::Wrapped { message, .. } => message.write_wrapped_protobuf(out),
        }
    }

    /// Returns the length of the message as protobuf, in bytes.
    pub(crate) fn protobuf_len(&self) -> usize {
        match self {
            Reply::Owned(value) => value.encoded_len(),
            Reply::Shared { message, .. } => message.protobuf_len(),
            Reply::Wrapped { message, .. } => message.wrapped_protobuf_len(),
        }
    }

    /// Returns how many bytes are still to be encoded before the message can be written: as JSON by this codec, about, or as
    /// protobuf.
    pub(crate) fn unencoded(&self, codec: Option<&dyn Codec>) -> usize {
        match self {
            Reply::Owned(value) => value.encoded_len(),
            Reply::Shared { message, .. } => message.unencoded(codec),
            Reply::Wrapped { message, .. } => message.unencoded(codec),
        }
    }
}

impl<T> From<T> for Reply<T> {
    fn from(value: T) -> Self {
        Self::Owned(value)
    }
}

/// The events of a stream, in order. It ends after the last event or after the first error.
pub struct Events<T> {
    stream: Pin<Box<dyn Stream<Item = Result<Reply<T>, Error>> + Send>>,
    deadline: Option<Deadline>,
}

struct Deadline {
    timer: Pin<Box<Sleep>>,
    error: fn() -> Error,
}

impl<T> Events<T> {
    /// Takes any stream of events.
    pub fn new(stream: impl Stream<Item = Result<Reply<T>, Error>> + Send + 'static) -> Self {
        Self { stream: Box::pin(stream), deadline: None }
    }

    /// Ends the stream with `error` when this time has come.
    pub(crate) fn until(self, at: Instant, error: fn() -> Error) -> Self {
        let timer = Box::pin(tokio::time::sleep_until(at.into()));
        Self { deadline: Some(Deadline { timer, error }), ..self }
    }
}

impl<T> Stream for Events<T> {
    type Item = Result<Reply<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.timer.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Err((deadline.error)())));
        }
        self.stream.as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
