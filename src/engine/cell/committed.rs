//! The committed half of a cell: the fold that readers see, the latest events for streams, and when a checkpoint is due.

use std::collections::VecDeque;
use std::sync::Arc;

use tricord_bindings::{Encoded, Output};

use super::super::folds::OpenFold;
use crate::schema::{Task, TaskState};
use crate::task::event::{Body, LogEvent};
use crate::task::{fold, lifecycle};

/// Committed events kept for the readers of a stream; a reader that is further behind reads the store.
const RING_EVENTS: usize = 4096;
const RING_BYTES: usize = 2 << 20;
/// A log tail larger than this, and than the checkpoint before it, is worth a checkpoint: each byte is then written a
/// bounded number of times, however many turns the task has. Folding that much takes a few milliseconds, once after a
/// restart; between the turns of a task its fold stays in memory (see `folds`).
const CHECKPOINT_BYTES: usize = 2 << 20;

/// What readers see.
pub(super) struct Committed {
    /// The fold of the committed log. A reader that holds it makes the next event copy it.
    task: Arc<Encoded<Task>>,
    /// The last committed record.
    seq: u64,
    /// The last committed record that entered a state on which a blocking send returns.
    pause: u64,
    ring: VecDeque<Arc<LogEvent>>,
    ring_bytes: usize,
    tail_bytes: usize,
    checkpoint_bytes: usize,
}

impl Committed {
    /// Of a task that is not created yet.
    pub(super) fn new(task: Task) -> Self {
        Self {
            task: Arc::new(Encoded::new(task)),
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
        let OpenFold { task, seq, tail_bytes, checkpoint_bytes, .. } = fold;
        let pause = if lifecycle::is_pause(fold::state(task.value())) { seq } else { 0 };
        let (ring, ring_bytes) = (VecDeque::new(), 0);
        Self { task, seq, pause, ring, ring_bytes, tail_bytes, checkpoint_bytes }
    }

    /// Returns the fold for the task's next cell, or `None` if the task has ended.
    pub(super) fn open_fold(&self, time_us: i64, bytes: usize) -> Option<OpenFold> {
        let &Self { seq, tail_bytes, checkpoint_bytes, .. } = self;
        let open = !lifecycle::is_terminal(self.state());
        open.then(|| OpenFold { task: self.task(), seq, time_us, bytes, tail_bytes, checkpoint_bytes })
    }

    pub(super) fn task(&self) -> Arc<Encoded<Task>> {
        Arc::clone(&self.task)
    }

    pub(super) fn value(&self) -> &Task {
        self.task.value()
    }

    pub(super) fn state(&self) -> TaskState {
        fold::state(self.task.value())
    }

    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    pub(super) fn pause(&self) -> u64 {
        self.pause
    }

    /// Drops the ring: nobody follows the task.
    pub(super) fn clear_ring(&mut self) {
        self.ring = VecDeque::new();
        self.ring_bytes = 0;
    }

    /// The committed event with this number, if the ring still has it.
    pub(super) fn event(&self, seq: u64) -> Option<&Arc<LogEvent>> {
        let first = self.ring.front()?.seq;
        self.ring.get(usize::try_from(seq.checked_sub(first)?).ok()?)
    }

    /// Moves all events from `seq` on into `backlog`, which is empty; `false` if the ring does not reach back that far.
    pub(super) fn hand_over(&mut self, seq: u64, backlog: &mut VecDeque<Arc<LogEvent>>) -> bool {
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
        fold::apply(Encoded::make_mut(&mut self.task), &event);
        self.seq = event.seq;
        self.tail_bytes += event.size;
        if let Body::Message { snapshot: Some(snapshot), .. } = &event.body {
            let _ = snapshot.set(Arc::clone(&self.task));
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
        // The fields of a `Checkpoint`: made from one, the task would have to be copied.
        let mut out = Output::new(None);
        prost::encoding::uint64::encode(1, &self.seq, &mut *out);
        // Nothing is charged, so nothing is refused.
        let _ = self.task.write_protobuf_field(2, &mut out);
        let bytes = out.into_vec();
        self.tail_bytes = 0;
        self.checkpoint_bytes = bytes.len();
        Some((self.seq, bytes))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::schema::store::Checkpoint;
    use crate::task::event::Ids;

    #[test]
    fn a_checkpoint_is_written_as_prost_encodes_it() {
        let ids = Ids { task: "t".into(), context: "c".into() };
        for (seq, task) in [(1, Task::default()), (300, fold::empty(&ids)), (u64::MAX, fold::empty(&ids))] {
            let fold = OpenFold {
                task: Arc::new(Encoded::new(task.clone())),
                seq,
                time_us: 0,
                bytes: 0,
                tail_bytes: CHECKPOINT_BYTES + 1,
                checkpoint_bytes: 0,
            };
            let written = Committed::stored(fold).checkpoint_due(false);
            assert_eq!(written, Some((seq, Checkpoint { seq, task: Some(task) }.encode_to_vec())));
        }
    }
}
