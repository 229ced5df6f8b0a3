//! One entry of a task's log as it is held in memory, and the way from and to the record that a store keeps.

use std::sync::{Arc, OnceLock};

use prost::Message as _;
use tricord_bindings::Encoded;
use tricord_bindings::wkt::{Struct, Timestamp};
use uuid::Uuid;

use crate::schema::store::{ArtifactPiece, Created, Record, Resumed, StatusChange, record};
use crate::schema::stream_response::Payload;
use crate::schema::{Artifact, Message, StreamResponse, TaskArtifactUpdateEvent, TaskState, TaskStatus};
use crate::schema::{Task, TaskStatusUpdateEvent};

use super::lifecycle;

/// The ids that every event of a task carries on the wire and no record keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The task's id.
    pub task: Arc<str>,
    /// Its conversation's id.
    pub context: Arc<str>,
}

/// Reads a task's id. Only the spelling that we give out is one: to a client an id is a text, and another text is another
/// id, also where it would be the same UUID.
pub fn parse_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text).then_some(id)
}

/// One entry of a task's log.
#[derive(Debug)]
pub struct LogEvent {
    /// Its place, from 1, without gaps.
    pub seq: u64,
    /// Its size as a record, in bytes.
    pub size: usize,
    /// What happened.
    pub body: Body,
}

/// What happened.
#[derive(Debug)]
pub enum Body {
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
        snapshot: Option<OnceLock<Arc<Encoded<StreamResponse>>>>,
    },
    /// A run began again after a restart. Not streamed.
    Resumed {
        /// Which try of the run it is.
        attempt: u32,
    },
    /// A status or an artifact, as it goes out on every stream.
    Update(Arc<Encoded<StreamResponse>>),
}

/// What is about to be logged.
#[derive(Debug)]
pub enum Draft {
    /// The task comes to be.
    Created(Option<Struct>),
    /// A message joins the history.
    Message(Message),
    /// A run begins again after a restart: which try it is.
    Resumed(u32),
    /// A state is entered.
    Status(StatusChange),
    /// An artifact, or a piece of one, is made.
    Artifact(ArtifactPiece),
}

impl Draft {
    /// What the lifecycle calls it.
    pub fn kind(&self) -> lifecycle::Transition {
        match self {
            Draft::Created(_) => lifecycle::Transition::Created,
            Draft::Message(_) | Draft::Resumed(_) => lifecycle::Transition::Message,
            Draft::Status(status) => lifecycle::Transition::Status(status.state()),
            Draft::Artifact(_) => lifecycle::Transition::Artifact,
        }
    }

    /// A status without metadata.
    pub fn status(state: TaskState, message: Option<Message>) -> Self {
        Draft::Status(StatusChange { state: state.into(), message, metadata: None })
    }

    /// Gives the entry its place, writes its record to the end of `batch` (an encoded `RecordBatch`) and returns the
    /// entry. This is the only protobuf encoding that an entry gets on its way to the store.
    pub fn log(self, ids: &Ids, seq: u64, time_us: i64, batch: &mut Vec<u8>) -> LogEvent {
        let event = match self {
            Draft::Created(metadata) => record::Event::Created(Created { metadata }),
            Draft::Message(message) => record::Event::Message(message),
            Draft::Resumed(attempt) => record::Event::Resumed(Resumed { attempt }),
            Draft::Status(status) => record::Event::Status(status),
            Draft::Artifact(piece) => record::Event::Artifact(piece),
        };
        let record = Record { seq, time_us, event: Some(event) };
        let before = batch.len();
        prost::encoding::message::encode(1, &record, batch);
        let size = batch.len() - before;
        let body = body(ids, record).unwrap_or(Body::Created { time: timestamp(time_us), metadata: None });
        LogEvent { seq, size, body }
    }
}

impl LogEvent {
    /// The entry that a stored record stands for; `None` if the record says nothing (it was damaged).
    pub fn from_record(ids: &Ids, record: Record) -> Option<Self> {
        let (seq, size) = (record.seq, record.encoded_len());
        Some(Self { seq, size, body: body(ids, record)? })
    }

    /// The event that streams carry; history entries have none.
    pub fn update(&self) -> Option<&Arc<Encoded<StreamResponse>>> {
        match &self.body {
            Body::Update(update) => Some(update),
            Body::Created { .. } | Body::Message { .. } | Body::Resumed { .. } => None,
        }
    }

    /// The state that was entered, if one was.
    pub fn state(&self) -> Option<TaskState> {
        match &self.update()?.value().payload {
            Some(Payload::StatusUpdate(update)) => update.status.as_ref().map(TaskStatus::state),
            _ => None,
        }
    }
}

fn body(ids: &Ids, record: Record) -> Option<Body> {
    let time = timestamp(record.time_us);
    let (task_id, context_id) = (|| String::from(&*ids.task), || String::from(&*ids.context));
    Some(match record.event? {
        record::Event::Created(created) => Body::Created { time, metadata: created.metadata },
        record::Event::Message(message) => Body::Message { message: Arc::new(message), snapshot: None },
        record::Event::Resumed(Resumed { attempt }) => Body::Resumed { attempt },
        record::Event::Status(StatusChange { state, message, metadata }) => {
            let status = Some(TaskStatus { state, message, timestamp: Some(time) });
            let update = TaskStatusUpdateEvent { task_id: task_id(), context_id: context_id(), status, metadata };
            Body::Update(Arc::new(Encoded::new(Payload::StatusUpdate(update).into())))
        }
        record::Event::Artifact(ArtifactPiece { artifact, append, last_chunk, metadata }) => {
            let (task_id, context_id) = (task_id(), context_id());
            let update = TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk, metadata };
            Body::Update(Arc::new(Encoded::new(Payload::ArtifactUpdate(update).into())))
        }
    })
}

impl From<Payload> for StreamResponse {
    fn from(payload: Payload) -> Self {
        Self { payload: Some(payload) }
    }
}

impl From<Task> for StreamResponse {
    fn from(task: Task) -> Self {
        Payload::Task(task).into()
    }
}

/// Microseconds since 1970 as the protocol's timestamp.
pub fn timestamp(us: i64) -> Timestamp {
    let nanos = i32::try_from(us.rem_euclid(1_000_000) * 1000).unwrap_or_default();
    Timestamp { seconds: us.div_euclid(1_000_000), nanos }
}

/// The protocol's timestamp as microseconds since 1970, rounded down; saturates far outside any calendar.
pub fn micros(time: &Timestamp) -> i64 {
    time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1000)
}

/// An artifact with these parts and nothing else.
pub fn artifact(id: impl Into<String>, parts: Vec<crate::schema::Part>) -> Artifact {
    Artifact { artifact_id: id.into(), parts, ..Artifact::default() }
}
