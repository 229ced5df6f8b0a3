//! Replies on their way through tonic, encoded once where they are shared.

use std::marker::PhantomData;

use tonic::Status;
use tonic::codec::{EncodeBuf, Encoder};

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
