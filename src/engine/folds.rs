//! Folds of tasks that wait: what spares the next turn or read of a long task the folding of its whole log.
//!
//! A task that waits for its client has no cell. Its next turn, a GetTask or a list would fold its log from the last
//! checkpoint on, and a checkpoint is as long as the task: without this a turn costs more with every turn before it. More
//! checkpoints do not help, as reading one costs what folding the same records costs, and writing one for each turn would
//! cost as much again. So the fold of a cell that goes away is kept here, within a bound of bytes.
//!
//! A fold is only a start: whoever takes it reads what the log holds behind it, which is nothing as a rule. So it need not be
//! right, only once have been, and it is never in the way of another process that writes the task.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tricord_bindings::Encoded;
use uuid::Uuid;

use crate::schema::Task;

/// The fold of a task's log up to a record.
#[derive(Clone)]
pub(super) struct OpenFold {
    pub(super) task: Arc<Encoded<Task>>,
    /// The last record in it.
    pub(super) seq: u64,
    /// The time of that record.
    pub(super) time_us: i64,
    /// Bytes of all records.
    pub(super) bytes: usize,
    /// Bytes of the records since the last checkpoint.
    pub(super) tail_bytes: usize,
    /// Bytes of the last checkpoint.
    pub(super) checkpoint_bytes: usize,
}

impl OpenFold {
    /// About what it takes in memory: the value and its two encodings.
    fn size(&self) -> usize {
        1024 + 4 * self.bytes
    }
}

/// The folds that were used last, within a bound of bytes.
pub(super) struct OpenFolds {
    inner: Mutex<Inner>,
    most: usize,
}

#[derive(Default)]
struct Inner {
    folds: HashMap<Uuid, (u64, OpenFold)>,
    /// The tasks by when they were put in.
    order: BTreeMap<u64, Uuid>,
    next: u64,
    bytes: usize,
}

impl OpenFolds {
    pub(super) fn new(most: usize) -> Self {
        Self { inner: Mutex::default(), most }
    }

    /// Returns a copy of the handle on a task's fold, for a reader.
    pub(super) fn get(&self, id: Uuid) -> Option<OpenFold> {
        self.lock().folds.get(&id).map(|(_, fold)| fold.clone())
    }

    /// Takes a task's fold out, for a cell that goes on with it.
    pub(super) fn take(&self, id: Uuid) -> Option<OpenFold> {
        self.lock().remove(id)
    }

    /// Puts the fold of a task in, in place of the one before.
    pub(super) fn put(&self, id: Uuid, fold: OpenFold) {
        if fold.size() > self.most / 2 {
            return;
        }
        let mut dropped = Vec::new();
        let mut inner = self.lock();
        dropped.extend(inner.remove(id));
        let stamp = inner.next;
        inner.next += 1;
        inner.bytes += fold.size();
        inner.order.insert(stamp, id);
        inner.folds.insert(id, (stamp, fold));
        while inner.bytes > self.most {
            let Some((_, oldest)) = inner.order.first_key_value() else { break };
            let oldest = *oldest;
            dropped.extend(inner.remove(oldest));
        }
        // Freeing a long task takes a while, which nobody needs to wait for.
        drop(inner);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remove(&mut self, id: Uuid) -> Option<OpenFold> {
        let (stamp, fold) = self.folds.remove(&id)?;
        self.order.remove(&stamp);
        self.bytes -= fold.size();
        Some(fold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(bytes: usize) -> OpenFold {
        let task = Arc::new(Encoded::new(Task::default()));
        OpenFold { task, seq: 1, time_us: 0, bytes, tail_bytes: 0, checkpoint_bytes: 0 }
    }

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let folds = OpenFolds::new(4 * fold(1000).size());
        let ids: Vec<_> = (0..6).map(Uuid::from_u128).collect();
        ids[..4].iter().for_each(|id| folds.put(*id, fold(1000)));
        // Used again: it is the newest now.
        let again = folds.take(ids[0]).unwrap();
        folds.put(ids[0], again);
        ids[4..].iter().for_each(|id| folds.put(*id, fold(1000)));
        let kept: Vec<_> = ids.iter().map(|id| folds.get(*id).is_some()).collect();
        assert_eq!(kept, [true, false, false, true, true, true]);
        ids.iter().for_each(|id| drop(folds.take(*id)));
        let inner = folds.lock();
        assert_eq!((inner.bytes, inner.order.len(), inner.folds.len()), (0, 0, 0));
    }

    #[test]
    fn a_fold_that_would_take_most_of_the_room_is_not_kept() {
        let folds = OpenFolds::new(1 << 20);
        folds.put(Uuid::nil(), fold(1 << 20));
        assert!(folds.get(Uuid::nil()).is_none());
    }
}
