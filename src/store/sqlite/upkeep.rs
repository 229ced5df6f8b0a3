//! Upkeep: a thread that keeps the write-ahead log short and deletes what is too old, beside the writer.

use super::super::KEEP_TAIL;
use super::super::StoreError;
use super::super::backend::Batch;
use super::super::lock::lock;
use super::super::report::CheckReport;
use super::backend::StoreFile;
use super::check::check_connection;
use crate::clock::now_us;
use rusqlite::InterruptHandle;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes after which the write-ahead log is emptied, beside the writer.
const WAL_STEP: u64 = 8 << 20;

/// Bytes after which the writer waits for that: a disk that is too slow for both must not fill up.
const WAL_BOUND: u64 = 64 << 20;

/// The largest store that is checked at the start: it takes about a second.
const CHECK_BYTES: u64 = 256 << 20;

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
    /// What the check at the start found.
    problems: AtomicU64,
    /// Interrupts that check.
    checking: Mutex<Option<InterruptHandle>>,
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
        if let Some(checking) = &*lock(&self.state.checking) {
            checking.interrupt();
        }
        self.wake();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }

    /// Returns how many problems the check at the start found.
    pub(super) fn problems(&self) -> u64 {
        self.state.problems.load(Ordering::Relaxed)
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
    check(file, state);
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

/// Checks the whole store once, beside the server, so that damage which no read can notice is found: to an index, or to a
/// page that nobody reads.
fn check(file: &StoreFile, state: &State) {
    let Some(size) = file.checked_at_start() else { return };
    if size > CHECK_BYTES {
        return tracing::info!(bytes = size, "the store is not checked at the start: `tricord store check` does it");
    }
    let checked = file.reads().apart(|conn| {
        *lock(&state.checking) = Some(conn.get_interrupt_handle());
        let mut report = CheckReport::default();
        let result = match state.stop.load(Ordering::SeqCst) {
            true => Ok(()),
            false => check_connection(conn, &mut report).and_then(|()| conn.execute_batch("COMMIT")),
        };
        *lock(&state.checking) = None;
        result.map(|()| report)
    });
    match checked {
        Ok(report) => {
            for problem in &report.problems {
                tracing::error!(problem, "the store is damaged; `tricord store repair` copies what is whole");
            }
            state.problems.store(report.problem_count, Ordering::Relaxed);
        }
        Err(_) if state.stop.load(Ordering::SeqCst) => {}
        Err(error) => {
            tracing::error!(%error, "the store could not be checked");
            state.problems.fetch_add(1, Ordering::Relaxed);
        }
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
