//! Turns a body of server-sent events into a stream of messages, for both JSON bindings.

use futures::stream;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::options::Deadline;
use super::sse::{SseEvent, SseReader};
use super::transport::root_cause;
use super::{ClientError, EventStream, MAX_ANSWER, StreamEvent};

struct Reading<F> {
    body: Incoming,
    reader: SseReader,
    deadline: Deadline,
    decode: F,
    ended: bool,
}

/// Reads events up to the end of the body or the first error. `decode` turns each one into a message.
pub(super) fn events<T, F>(body: Incoming, deadline: Deadline, decode: F) -> EventStream<T>
where
    T: 'static,
    F: Fn(&SseEvent) -> Result<T, ClientError> + Send + 'static,
{
    let reading = Reading { body, reader: SseReader::new(MAX_ANSWER), deadline, decode, ended: false };
    EventStream::new(stream::unfold(reading, |mut reading| async {
        if reading.ended {
            return None;
        }
        let next = reading.next().await?;
        reading.ended = next.is_err();
        Some((next, reading))
    }))
}

impl<T, F: Fn(&SseEvent) -> Result<T, ClientError>> Reading<F> {
    async fn next(&mut self) -> Option<Result<StreamEvent<T>, ClientError>> {
        loop {
            if let Some(event) = self.reader.next() {
                return Some((self.decode)(&event).map(|message| StreamEvent { id: event.id, message }));
            }
            let frame = match self.deadline.bound(self.body.frame()).await {
                Err(error) => return Some(Err(error)),
                Ok(Some(Err(error))) => return Some(Err(ClientError::Broken(root_cause(&error)))),
                Ok(Some(Ok(frame))) => frame,
                Ok(None) if self.reader.inside_event() => {
                    return Some(Err(ClientError::Broken("the stream ended inside an event".to_owned())));
                }
                Ok(None) => return None,
            };
            if let Ok(data) = frame.into_data()
                && let Err(error) = self.reader.push(&data)
            {
                return Some(Err(ClientError::BadAnswer(format!("the stream has {error}"))));
            }
        }
    }
}
