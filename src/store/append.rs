//! What a commit writes of a task: the handle, the lease, the row and the records.

use super::ClaimKey;
use crate::schema::TaskState;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How many bits of a seq a log can hold.
pub(super) const SEQ_BITS: u32 = 20;

/// The highest seq that a log can hold.
pub(crate) const MAX_SEQ: u64 = (1 << SEQ_BITS) - 1;

/// How long the records of an ended task are kept for streams that resume, even where a checkpoint covers them.
pub(crate) const KEEP_TAIL: Duration = Duration::from_secs(3600);

/// A backend's own name for a task.
///
/// It means something only to the backend that gave it out, and only while that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskHandle(pub(super) i64);

/// The right of a process to write tasks, given by the store.
///
/// A process has one lease for all its tasks. The store judges when it has ended, and then refuses what is written under
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The process that holds it.
    pub process: Uuid,
    /// The number of the lease in its store; later leases have higher ones.
    pub epoch: u64,
}

/// The part of a task that its first append writes and nothing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// The public id.
    pub id: Uuid,
    /// The name of the agent.
    pub agent: Arc<str>,
    /// The owner of the task.
    pub owner: Arc<str>,
    /// The conversation, a name within agent and owner.
    pub context: Arc<str>,
    /// The time of creation, in microseconds since 1970.
    pub created_us: i64,
}

/// The part of a task that is searched and counted, written with the append that changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The state.
    pub state: TaskState,
    /// When it was entered, in microseconds since 1970.
    pub status_us: i64,
    /// Whether a run of this process works on the task, so that a restart has to recover it.
    pub live: bool,
}

/// What one commit writes of one task.
///
/// A backend refuses it, and only it, with an `AppendError` when `lease` or `follows` is no longer true.
#[derive(Debug, Clone)]
pub struct Append {
    /// The task.
    pub task: TaskHandle,
    /// The lease that it is written under.
    pub lease: Lease,
    /// The seq of the last record in the log so far; 0 for a new task.
    pub follows: u64,
    /// The seq of the last record in `body`, at most 1,048,575; `follows` if there is none.
    pub last: u64,
    /// Set with the first append of a task. `row` is then set, too.
    pub new: Option<NewTask>,
    /// An encoded [`RecordBatch`](crate::schema::store::RecordBatch) with the records `follows + 1..=last`. Empty if
    /// there is none, and only a row or a checkpoint is written.
    pub body: Vec<u8>,
    /// Set when the state or `live` changed.
    pub row: Option<Row>,
    /// A seq, at most `last`, and the encoded [`Checkpoint`](crate::schema::store::Checkpoint) of the task folded up to
    /// it. It replaces the one before.
    pub checkpoint: Option<(u64, Vec<u8>)>,
    /// The idempotency keys whose retries are answered with this task from now on.
    pub claims: Vec<ClaimKey>,
}
