//! Which tasks are live, and which have ended lately: the two maps that a request looks into before the store.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use tricord_bindings::Encoded;
use uuid::Uuid;

use crate::schema::Task;

use super::cell::TaskCell;

const SHARDS: usize = 64;

/// Ids are random already (and made by us): hashing takes eight of their bytes.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = self.0.rotate_left(32) ^ u64::from_le_bytes(word);
        }
    }
}

type IdMap<V> = HashMap<Uuid, V, BuildHasherDefault<IdHasher>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The live tasks. A cell lives as long as a run, a sender, a reader or the writer holds it; the map does not.
pub(super) struct Cells {
    shards: [Shard; SHARDS],
}

#[derive(Default)]
struct Shard(Mutex<ShardInner>);

#[derive(Default)]
struct ShardInner {
    live: IdMap<Weak<TaskCell>>,
    /// Tasks that are being loaded, and what wakes those who wait for it.
    loading: IdMap<Arc<Notify>>,
}

impl Cells {
    pub(super) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Shard::default()) }
    }

    fn shard(&self, id: Uuid) -> MutexGuard<'_, ShardInner> {
        lock(&self.shards[usize::from(id.as_bytes()[15]) % SHARDS].0)
    }

    pub(super) fn get(&self, id: Uuid) -> Option<Arc<TaskCell>> {
        self.shard(id).get(id)
    }

    pub(super) fn insert(&self, cell: &Arc<TaskCell>) {
        self.shard(cell.id).live.insert(cell.id, Arc::downgrade(cell));
    }

    /// Returns the live cell, or the one that `load` makes from the store.
    ///
    /// No lock is held while the store is asked. One call at a time loads a task, and the others wait for it: two cells
    /// of one task would number their records independently. When a load fails or is dropped, those who waited try it
    /// themselves.
    pub(super) async fn get_or_load<E, L>(&self, id: Uuid, load: impl FnOnce() -> L) -> Result<Option<Arc<TaskCell>>, E>
    where
        L: Future<Output = Result<Option<Arc<TaskCell>>, E>>,
    {
        let loading = loop {
            let loaded = {
                let mut shard = self.shard(id);
                if let Some(cell) = shard.get(id) {
                    return Ok(Some(cell));
                }
                match shard.loading.get(&id) {
                    // Notified even if the load ends before this is polled.
                    Some(loading) => Arc::clone(loading).notified_owned(),
                    None => {
                        shard.loading.insert(id, Arc::default());
                        break Loading { cells: self, id };
                    }
                }
            };
            loaded.await;
        };
        let cell = load().await?;
        if let Some(cell) = &cell {
            self.insert(cell);
        }
        drop(loading);
        Ok(cell)
    }

    /// Takes this cell out, unless another one of the same task has taken its place.
    pub(super) fn forget(&self, cell: &TaskCell) {
        let mut shard = self.shard(cell.id);
        if shard.live.get(&cell.id).is_some_and(|weak| std::ptr::eq(weak.as_ptr(), cell)) {
            shard.live.remove(&cell.id);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<TaskCell>> {
        self.shards
            .iter()
            .flat_map(|shard| lock(&shard.0).live.values().filter_map(Weak::upgrade).collect::<Vec<_>>())
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(&shard.0).live.len()).sum()
    }
}

impl ShardInner {
    fn get(&self, id: Uuid) -> Option<Arc<TaskCell>> {
        self.live.get(&id).and_then(Weak::upgrade)
    }
}

/// A load under way. Dropping it, at the load's end or when its caller goes away, wakes those who wait for it.
struct Loading<'a> {
    cells: &'a Cells,
    id: Uuid,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let loading = self.cells.shard(self.id).loading.remove(&self.id);
        if let Some(loading) = loading {
            loading.notify_waiters();
        }
    }
}

/// Tasks that ended lately, encoded once for all who read them. Bounded by bytes, oldest out first.
pub(super) struct Finished {
    inner: Mutex<FinishedInner>,
    most: usize,
}

#[derive(Default)]
struct FinishedInner {
    tasks: IdMap<FinishedTask>,
    order: VecDeque<(Uuid, usize)>,
    bytes: usize,
}

/// A task that ended.
#[derive(Clone)]
pub(super) struct FinishedTask {
    pub(super) agent: Arc<str>,
    pub(super) owner: Arc<str>,
    pub(super) task: Arc<Encoded<Task>>,
}

impl Finished {
    pub(super) fn new(most: usize) -> Self {
        Self { inner: Mutex::default(), most }
    }

    pub(super) fn get(&self, agent: &str, owner: &str, id: Uuid) -> Option<FinishedTask> {
        let inner = lock(&self.inner);
        inner.tasks.get(&id).filter(|task| *task.agent == *agent && *task.owner == *owner).cloned()
    }

    pub(super) fn put(&self, id: Uuid, agent: &Arc<str>, owner: &Arc<str>, task: &Arc<Encoded<Task>>) {
        // The value and its two encodings; what the allocator adds is left out.
        let size = 1024 + 4 * prost::Message::encoded_len(task.value());
        if size > self.most / 8 {
            return;
        }
        let entry = FinishedTask { agent: Arc::clone(agent), owner: Arc::clone(owner), task: Arc::clone(task) };
        let mut inner = lock(&self.inner);
        if inner.tasks.insert(id, entry).is_none() {
            inner.order.push_back((id, size));
            inner.bytes += size;
        }
        let mut dropped = Vec::new();
        while inner.bytes > self.most {
            let Some((oldest, size)) = inner.order.pop_front() else { break };
            inner.bytes -= size;
            dropped.extend(inner.tasks.remove(&oldest));
        }
        drop(inner);
    }
}
