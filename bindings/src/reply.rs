//! Answers: owned, or shared and encoded once for everybody who reads them.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes};
use futures::Stream;

use crate::Error;

/// A message with its encodings, each kept from the second use on.
///
/// It is what a stream's events and cached tasks are held as: five hundred readers of one event cost two encodings, and
/// what only one reads is never kept.
pub struct Encoded<T> {
    value: T,
    json: Kept,
    protobuf: Kept,
}

/// An encoding: nothing before the first use, kept from the second one on.
#[derive(Default)]
struct Kept {
    used: AtomicBool,
    bytes: OnceLock<Bytes>,
}

impl Kept {
    /// The bytes, if they are worth keeping: this is not their first use.
    fn get<E>(&self, encode: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Option<&Bytes>, E> {
        if self.bytes.get().is_none() {
            if !self.used.swap(true, Ordering::Relaxed) {
                return Ok(None);
            }
            let bytes = encode()?;
            self.bytes.get_or_init(|| bytes.into());
        }
        Ok(self.bytes.get())
    }
}

impl<T> Encoded<T> {
    /// Takes the message; nothing is encoded yet.
    pub fn new(value: T) -> Self {
        Self { value, json: Kept::default(), protobuf: Kept::default() }
    }

    /// The message.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The message back, without its encodings.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T: serde::Serialize> Encoded<T> {
    /// Writes the message as ProtoJSON.
    ///
    /// # Errors
    /// When the message cannot be written: a number in it is none of JSON's.
    pub fn write_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self.json.get(|| serde_json::to_vec(&self.value))? {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            None => serde_json::to_writer(out, &self.value),
        }
    }
}

impl<T: prost::Message> Encoded<T> {
    /// Writes the message as protobuf.
    pub fn write_protobuf(&self, out: &mut impl BufMut) {
        // Neither fails: that is for a buffer that is full, and these grow.
        match self.protobuf.get(|| Ok::<_, prost::EncodeError>(self.value.encode_to_vec())) {
            Ok(Some(bytes)) => out.put_slice(bytes),
            Ok(None) | Err(_) => drop(self.value.encode(out)),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Encoded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Where an event stands in its stream; written `<generation>.<seq>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Which life of the store the number belongs to.
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
    /// A message for this caller alone; encoded straight onto its wire.
    Owned(T),
    /// A message that others read too.
    Shared {
        /// The message.
        message: Arc<Encoded<T>>,
        /// Where it stands in its stream, if it is an event.
        id: Option<EventId>,
    },
}

impl<T> Reply<T> {
    /// A shared answer.
    pub fn shared(message: Arc<Encoded<T>>) -> Self {
        Self::Shared { message, id: None }
    }

    /// A shared event with its place.
    pub fn event(message: Arc<Encoded<T>>, id: EventId) -> Self {
        Self::Shared { message, id: Some(id) }
    }

    /// The message.
    pub fn value(&self) -> &T {
        match self {
            Reply::Owned(value) => value,
            Reply::Shared { message, .. } => message.value(),
        }
    }

    /// The event's place in its stream.
    pub fn id(&self) -> Option<EventId> {
        match self {
            Reply::Owned(_) => None,
            Reply::Shared { id, .. } => *id,
        }
    }
}

impl<T: serde::Serialize> Reply<T> {
    /// Writes the message as ProtoJSON: serialised in place, or copied if it was encoded before.
    ///
    /// # Errors
    /// When the message holds what JSON cannot, such as an infinite number.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Reply::Owned(value) => serde_json::to_writer(out, value),
            Reply::Shared { message, .. } => message.write_json(out),
        }
        .map_err(|error| {
            tracing::error!(%error, "an answer cannot be written as JSON");
            Error::internal()
        })
    }
}

impl<T> From<T> for Reply<T> {
    fn from(value: T) -> Self {
        Self::Owned(value)
    }
}

/// The events of a stream, in order. It ends after the last event or after the first error.
pub struct Events<T>(Pin<Box<dyn Stream<Item = Result<Reply<T>, Error>> + Send>>);

impl<T> Events<T> {
    /// Takes any stream of events.
    pub fn new(stream: impl Stream<Item = Result<Reply<T>, Error>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }
}

impl<T> Stream for Events<T> {
    type Item = Result<Reply<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
