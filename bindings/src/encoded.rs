//! Messages with their encodings, which several answers share.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::Error;
use crate::budget::BudgetPermit;
use crate::codec::{Codec, JsonMessage, MAX_CODECS};
use crate::offload::LARGE;
use crate::output::{Encoding, LargeEncoding, Output, Taken};

/// A message with its encodings: protobuf, and JSON by each [`Codec`]. Each is kept from the second use on. A large one is
/// kept from the first, and only as long as it is being sent to somebody.
///
/// The events of streams and cached tasks are held like this: five hundred readers of one event cost two encodings, and the
/// encoding of a small message that is read once is not kept.
pub struct Encoded<T> {
    value: T,
    json: [Kept; MAX_CODECS],
    protobuf: Kept,
    /// What the message takes in memory, where somebody accounts for it.
    permit: Option<BudgetPermit>,
}

/// An encoding: nothing before the first use, kept from the second one on; a large one while it is sent.
#[derive(Default)]
struct Kept {
    used: AtomicBool,
    encoding: OnceLock<Encoding>,
    is_large: AtomicBool,
    large: Mutex<Weak<LargeEncoding>>,
}

impl Kept {
    /// Writes the encoding, which `encode` makes.
    fn write(&self, out: &mut Output, encode: impl FnOnce(&mut Output) -> Result<(), Error>) -> Result<(), Error> {
        if let Some(encoding) = self.encoding.get() {
            out.push_shared(encoding);
            return Ok(());
        }
        if let Some(large) = self.large() {
            out.push_shared(&large.into());
            return Ok(());
        }
        let is_again = self.used.swap(true, Ordering::Relaxed);
        let mark = out.mark();
        encode(out)?;
        if (is_again || out.written(mark) >= LARGE)
            && let Some(taken) = out.take(mark)?
        {
            match taken {
                Taken::Small(encoding) => out.push_shared(self.encoding.get_or_init(|| encoding)),
                Taken::Large(large) => {
                    *self.lock() = Arc::downgrade(&large);
                    self.is_large.store(true, Ordering::Release);
                    out.push_shared(&large.into());
                }
            }
        }
        Ok(())
    }

    fn large(&self) -> Option<Arc<LargeEncoding>> {
        if self.is_large.load(Ordering::Acquire) { self.lock().upgrade() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Weak<LargeEncoding>> {
        // A handle is replaced whole.
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_there(&self) -> bool {
        self.encoding.get().is_some() || self.large().is_some()
    }

    fn len(&self) -> Option<usize> {
        self.encoding.get().map(Encoding::len)
    }
}

impl<T> Encoded<T> {
    /// Wraps a message. Nothing is encoded yet.
    pub fn new(value: T) -> Self {
        Self { value, json: Default::default(), protobuf: Kept::default(), permit: None }
    }

    /// The message.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Ties a permit to a message that nobody else holds yet: it is given back with the message.
    pub fn charge(this: &mut Arc<Self>, permit: BudgetPermit) {
        if let Some(this) = Arc::get_mut(this) {
            this.permit = Some(permit);
        }
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
    /// If the message cannot be written: it holds an infinite number, for example. Or if it is large and the budget of
    /// answers is used up.
    pub fn write_json(&self, codec: &dyn Codec, out: &mut Output) -> Result<(), Error> {
        let encode = |out: &mut Output| codec.write_json(&self.value, out);
        match self.json.get(codec.slot()) {
            Some(kept) => kept.write(out, encode),
            None => encode(out),
        }
    }
}

impl<T: prost::Message> Encoded<T> {
    /// Writes the message as protobuf.
    ///
    /// # Errors
    /// If it is large and the budget of answers is used up.
    pub fn write_protobuf(&self, out: &mut Output) -> Result<(), Error> {
        self.protobuf.write(out, |out| {
            // A buffer that grows is never full.
            let _ = self.value.encode(&mut **out);
            Ok(())
        })
    }

    /// Returns the length of the message as protobuf, in bytes.
    pub fn protobuf_len(&self) -> usize {
        self.protobuf.len().unwrap_or_else(|| self.value.encoded_len())
    }

    /// Writes the message as the field with this number of another message.
    ///
    /// # Errors
    /// If it is large and the budget of answers is used up.
    pub fn write_protobuf_field(&self, number: u32, out: &mut Output) -> Result<(), Error> {
        prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut **out);
        prost::encoding::encode_varint(self.protobuf_len() as u64, &mut **out);
        self.write_protobuf(out)
    }
}

/// A message that may consist of one field alone, whose value is the message `M`.
///
/// The field is a member of a oneof or a plain message field. [`Reply::wrapped`](crate::Reply::wrapped) answers with `Self`
/// and needs no `Self`: it writes the field around the encoding of an `M` that others share.
pub trait Wraps<M>: From<M> {
    /// The field's number in protobuf.
    const NUMBER: u32;
    /// The field's name in ProtoJSON.
    const JSON_NAME: &'static str;
}

/// A shared message as the only field of a `T`.
pub trait Wrapped<T>: fmt::Debug + Send + Sync {
    /// Returns the message.
    fn message(&self) -> &dyn Any;

    /// Makes a `T` with a copy of the message.
    fn to_wrapper(&self) -> T;

    /// Writes the `T` as JSON, as `codec` does.
    ///
    /// # Errors
    /// Those of [`Encoded::write_json`].
    fn write_wrapped_json(&self, codec: &dyn Codec, out: &mut Output) -> Result<(), Error>;

    /// Writes the `T` as protobuf.
    ///
    /// # Errors
    /// Those of [`Encoded::write_protobuf`].
    fn write_wrapped_protobuf(&self, out: &mut Output) -> Result<(), Error>;

    /// Returns the length of the `T` as protobuf, in bytes.
    fn wrapped_protobuf_len(&self) -> usize;

    /// Returns how many bytes are still to be encoded before the `T` can be written as JSON, about, or as protobuf.
    fn unencoded(&self, codec: Option<&dyn Codec>) -> usize;
}

impl<T, M> Wrapped<T> for Encoded<M>
where
    T: Wraps<M>,
    M: Clone + fmt::Debug + prost::Message + serde::Serialize + 'static,
{
    fn message(&self) -> &dyn Any {
        self.value()
    }

    fn to_wrapper(&self) -> T {
        T::from(self.value.clone())
    }

    fn write_wrapped_json(&self, codec: &dyn Codec, out: &mut Output) -> Result<(), Error> {
        codec.write_wrapper_json(T::JSON_NAME, out, &mut |out| self.write_json(codec, out))
    }

    fn write_wrapped_protobuf(&self, out: &mut Output) -> Result<(), Error> {
        self.write_protobuf_field(T::NUMBER, out)
    }

    fn wrapped_protobuf_len(&self) -> usize {
        let length = self.protobuf_len();
        prost::encoding::key_len(T::NUMBER) + prost::encoding::encoded_len_varint(length as u64) + length
    }

    fn unencoded(&self, codec: Option<&dyn Codec>) -> usize {
        Encoded::unencoded(self, codec)
    }
}

impl<T: prost::Message> Encoded<T> {
    /// Returns how many bytes are still to be encoded before the message can be written as JSON, about, or as protobuf.
    pub(crate) fn unencoded(&self, codec: Option<&dyn Codec>) -> usize {
        let kept = match codec {
            Some(codec) => self.json.get(codec.slot()),
            None => Some(&self.protobuf),
        };
        if kept.is_some_and(Kept::is_there) { 0 } else { self.protobuf_len() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Encoded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
