//! The committed half of a cell: the fold that readers see, the latest events for streams, and when a checkpoint is due.

use std::collections::VecDeque;
use std::sync::Arc;

use prost::Message as _;
use tricord_bindings::Encoded;

use super::super::folds::OpenFold;
use crate::schema::store::Checkpoint;
use crate::schema::{StreamResponse, Task};
use crate::task::event::{Body, LogEvent};
use crate::task::{fold, lifecycle};

/// Committed events kept for the readers of a stream; a reader that is further behind reads the store.
const RING_EVENTS: usize = 4096;
const RING_BYTES: usize = 2 << 20;
/// A log tail larger than this, and than the checkpoint before it, is worth a checkpoint: each byte is then written a
/// bounded number of times, however many turns the task has. Folding that much takes a few milliseconds, once after a
/// restart; between the turns of a task its fold stays in memory (see `folds`).
const CHECKPOINT_BYTES: usize = 2 << 20;

/// Committed: what readers see.
pub(in crate::engine) struct Committed {
    pub(in crate::engine) task: Fold,
    pub(in crate::engine) seq: u64,
    /// The last record that entered a state which ends a blocking send.
    pub(in crate::engine) pause: u64,
    ring: VecDeque<Arc<LogEvent>>,
    ring_bytes: usize,
    tail_bytes: usize,
    checkpoint_bytes: usize,
}

/// The fold of the committed log.
pub(in crate::engine) enum Fold {
    /// Still growing.
    Open(Box<Task>),
    /// Ended: shared with everybody who reads it.
    Ended(Arc<Encoded<Task>>),
}

impl Fold {
    pub(in crate::engine) fn task(&self) -> &Task {
        match self {
            Fold::Open(task) => task,
            Fold::Ended(task) => task.value(),
        }
    }
}

impl Committed {
    /// Of a task that is not created yet.
    pub(super) fn new(task: Box<Task>) -> Self {
        Self {
            task: Fold::Open(task),
            seq: 0,
            pause: 0,
            ring: VecDeque::new(),
            ring_bytes: 0,
            tail_bytes: 0,
            checkpoint_bytes: 0,
        }
    }

    /// Of a task in the store.
    pub(super) fn stored(fold: OpenFold) -> Self {
        let OpenFold { seq, tail_bytes, checkpoint_bytes, .. } = fold;
        let task = fold.into_task();
        let is_pause = lifecycle::is_pause(super::state_of(&task));
        Self { seq, pause: if is_pause { seq } else { 0 }, tail_bytes, checkpoint_bytes, ..Self::new(task) }
    }

    /// Takes the fold out, for the task's next cell; `None` if the task has ended.
    pub(super) fn take_fold(&mut self, time_us: i64, bytes: usize) -> Option<OpenFold> {
        let Fold::Open(task) = &mut self.task else { return None };
        Some(OpenFold {
            task: Arc::new(Encoded::new(std::mem::take(task.as_mut()))),
            seq: self.seq,
            time_us,
            bytes,
            tail_bytes: self.tail_bytes,
            checkpoint_bytes: self.checkpoint_bytes,
        })
    }

    /// Nobody follows the stream any more.
    pub(super) fn forget_ring(&mut self) {
        self.ring = VecDeque::new();
        self.ring_bytes = 0;
    }

    /// The committed event with this number, if the ring still has it.
    pub(in crate::engine) fn event(&self, seq: u64) -> Option<&Arc<LogEvent>> {
        let first = self.ring.front()?.seq;
        self.ring.get(usize::try_from(seq.checked_sub(first)?).ok()?)
    }

    /// Moves all events from `seq` on into `backlog`, which is empty; `false` if the ring does not reach back that far.
    pub(in crate::engine) fn hand_over(&mut self, seq: u64, backlog: &mut VecDeque<Arc<LogEvent>>) -> bool {
        while let Some(passed) = self.ring.pop_front_if(|event| event.seq < seq) {
            self.ring_bytes -= passed.size;
        }
        let reaches = self.ring.front().is_some_and(|event| event.seq == seq);
        if reaches {
            std::mem::swap(&mut self.ring, backlog);
            self.ring_bytes = 0;
        }
        reaches
    }

    /// Takes in the next committed event; `keep` where a stream may read it from here.
    pub(super) fn take(&mut self, event: Arc<LogEvent>, keep: bool) {
        let Fold::Open(task) = &mut self.task else { return };
        fold::apply(task, &event);
        self.seq = event.seq;
        self.tail_bytes += event.size;
        if let Body::Message { snapshot: Some(snapshot), .. } = &event.body {
            let _ = snapshot.set(Arc::new(Encoded::new(StreamResponse::from(task.as_ref().clone()))));
        }
        if event.state().is_some_and(lifecycle::is_pause) {
            self.pause = event.seq;
        }
        if keep {
            self.ring_bytes += event.size;
            self.ring.push_back(event);
            while self.ring.len() > RING_EVENTS || self.ring_bytes > RING_BYTES {
                let Some(oldest) = self.ring.pop_front() else { break };
                self.ring_bytes -= oldest.size;
            }
        }
    }

    /// The checkpoint to write, if the tail has outgrown the last one: each byte is written a bounded number of times.
    pub(super) fn checkpoint_due(&mut self, ended: bool) -> Option<(u64, Vec<u8>)> {
        let due = if ended { CHECKPOINT_BYTES } else { CHECKPOINT_BYTES.max(self.checkpoint_bytes) };
        if self.tail_bytes <= due {
            return None;
        }
        let Fold::Open(task) = &mut self.task else { return None };
        // Lent to the checkpoint while it is encoded: a copy of a long task costs more than the encoding.
        let checkpoint = Checkpoint { seq: self.seq, task: Some(std::mem::take(task.as_mut())) };
        let bytes = checkpoint.encode_to_vec();
        **task = checkpoint.task.unwrap_or_default();
        self.tail_bytes = 0;
        self.checkpoint_bytes = bytes.len();
        Some((self.seq, bytes))
    }

    /// Shares the task with everybody who reads it: nothing can be added any more.
    pub(super) fn end(&mut self) {
        if let Fold::Open(task) = &mut self.task {
            self.task = Fold::Ended(Arc::new(Encoded::new(std::mem::take(task.as_mut()))));
        }
    }
}
