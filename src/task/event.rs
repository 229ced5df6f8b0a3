//! One entry of a task's log as it is held in memory, and the way from and to the record that a store keeps.

use std::sync::{Arc, OnceLock};

use prost::Message as _;
use tricord_bindings::Encoded;
use tricord_bindings::wkt::{Struct, Timestamp};
use uuid::Uuid;

use crate::schema::TaskStatusUpdateEvent;
use crate::schema::store::{ArtifactPiece, Record, StatusChange, record};
use crate::schema::stream_response::Payload;
use crate::schema::{Message, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus};

use super::lifecycle;

/// The ids that every event of a task carries on the wire and no record keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ids {
    /// The task's id.
    pub task: Arc<str>,
    /// Its conversation's id.
    pub context: Arc<str>,
}

/// Reads a task's id. Only the spelling that we give out is one: to a client an id is a text, and another text is another
/// id, also where it would be the same UUID.
pub(crate) fn parse_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text).then_some(id)
}

/// One entry of a task's log.
#[derive(Debug)]
pub(crate) struct LogEvent {
    /// Its place, from 1, without gaps.
    pub seq: u64,
    /// Its size as a record, in bytes.
    pub size: usize,
    /// What happened.
    pub body: Body,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Body {
    /// The task came to be.
    Created {
        /// When.
        time: Timestamp,
        /// The task's metadata.
        metadata: Option<Struct>,
    },
    /// A message joined the history. Not streamed.
    Message {
        /// The message.
        message: Arc<Message>,
        /// The task folded at this record, for the stream that began with this message; filled when it is committed.
        snapshot: Option<OnceLock<Arc<Encoded<Task>>>>,
    },
    /// A run began with another message than the first, or again after a restart. Not streamed.
    RunStarted,
    /// A status or an artifact, as it goes out on every stream.
    Update(Arc<Encoded<StreamResponse>>),
}

impl record::Event {
    /// Returns what the lifecycle calls this event.
    pub fn transition(&self) -> lifecycle::Transition {
        match self {
            Self::Created(_) => lifecycle::Transition::Created,
            Self::Message(_) | Self::Resumed(_) | Self::TurnStarted(_) => lifecycle::Transition::Message,
            Self::Status(status) => lifecycle::Transition::Status(status.state()),
            Self::Artifact(_) => lifecycle::Transition::Artifact,
        }
    }

    /// Makes a status change without metadata.
    pub fn status(state: TaskState, message: Option<Message>) -> Self {
        Self::Status(StatusChange { state: state.into(), message, metadata: None })
    }
}

impl LogEvent {
    /// Gives an event its place in the log and appends its record to `batch`, an encoded `RecordBatch`.
    ///
    /// This is the only time that the event is encoded for the store.
    pub(crate) fn append(ids: &Ids, seq: u64, time_us: i64, event: record::Event, batch: &mut Vec<u8>) -> Self {
        let mut record = Record { seq, time_us, event: Some(event) };
        let before = batch.len();
        prost::encoding::message::encode(1, &record, batch);
        let size = batch.len() - before;
        let event = record.event.take().expect("the record was made with an event");
        Self { seq, size, body: Body::new(ids, time_us, event) }
    }

    /// Reads a stored record. Returns `None` for a record without an event, which is a damaged one.
    pub(crate) fn from_record(ids: &Ids, record: Record) -> Option<Self> {
        let (seq, size) = (record.seq, record.encoded_len());
        Some(Self { seq, size, body: Body::new(ids, record.time_us, record.event?) })
    }

    /// The event that streams carry; history entries have none.
    pub(crate) fn update(&self) -> Option<&Arc<Encoded<StreamResponse>>> {
        match &self.body {
            Body::Update(update) => Some(update),
            Body::Created { .. } | Body::Message { .. } | Body::RunStarted => None,
        }
    }

    /// The state that was entered, if one was.
    pub(crate) fn state(&self) -> Option<TaskState> {
        match &self.update()?.value().payload {
            Some(Payload::StatusUpdate(update)) => update.status.as_ref().map(TaskStatus::state),
            _ => None,
        }
    }
}

impl Body {
    fn new(ids: &Ids, time_us: i64, event: record::Event) -> Self {
        let time = timestamp(time_us);
        let (task_id, context_id) = (|| String::from(&*ids.task), || String::from(&*ids.context));
        match event {
            record::Event::Created(created) => Self::Created { time, metadata: created.metadata },
            record::Event::Message(message) => Self::Message { message: Arc::new(message), snapshot: None },
            record::Event::Resumed(_) | record::Event::TurnStarted(_) => Self::RunStarted,
            record::Event::Status(StatusChange { state, message, metadata }) => {
                let status = Some(TaskStatus { state, message, timestamp: Some(time) });
                let update = TaskStatusUpdateEvent { task_id: task_id(), context_id: context_id(), status, metadata };
                Self::Update(Arc::new(Encoded::new(Payload::StatusUpdate(update).into())))
            }
            record::Event::Artifact(ArtifactPiece { artifact, append, last_chunk, metadata }) => {
                let (task_id, context_id) = (task_id(), context_id());
                let update = TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk, metadata };
                Self::Update(Arc::new(Encoded::new(Payload::ArtifactUpdate(update).into())))
            }
        }
    }
}

/// Microseconds since 1970 as the protocol's timestamp.
pub(crate) fn timestamp(us: i64) -> Timestamp {
    let nanos = i32::try_from(us.rem_euclid(1_000_000) * 1000).unwrap_or_default();
    Timestamp { seconds: us.div_euclid(1_000_000), nanos }
}

/// The protocol's timestamp as microseconds since 1970, rounded down; saturates far outside any calendar.
pub(crate) fn micros(time: &Timestamp) -> i64 {
    time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1000)
}
