//! A stream over any binding, read as the same events.

use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tricord::client::Binding;

use super::answer::{of_document, of_ending, of_response};
use super::http::PATIENCE;
use super::sse::Reader;
use super::{Refusal, grpc, schema};

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Its id; gRPC has none.
    pub(crate) id: Option<String>,
    /// The StreamResponse.
    pub(crate) value: Value,
}

impl Event {
    /// `task`, `message`, `statusUpdate` or `artifactUpdate`.
    pub(crate) fn kind(&self) -> &str {
        self.value.as_object().unwrap().keys().next().unwrap()
    }

    /// Returns the state of a status update or of the task.
    pub(crate) fn state(&self) -> &str {
        let status = [&self.value["statusUpdate"]["status"], &self.value["task"]["status"]];
        status.iter().find_map(|status| status["state"].as_str()).unwrap_or_default()
    }

    /// Returns the text of an artifact update's parts.
    pub(crate) fn text(&self) -> String {
        parts_text(&self.value["artifactUpdate"]["artifact"]["parts"])
    }

    /// Returns the sequence number in the id.
    pub(crate) fn place(&self) -> Option<u64> {
        self.id.as_ref().map(|id| id.split_once('.').unwrap().1.parse().unwrap())
    }
}

/// Returns the texts of parts, joined.
pub(crate) fn parts_text(parts: &Value) -> String {
    parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

/// The events of a stream as they arrive. Dropping it closes the connection.
pub(crate) struct Events {
    pub(crate) wire: Binding,
    pub(crate) headers: HeaderMap,
    id: Option<Value>,
    asked: String,
    source: Source,
    /// Whether the gRPC trailers have arrived, after which nothing follows.
    over: bool,
}

enum Source {
    Sse(Box<Reader>),
    Grpc(Incoming, BytesMut),
}

impl Events {
    pub(super) fn begins(wire: Binding, response: &Response<Incoming>) -> bool {
        match wire {
            Binding::Grpc => !response.headers().contains_key("grpc-status"),
            _ => response.headers().get("content-type").is_some_and(|value| value == "text/event-stream"),
        }
    }

    pub(super) fn new(wire: Binding, id: &Option<Value>, asked: String, response: Response<Incoming>) -> Self {
        assert_eq!(response.status(), 200, "{asked}");
        let (head, body) = response.into_parts();
        let source = match wire {
            Binding::Grpc => Source::Grpc(body, BytesMut::new()),
            _ => Source::Sse(Box::new(Reader::new(body))),
        };
        Self { wire, headers: head.headers, id: id.clone(), asked, source, over: false }
    }

    /// Returns the events of an answer over HTTP+JSON.
    pub(crate) fn of_http(response: Response<Incoming>) -> Self {
        Self::new(Binding::HttpJson, &None, "a stream".to_owned(), response)
    }

    /// Returns the next event, `None` where the stream ends normally, or the error with which it ends.
    pub(crate) async fn next(&mut self) -> Option<Result<Event, Refusal>> {
        if self.over {
            return None;
        }
        let next = async {
            match &mut self.source {
                Source::Sse(reader) => {
                    let record = reader.next().await?;
                    let body: Value = serde_json::from_str(&record.data).expect("one JSON document");
                    let value = match self.wire {
                        Binding::JsonRpc => {
                            assert_eq!(record.event, None, "{}", self.asked);
                            of_response(&self.id, &body, &self.asked)
                        }
                        _ if record.event.as_deref() == Some("error") => Err(of_document(&body, &self.asked)),
                        _ => {
                            assert_eq!(record.event, None, "{}", self.asked);
                            Ok(body)
                        }
                    };
                    if let Ok(value) = &value {
                        schema::check(&schema::output("SubscribeToTask"), value, &self.asked);
                    }
                    Some(value.map(|value| Event { id: record.id, value }))
                }
                Source::Grpc(body, received) => next_of_grpc(body, received, &self.asked).await,
            }
        };
        let next = tokio::time::timeout(PATIENCE, next).await;
        let next = next.unwrap_or_else(|_| panic!("{}: no event in time", self.asked));
        self.over = self.wire == Binding::Grpc && !matches!(next, Some(Ok(_)));
        if let Some(Ok(event)) = &next {
            assert_eq!(event.value.as_object().unwrap().len(), 1, "{}: {event:?}", self.asked);
        }
        next
    }

    /// Returns the next event of a stream that must not have ended.
    pub(crate) async fn event(&mut self) -> Event {
        match self.next().await {
            Some(Ok(event)) => event,
            other => panic!("{}: expected an event, got {other:?}", self.asked),
        }
    }

    /// Returns all events up to the normal end.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event.unwrap_or_else(|refusal| panic!("{}: {refusal:?}", self.asked)));
        }
        events
    }

    /// Returns the comments so far.
    pub(crate) fn comments(&self) -> &[(Instant, String)] {
        match &self.source {
            Source::Sse(reader) => &reader.comments,
            Source::Grpc(..) => &[],
        }
    }
}

async fn next_of_grpc(body: &mut Incoming, received: &mut BytesMut, asked: &str) -> Option<Result<Event, Refusal>> {
    loop {
        if let Some(value) = grpc::next_message(received, &schema::output("SubscribeToTask")) {
            return Some(Ok(Event { id: None, value }));
        }
        let frame = body.frame().await.unwrap_or_else(|| panic!("{asked}: no trailers"));
        match frame.unwrap_or_else(|error| panic!("{asked}: the stream broke off: {error}")).into_data() {
            Ok(data) => received.extend_from_slice(&data),
            Err(frame) => {
                let ending = grpc::ending(&frame.into_trailers().unwrap()).expect("a status");
                assert!(received.is_empty(), "{asked}: the stream ended inside a message");
                return (ending.code != 0).then(|| Err(of_ending(ending, asked)));
            }
        }
    }
}
