//! The maintenance: a thread that keeps the write-ahead log short and deletes what is too old, away from the writer.

use super::{Done, Job, KEEP_TAIL, Store, StoreError};
use crate::clock::now_us;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So much written, and the write-ahead log is emptied, beside the writer.
const WAL_STEP: u64 = 8 << 20;

/// So much written, and the writer waits for it: a disk that is too slow for both must not fill up.
const WAL_BOUND: u64 = 64 << 20;

/// How often it looks for what is too old.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Maintenance {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
pub(super) struct Shared {
    written: AtomicU64,
    stop: AtomicBool,
}

impl Maintenance {
    pub(super) fn start(store: Store) -> Maintenance {
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("store-maintenance".into()).spawn({
            let shared = shared.clone();
            move || run(&store, &shared)
        });
        if let Err(error) = &thread {
            tracing::error!(%error, "nothing old is deleted: no thread for it");
        }
        Maintenance { shared, thread: thread.ok() }
    }

    /// Tells it what the writer wrote.
    pub(super) fn written(&self, store: &Store, bytes: u64) {
        let before = self.shared.written.fetch_add(bytes, Ordering::Relaxed);
        if before < WAL_STEP && before + bytes >= WAL_STEP {
            self.wake();
        }
        if before + bytes >= WAL_BOUND {
            empty_wal(store, &self.shared);
        }
    }

    /// Stops it. Its jobs must not wait for the caller then.
    pub(super) fn stop(mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Maintenance {
    /// Reached with the thread still there only when the writer panicked.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
    }
}

fn run(store: &Store, shared: &Shared) {
    let mut next_prune = Instant::now() + PRUNE_EVERY;
    while !shared.stop.load(Ordering::SeqCst) {
        if shared.written.load(Ordering::Relaxed) >= WAL_STEP {
            empty_wal(store, shared);
        }
        if Instant::now() >= next_prune {
            prune(store, shared);
            next_prune = Instant::now() + PRUNE_EVERY;
        }
        thread::park_timeout(next_prune.saturating_duration_since(Instant::now()));
    }
}

fn empty_wal(store: &Store, shared: &Shared) {
    shared.written.store(0, Ordering::Relaxed);
    if let Err(error) = store.0.index.checkpoint_wal() {
        tracing::warn!(%error, "the write-ahead log could not be emptied");
    }
}

/// Deletes what is too old, in steps that other commits do not notice.
pub(super) fn prune(store: &Store, shared: &Shared) {
    let now_us = now_us();
    let mut done = prune_records(store, shared, now_us);
    if let Some(keep) = store.0.keep_finished {
        // A stream may come back for as long, however little is to be kept.
        let before_us = now_us.saturating_sub(keep.max(KEEP_TAIL).as_micros() as i64);
        done = done.and_then(|()| prune_tasks(store, shared, before_us));
    }
    if let Err(error) = done {
        tracing::warn!(%error, "what is too old could not be deleted");
    }
}

fn prune_records(store: &Store, shared: &Shared, now_us: i64) -> Result<(), StoreError> {
    while !shared.stop.load(Ordering::SeqCst) {
        match store.0.queue.ask_blocking(Job::Prune { now_us })? {
            Done::Pruned { more: true } => {}
            _ => break,
        }
    }
    Ok(())
}

fn prune_tasks(store: &Store, shared: &Shared, before_us: i64) -> Result<(), StoreError> {
    let mut after = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        let tasks = store.0.index.finished(after, before_us)?;
        let Some(last) = tasks.last() else { break };
        after = *last;
        store.0.queue.ask_blocking(Job::Delete { tasks, before_us })?;
    }
    Ok(())
}
