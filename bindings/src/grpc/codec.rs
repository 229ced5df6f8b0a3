//! Messages on their way through tonic: replies out, encoded once where they are shared, and bytes in.

use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::reply::Reply;

/// Writes replies.
pub(super) struct ReplyEncoder<A>(PhantomData<fn(A)>);

impl<A> ReplyEncoder<A> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: prost::Message> Encoder for ReplyEncoder<A> {
    type Item = Reply<A>;
    type Error = Status;

    fn encode(&mut self, reply: Reply<A>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        match reply {
            Reply::Owned(message) => {
                out.reserve(message.encoded_len());
                message.encode(out).map_err(|error| Status::internal(error.to_string()))
            }
            Reply::Shared { message, .. } => {
                message.write_protobuf(out);
                Ok(())
            }
            Reply::Wrapped { message, .. } => {
                message.write_wrapped_protobuf(out);
                Ok(())
            }
        }
    }
}

/// Reads messages as bytes. They are decoded later, where the other bindings decode theirs.
pub(super) struct RawDecoder;

impl Decoder for RawDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(2 << 10, 32 << 10)
    }
}
