//! Answers: owned, or shared and encoded once for everybody who reads them.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;

use crate::Error;

/// A message with its encodings, each made at the first use and kept.
///
/// It is what a stream's events and cached tasks are held as: five hundred readers of one event cost one encoding.
pub struct Encoded<T> {
    value: T,
    json: OnceLock<Bytes>,
    protobuf: OnceLock<Bytes>,
}

impl<T> Encoded<T> {
    /// Takes the message; nothing is encoded yet.
    pub fn new(value: T) -> Self {
        Self { value, json: OnceLock::new(), protobuf: OnceLock::new() }
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
    /// The message as ProtoJSON.
    pub fn json(&self) -> &Bytes {
        self.json.get_or_init(|| {
            let mut out = Vec::with_capacity(256);
            // Generated serialisers fail only for what the sink refuses, and a Vec refuses nothing.
            let _ = serde_json::to_writer(&mut out, &self.value);
            Bytes::from(out)
        })
    }
}

impl<T: prost::Message> Encoded<T> {
    /// The message as protobuf.
    pub fn protobuf(&self) -> &Bytes {
        self.protobuf.get_or_init(|| Bytes::from(self.value.encode_to_vec()))
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
            Reply::Owned(value) => serde_json::to_writer(out, value).map_err(|error| {
                tracing::error!(%error, "an answer cannot be written as JSON");
                Error::internal()
            }),
            Reply::Shared { message, .. } => {
                out.extend_from_slice(message.json());
                Ok(())
            }
        }
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
