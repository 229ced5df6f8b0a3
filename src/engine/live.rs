//! The map of live tasks, sharded by id, and the loads that are under way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;
use uuid::Uuid;

use super::error::EngineError;

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
    /// Tasks that are being loaded. Each load closes its channel when it ends; if it failed, after it sent the error.
    loading: IdMap<watch::Receiver<Option<EngineError>>>,
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

    /// Removes the entries of those that are gone, where nothing calls [`Self::forget`].
    pub(super) fn purge(&self) {
        self.shards.iter().for_each(|shard| lock(shard).live.retain(|_, weak| weak.strong_count() > 0));
    }

    /// Returns the live cell, or the one that `load` makes from the store.
    ///
    /// No lock is held while the store is asked. One call at a time loads a task, and the others wait for it: two cells
    /// of one task would number their records independently. When a load fails, those who waited get its error: a store
    /// that fails slowly is not asked by one after the other. When a load finds nothing or is dropped, they try it
    /// themselves.
    ///
    /// # Errors
    /// The error of the load.
    pub(super) async fn get_or_load<L>(&self, id: Uuid, load: impl FnOnce() -> L) -> Result<Option<Arc<C>>, EngineError>
    where
        L: Future<Output = Result<Option<Arc<C>>, EngineError>>,
    {
        let mut loading = loop {
            let mut other = {
                let mut shard = self.shard(id);
                if let Some(cell) = shard.get(id) {
                    return Ok(Some(cell));
                }
                match shard.loading.get(&id) {
                    Some(other) => other.clone(),
                    None => {
                        let (ended, other) = watch::channel(None);
                        shard.loading.insert(id, other);
                        break Loading { live: self, id, error: None, ended };
                    }
                }
            };
            if let Ok(error) = other.wait_for(Option::is_some).await {
                return error.clone().map_or(Ok(None), Err);
            }
        };
        let loaded = load().await;
        match &loaded {
            Ok(Some(cell)) => self.insert(id, cell),
            Ok(None) => {}
            Err(error) => loading.error = Some(error.clone()),
        }
        loaded
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
    /// Why the load failed.
    error: Option<EngineError>,
    ended: watch::Sender<Option<EngineError>>,
}

impl<C> Drop for Loading<'_, C> {
    fn drop(&mut self) {
        // First: those who wait may try again as soon as the channel is closed, after this.
        self.live.shard(self.id).loading.remove(&self.id);
        if let Some(error) = self.error.take() {
            self.ended.send_replace(Some(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::{pending, ready};

    use futures::FutureExt as _;
    use futures::future::{BoxFuture, LocalBoxFuture, join_all};
    use tokio::sync::oneshot;

    type Loaded = Result<Option<Arc<u32>>, EngineError>;

    const ID: Uuid = Uuid::nil();

    /// Starts calls that wait for the load that is under way.
    fn waiting<'a>(live: &'a LiveTasks<u32>, loads: &'a Cell<u32>, result: Loaded) -> Vec<LocalBoxFuture<'a, Loaded>> {
        let call = || {
            let result = result.clone();
            let load = move || {
                loads.set(loads.get() + 1);
                ready(result)
            };
            let mut call = live.get_or_load(ID, load).boxed_local();
            assert!((&mut call).now_or_never().is_none(), "it must wait for the load under way");
            call
        };
        (0..50).map(|_| call()).collect()
    }

    /// Starts a load that ends when something is sent.
    fn load(live: &LiveTasks<u32>) -> (oneshot::Sender<Loaded>, BoxFuture<'_, Loaded>) {
        let (end, ended) = oneshot::channel::<Loaded>();
        let mut call = live.get_or_load(ID, || ended.map(|loaded| loaded.expect("a result"))).boxed();
        assert!((&mut call).now_or_never().is_none());
        (end, call)
    }

    #[tokio::test]
    async fn calls_that_come_during_a_load_get_what_it_loaded() {
        let (live, loads) = (LiveTasks::new(), Cell::new(0));
        let (end, first) = load(&live);
        let others = waiting(&live, &loads, Ok(Some(Arc::new(2))));
        let cell = Arc::new(1);
        end.send(Ok(Some(Arc::clone(&cell)))).expect("a load waits");
        assert!(first.await.is_ok());
        for got in join_all(others).await {
            assert!(Arc::ptr_eq(&got.expect("a load").expect("a cell"), &cell));
        }
        assert_eq!(loads.get(), 0);
    }

    #[tokio::test]
    async fn a_failed_load_fails_for_all_who_wait_and_the_next_call_loads_again() {
        let (live, loads) = (LiveTasks::new(), Cell::new(0));
        let (end, first) = load(&live);
        let others = waiting(&live, &loads, Ok(Some(Arc::new(2))));
        end.send(Err(EngineError::StoreUnavailable)).expect("a load waits");
        assert!(matches!(first.await, Err(EngineError::StoreUnavailable)));
        for got in join_all(others).await {
            assert!(matches!(got, Err(EngineError::StoreUnavailable)));
        }
        assert_eq!(loads.get(), 0);
        let cell = Arc::new(3);
        let again = live.get_or_load(ID, || ready(Ok(Some(Arc::clone(&cell))))).await;
        assert!(Arc::ptr_eq(&again.expect("a load").expect("a cell"), &cell));
    }

    #[tokio::test]
    async fn when_a_load_is_dropped_one_of_those_who_wait_takes_it_over() {
        let (live, loads) = (LiveTasks::new(), Cell::new(0));
        let mut first = live.get_or_load(ID, pending::<Loaded>).boxed();
        assert!((&mut first).now_or_never().is_none());
        let cell = Arc::new(2);
        let others = waiting(&live, &loads, Ok(Some(Arc::clone(&cell))));
        drop(first);
        for got in join_all(others).await {
            assert!(Arc::ptr_eq(&got.expect("a load").expect("a cell"), &cell));
        }
        assert_eq!(loads.get(), 1);
    }

    #[tokio::test]
    async fn when_a_load_finds_nothing_those_who_wait_look_themselves() {
        let (live, loads) = (LiveTasks::new(), Cell::new(0));
        let (end, first) = load(&live);
        let others = waiting(&live, &loads, Ok(None));
        end.send(Ok(None)).expect("a load waits");
        assert!(matches!(first.await, Ok(None)));
        assert!(join_all(others).await.iter().all(|got| matches!(got, Ok(None))));
        assert_eq!(loads.get(), 50);
        assert!(live.shard(ID).loading.is_empty());
    }
}
