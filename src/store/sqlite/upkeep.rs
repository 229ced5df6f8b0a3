//! Upkeep: a thread that keeps the write-ahead log short and deletes what is too old, beside the writer.

use super::super::KEEP_TAIL;
use super::super::StoreError;
use super::super::backend::Batch;
use super::super::lock::lock;
use super::backend::StoreFile;
use crate::clock::now_us;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes after which the write-ahead log is emptied, beside the writer.
const WAL_STEP: u64 = 8 << 20;

/// Bytes after which the writer waits for that: a disk that is too slow for both must not fill up.
const WAL_BOUND: u64 = 64 << 20;

/// How often the thread looks for what is too old.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Upkeep {
    state: Arc<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    /// Bytes in the write-ahead log, about.
    written: AtomicU64,
    stop: AtomicBool,
}

impl Upkeep {
    pub(super) fn start(file: Arc<StoreFile>) -> Upkeep {
        let state = Arc::new(State::default());
        let thread = thread::Builder::new().name("store-upkeep".into()).spawn({
            let state = Arc::clone(&state);
            move || run(&file, &state)
        });
        if let Err(error) = &thread {
            tracing::error!(%error, "old tasks are not deleted: the thread for it could not be started");
        }
        Upkeep { state, thread: Mutex::new(thread.ok()) }
    }

    /// Takes note of what was committed.
    pub(super) fn written(&self, file: &StoreFile, batch: &Batch) {
        let bytes = estimate(batch);
        let before = self.state.written.fetch_add(bytes, Ordering::Relaxed);
        if before < WAL_STEP && before + bytes >= WAL_STEP {
            self.wake();
        }
        if before + bytes >= WAL_BOUND {
            empty_wal(file, &self.state);
        }
    }

    /// Stops the thread and waits for it.
    pub(super) fn stop(&self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }

    fn wake(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.thread().unpark();
        }
    }
}

impl Drop for Upkeep {
    /// The thread holds the file, and whoever opens it next must find it free.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns about how many bytes a batch adds to the write-ahead log: bodies, and the pages that rows and indexes touch.
fn estimate(batch: &Batch) -> u64 {
    const PAGE: u64 = 4096;
    let (appends, jobs) = (batch.appends.len() as u64, batch.jobs.len() as u64);
    let bodies: usize =
        batch.appends.iter().map(|a| a.body.len() + a.checkpoint.as_ref().map_or(0, |c| c.1.len())).sum();
    bodies as u64 + PAGE * (8 + appends / 4 + 2 * jobs)
}

fn run(file: &StoreFile, state: &State) {
    let mut next_prune = Instant::now() + PRUNE_EVERY;
    while !state.stop.load(Ordering::SeqCst) {
        if state.written.load(Ordering::Relaxed) >= WAL_STEP {
            empty_wal(file, state);
        }
        if Instant::now() >= next_prune {
            delete_old(file, state);
            next_prune = Instant::now() + PRUNE_EVERY;
        }
        thread::park_timeout(next_prune.saturating_duration_since(Instant::now()));
    }
}

fn empty_wal(file: &StoreFile, state: &State) {
    state.written.store(0, Ordering::Relaxed);
    if let Err(error) = file.empty_wal() {
        tracing::warn!(%error, "the write-ahead log could not be emptied");
    }
}

fn delete_old(file: &StoreFile, state: &State) {
    if let Err(error) = prune(file, now_us(), || state.stop.load(Ordering::SeqCst)) {
        tracing::warn!(%error, "what is too old could not be deleted");
    }
}

/// Deletes what is too old, in steps that other commits do not notice, until `stop` says so.
pub(super) fn prune(file: &StoreFile, now_us: i64, stop: impl Fn() -> bool) -> Result<(), StoreError> {
    while !stop() && rested(|| file.write(|writes| writes.prune(now_us)))? {}
    let Some(keep) = file.keep_finished() else { return Ok(()) };
    // A stream may resume for as long as its tail is kept, however short tasks are to be kept.
    let before_us = now_us.saturating_sub(keep.max(KEEP_TAIL).as_micros() as i64);
    let mut after = 0;
    while !stop() {
        let tasks = file.reads().ended(after, before_us)?;
        let Some(last) = tasks.last() else { break };
        after = *last;
        rested(|| file.write(|writes| writes.delete(&tasks, before_us)))?;
    }
    Ok(())
}

/// Takes a step, and then rests as long as that took: the writer waits for the same connection, and goes first meanwhile.
fn rested<T>(step: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let began = Instant::now();
    let result = step();
    thread::park_timeout(began.elapsed());
    result
}
