//! Answers: owned by one call, or shared by several and encoded once for all of them.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{BufMut, Bytes};
use futures::Stream;
use tokio::time::Sleep;
use tonic::codec::EncodeBuf;

use crate::Error;
use crate::codec::{Codec, JsonMessage, MAX_CODECS};

/// A message with its encodings: protobuf, and JSON by each [`Codec`]. Each is kept from the second use on.
///
/// The events of streams and cached tasks are held like this: five hundred readers of one event cost two encodings, and the
/// encoding of a message that is read once is not kept.
pub struct Encoded<T> {
    value: T,
    json: [Kept; MAX_CODECS],
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
    /// Wraps a message. Nothing is encoded yet.
    pub fn new(value: T) -> Self {
        Self { value, json: Default::default(), protobuf: Kept::default() }
    }

    /// The message.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the message without its encodings.
    pub fn into_value(self) -> T {
        self.value
    }

    /// Returns the message for a change, and forgets its encodings. It is copied only while somebody else holds it.
    pub fn make_mut(this: &mut Arc<Self>) -> &mut T
    where
        T: Clone,
    {
        if Arc::get_mut(this).is_none() {
            *this = Arc::new(Self::new(this.value.clone()));
        }
        let this = Arc::get_mut(this).expect("nobody else has a message that was just made");
        (this.json, this.protobuf) = Default::default();
        &mut this.value
    }
}

impl<T: JsonMessage> Encoded<T> {
    /// Writes the message as JSON, as `codec` does.
    ///
    /// # Errors
    /// If the message cannot be written: it holds an infinite number, for example.
    pub fn write_json(&self, codec: &dyn Codec, out: &mut Vec<u8>) -> Result<(), Error> {
        let encode = || {
            let mut bytes = Vec::new();
            codec.write_json(&self.value, &mut bytes)?;
            Ok(bytes)
        };
        let kept = match self.json.get(codec.slot()) {
            Some(kept) => kept.get(encode)?,
            None => None,
        };
        match kept {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            None => codec.write_json(&self.value, out),
        }
    }
}

impl<T: prost::Message> Encoded<T> {
    /// Writes the message as protobuf.
    pub fn write_protobuf(&self, out: &mut impl BufMut) {
        // Encoding fails only if the buffer is full, and these buffers grow.
        match self.protobuf.get(|| Ok::<_, prost::EncodeError>(self.value.encode_to_vec())) {
            Ok(Some(bytes)) => out.put_slice(bytes),
            Ok(None) | Err(_) => drop(self.value.encode(out)),
        }
    }

    /// Writes the message as the field with this number of another message.
    pub fn write_protobuf_field(&self, number: u32, out: &mut impl BufMut) {
        let length = self.protobuf.bytes.get().map_or_else(|| self.value.encoded_len(), Bytes::len);
        prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, out);
        prost::encoding::encode_varint(length as u64, out);
        self.write_protobuf(out);
    }
}

/// A message that may consist of one field alone, whose value is the message `M`.
///
/// The field is a member of a oneof or a plain message field. [`Reply::wrapped`] answers with `Self` and needs no `Self`: it
/// writes the field around the encoding of an `M` that others share.
pub trait Wraps<M>: From<M> {
    /// The field's number in protobuf.
    const NUMBER: u32;
    /// The field's name in ProtoJSON.
    const JSON_NAME: &'static str;
}

/// A shared message as the only field of a `T`.
pub trait Wrapped<T>: fmt::Debug + Send + Sync {
    /// Makes a `T` with a copy of the message.
    fn to_wrapper(&self) -> T;

    /// Writes the `T` as JSON, as `codec` does.
    ///
    /// # Errors
    /// If the message holds what JSON cannot, such as an infinite number.
    fn write_wrapped_json(&self, codec: &dyn Codec, out: &mut Vec<u8>) -> Result<(), Error>;

    /// Writes the `T` as protobuf.
    fn write_wrapped_protobuf(&self, out: &mut EncodeBuf<'_>);
}

impl<T, M> Wrapped<T> for Encoded<M>
where
    T: Wraps<M>,
    M: Clone + fmt::Debug + prost::Message + serde::Serialize + 'static,
{
    fn to_wrapper(&self) -> T {
        T::from(self.value.clone())
    }

    fn write_wrapped_json(&self, codec: &dyn Codec, out: &mut Vec<u8>) -> Result<(), Error> {
        codec.write_wrapper_json(T::JSON_NAME, out, &mut |out| self.write_json(codec, out))
    }

    fn write_wrapped_protobuf(&self, out: &mut EncodeBuf<'_>) {
        self.write_protobuf_field(T::NUMBER, out);
    }
}

impl<T: fmt::Debug> fmt::Debug for Encoded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

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
    /// If the message holds what JSON cannot, such as an infinite number.
    pub fn write_json(&self, codec: &dyn Codec, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Reply::Owned(value) => codec.write_json(value, out),
            Reply::Shared { message, .. } => message.write_json(codec, out),
            Reply::Wrapped { message, .. } => message.write_wrapped_json(codec, out),
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
