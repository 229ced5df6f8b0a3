//! The messages that answer with a task: a shared task goes out inside them without a copy.

use tricord_bindings::Wraps;

use crate::schema::{SendMessageResponse, StreamResponse, Task, send_message_response, stream_response};

impl From<Task> for SendMessageResponse {
    fn from(task: Task) -> Self {
        Self { payload: Some(send_message_response::Payload::Task(task)) }
    }
}

impl From<Task> for StreamResponse {
    fn from(task: Task) -> Self {
        Self { payload: Some(stream_response::Payload::Task(task)) }
    }
}

impl From<stream_response::Payload> for StreamResponse {
    fn from(payload: stream_response::Payload) -> Self {
        Self { payload: Some(payload) }
    }
}

impl Wraps<Task> for SendMessageResponse {
    const NUMBER: u32 = 1;
    const JSON_NAME: &'static str = "task";
}

impl Wraps<Task> for StreamResponse {
    const NUMBER: u32 = 1;
    const JSON_NAME: &'static str = "task";
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tricord_bindings::{Encoded, Output, Reply};

    use super::*;

    /// Compares a task in its wrapper with the message that the generated code makes of both, as often as the encodings of
    /// the task take to be kept.
    fn is_written_like_the_generated_message<T>()
    where
        T: Wraps<Task> + prost::Message + serde::Serialize + Clone + std::fmt::Debug + PartialEq + 'static,
    {
        let task = Task { id: "t".into(), context_id: "c".repeat(200), ..Task::default() };
        let (whole, shared) = (T::from(task.clone()), Arc::new(Encoded::new(task)));
        for _ in 0..3 {
            let reply = Reply::<T>::wrapped(Arc::clone(&shared), None);
            assert_eq!(*reply.value(), whole);
            let (mut json, mut protobuf) = (Output::new(None), Output::new(None));
            reply.write_json(&crate::schema::codec::SchemaCodec, &mut json).unwrap();
            assert_eq!(json.into_vec(), serde_json::to_vec(&whole).unwrap());
            shared.write_protobuf_field(T::NUMBER, &mut protobuf).unwrap();
            assert_eq!(protobuf.into_vec(), whole.encode_to_vec());
        }
    }

    #[test]
    fn a_wrapped_task_is_written_like_the_generated_message() {
        is_written_like_the_generated_message::<SendMessageResponse>();
        is_written_like_the_generated_message::<StreamResponse>();
    }
}
