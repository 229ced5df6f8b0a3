//! The map of live tasks, sharded by id, and the loads that are under way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use uuid::Uuid;

const SHARDS: usize = 64;

/// Hashes an id by mixing its two halves: ids are made by the server, and half of each is random.
#[derive(Default)]
pub(super) struct IdHasher(u64);

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

/// A map by id.
pub(super) type IdMap<V> = HashMap<Uuid, V, BuildHasherDefault<IdHasher>>;

/// Locks a mutex that guards data no panic can leave half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The live tasks, by id. A task is live as long as a run, a sender, a reader or the writer holds it; the map does not.
pub(super) struct LiveTasks<C> {
    shards: [Mutex<Shard<C>>; SHARDS],
}

struct Shard<C> {
    live: IdMap<Weak<C>>,
    /// Tasks that are being loaded, and what wakes those who wait for it.
    loading: IdMap<Arc<Notify>>,
}

impl<C> Default for Shard<C> {
    fn default() -> Self {
        Self { live: IdMap::default(), loading: IdMap::default() }
    }
}

impl<C> LiveTasks<C> {
    pub(super) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn shard(&self, id: Uuid) -> MutexGuard<'_, Shard<C>> {
        lock(&self.shards[usize::from(id.as_bytes()[15]) % SHARDS])
    }

    pub(super) fn get(&self, id: Uuid) -> Option<Arc<C>> {
        self.shard(id).get(id)
    }

    pub(super) fn insert(&self, id: Uuid, cell: &Arc<C>) {
        self.shard(id).live.insert(id, Arc::downgrade(cell));
    }

    /// Returns the live cell, or the one that `load` makes from the store.
    ///
    /// No lock is held while the store is asked. One call at a time loads a task, and the others wait for it: two cells
    /// of one task would number their records independently. When a load fails or is dropped, those who waited try it
    /// themselves.
    pub(super) async fn get_or_load<E, L>(&self, id: Uuid, load: impl FnOnce() -> L) -> Result<Option<Arc<C>>, E>
    where
        L: Future<Output = Result<Option<Arc<C>>, E>>,
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
                        break Loading { live: self, id };
                    }
                }
            };
            loaded.await;
        };
        let cell = load().await?;
        if let Some(cell) = &cell {
            self.insert(id, cell);
        }
        drop(loading);
        Ok(cell)
    }

    /// Removes this cell, unless another one of the same task has replaced it.
    pub(super) fn forget(&self, id: Uuid, cell: &C) {
        let mut shard = self.shard(id);
        if shard.live.get(&id).is_some_and(|weak| std::ptr::eq(weak.as_ptr(), cell)) {
            shard.live.remove(&id);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<C>> {
        self.shards
            .iter()
            .flat_map(|shard| lock(shard).live.values().filter_map(Weak::upgrade).collect::<Vec<_>>())
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).live.len()).sum()
    }
}

impl<C> Shard<C> {
    fn get(&self, id: Uuid) -> Option<Arc<C>> {
        self.live.get(&id).and_then(Weak::upgrade)
    }
}

/// A load under way. Dropping it, at the load's end or when its caller goes away, wakes those who wait for it.
struct Loading<'a, C> {
    live: &'a LiveTasks<C>,
    id: Uuid,
}

impl<C> Drop for Loading<'_, C> {
    fn drop(&mut self) {
        let loading = self.live.shard(self.id).loading.remove(&self.id);
        if let Some(loading) = loading {
            loading.notify_waiters();
        }
    }
}
