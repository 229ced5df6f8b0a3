//! The writer: one thread that writes everything that waits in one transaction, and repeats.
//!
//! There is no timer. A batch is what arrived while the last commit waited for the disk, so a single append is
//! written at once, and a thousand cost little more. No lock is held during a write.

use super::backend::{Answer, Batch};
use super::job::QueuedJob;
use super::lock::lock;
use super::{Append, AppendError, Health, Store, StoreError};
use futures::future::Either;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, mem};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// The time between attempts to write to a store that failed.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A source of records to write.
pub trait Pending: Send + Sync + 'static {
    /// Takes the records to write, numbered and encoded, or returns `None` if there are none. Called on the writer's
    /// thread, once for each [`Writer::push`]. Must not block.
    fn take(&self) -> Option<Append>;

    /// Reports that the records taken last were not written, and that no later ones may be. Called on the writer's
    /// thread before it takes anything else. Must not block.
    fn refused(&self) {}
}

/// The result of a transaction, for every source of its records.
#[derive(Debug)]
pub enum Commit<P> {
    /// The transaction is durable. Each source has the seq of its last record, or the error for its own append.
    Done(Vec<(Arc<P>, Result<u64, AppendError>)>),
    /// Nothing of the transaction counts as written. If the disk failed during the commit, the store may later contain
    /// it after all, and then the store is right.
    Failed(Vec<Arc<P>>, StoreError),
}

/// A handle on the writer's thread. When the last clone is dropped, the thread writes what is left and ends.
pub struct Writer<P>(Arc<Handle<P>>);

impl<P> Clone for Writer<P> {
    fn clone(&self) -> Self {
        Writer(self.0.clone())
    }
}

impl<P> fmt::Debug for Writer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("store", &self.0.store).finish_non_exhaustive()
    }
}

struct Handle<P> {
    dirty: Arc<Dirty<P>>,
    store: Store,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Dirty<P> {
    items: Mutex<Vec<Arc<P>>>,
    closing: AtomicBool,
}

impl<P: Pending> Writer<P> {
    /// Starts the writer of a store. Each commit is reported to `commits`, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Closed`] if the store has or had a writer, [`StoreError::Io`] if no thread can be started.
    pub fn start(store: Store, commits: mpsc::UnboundedSender<Commit<P>>) -> Result<Writer<P>, StoreError> {
        if !store.queue().claim_writer() {
            return Err(StoreError::Closed);
        }
        let dirty = Arc::new(Dirty { items: Mutex::default(), closing: AtomicBool::new(false) });
        let work = Work { store: store.clone(), dirty: dirty.clone(), commits, failing: None, runtime: None };
        let thread = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || work.run())
            .map_err(|e| StoreError::Io(e.to_string().into()))?;
        store.queue().set_thread(thread.thread().clone());
        Ok(Writer(Arc::new(Handle { dirty, store, thread: Mutex::new(Some(thread)) })))
    }

    /// Queues `item` for the next commit, and wakes the writer if it sleeps. Cheap, and callable from any thread. For
    /// an item that is pushed twice, [`Pending::take`] is called twice.
    pub fn push(&self, item: Arc<P>) {
        self.enqueue(item);
        self.wake();
    }

    /// Queues an item without waking the writer. Returns whether it is the first in the queue: then the caller has to
    /// make sure that [`Writer::wake`] is called.
    pub fn enqueue(&self, item: Arc<P>) -> bool {
        let mut items = lock(&self.0.dirty.items);
        items.push(item);
        items.len() == 1
    }

    /// Wakes the writer if it sleeps. Otherwise it takes the queued items after its current commit.
    pub fn wake(&self) {
        self.0.store.queue().wake();
    }

    /// Queues several items and wakes the writer once.
    pub fn push_all(&self, items: impl IntoIterator<Item = Arc<P>>) {
        lock(&self.0.dirty.items).extend(items);
        self.0.store.queue().wake();
    }

    /// Writes what was pushed, stops the thread and blocks until it has ended. Items pushed later are never written.
    /// The store's file is free once the other handles on it are dropped.
    pub fn close(&self) {
        self.0.close();
        if let Some(thread) = lock(&self.0.thread).take() {
            // The store's health has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl<P> Handle<P> {
    fn close(&self) {
        self.dirty.closing.store(true, Ordering::SeqCst);
        self.store.queue().wake();
    }
}

impl<P> Drop for Handle<P> {
    fn drop(&mut self) {
        self.close();
    }
}

struct Work<P> {
    store: Store,
    dirty: Arc<Dirty<P>>,
    commits: mpsc::UnboundedSender<Commit<P>>,
    /// Why the last commit failed, and when to try again.
    failing: Option<(StoreError, Instant)>,
    /// Runs a backend that does not answer at once. Created on first use, because most backends do not need it.
    runtime: Option<Runtime>,
}

impl<P: Pending> Work<P> {
    fn run(mut self) {
        let mut last = 0;
        loop {
            let items = self.gather(last);
            last = items.len();
            let jobs = self.store.queue().take();
            if items.is_empty() && jobs.is_empty() {
                if self.dirty.closing.load(Ordering::SeqCst) {
                    break;
                }
                self.sleep();
            } else {
                self.write(items, jobs);
            }
            self.probe();
        }
        self.store.queue().close();
        let store = self.store.clone();
        if let Err(error) = self.wait(store.backend().close()) {
            tracing::warn!(%error, "the store could not be closed cleanly");
        }
    }

    /// Waits for the answer of a backend.
    fn wait<T>(&mut self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        let answer = match answer {
            Either::Left(ready) => return ready.into_inner(),
            Either::Right(answer) => answer,
        };
        if self.runtime.is_none() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            self.runtime = Some(runtime.map_err(|e| StoreError::Io(e.to_string().into()))?);
        }
        self.runtime.as_ref().map_or(Err(StoreError::Closed), |runtime| runtime.block_on(answer))
    }

    /// Takes the queued items.
    ///
    /// Half the cost of a commit is the same for one task as for ten, and the clients that the last commit answered are
    /// about to send more. So if the queue is much shorter than the last batch, this thread yields to them first. That
    /// costs nothing if the thread has a core for itself, and involves no timer.
    fn gather(&self, last: usize) -> Vec<Arc<P>> {
        let mut items = mem::take(&mut *lock(&self.dirty.items));
        for _ in 0..2 {
            if items.is_empty() || items.len() * 2 > last {
                break;
            }
            thread::yield_now();
            items.append(&mut lock(&self.dirty.items));
        }
        items
    }

    fn sleep(&self) {
        let is_due = || !lock(&self.dirty.items).is_empty() || self.dirty.closing.load(Ordering::SeqCst);
        self.store.queue().sleep(is_due, || match &self.failing {
            // Another process has the store for good, so there is nothing to try again.
            Some((StoreError::TakenOver, _)) | None => thread::park(),
            Some((_, at)) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
        });
    }

    /// Writes one transaction and reports it.
    fn write(&mut self, items: Vec<Arc<P>>, jobs: Vec<QueuedJob>) {
        let (mut taken, mut appends) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            if let Some(append) = item.take() {
                taken.push(item);
                appends.push(append);
            }
        }
        if let Some((why, _)) = &self.failing {
            // Fails at once: an attempt for each would make every caller wait for the device.
            return self.refuse(&why.clone(), taken, jobs);
        }
        if appends.is_empty() && jobs.is_empty() {
            return;
        }
        let mut batch = Batch { appends, jobs };
        let began = Instant::now();
        let store = self.store.clone();
        match self.wait(store.backend().commit(&mut batch)) {
            Ok(committed) => {
                store.commits().count(batch.appends.len(), began.elapsed());
                batch.jobs.into_iter().for_each(|job| job.finish(Ok(())));
                let results = taken.into_iter().zip(committed).collect::<Vec<_>>();
                results.iter().filter(|(_, result)| result.is_err()).for_each(|(item, _)| item.refused());
                if !results.is_empty() {
                    let _ = self.commits.send(Commit::Done(results));
                }
            }
            Err(why) => {
                self.fail(&why);
                self.refuse(&why, taken, batch.jobs);
            }
        }
    }

    /// Reports to all sources and jobs that nothing was written.
    fn refuse(&self, why: &StoreError, taken: Vec<Arc<P>>, jobs: Vec<QueuedJob>) {
        taken.iter().for_each(|item| item.refused());
        jobs.into_iter().for_each(|job| job.finish(Err(why)));
        if !taken.is_empty() {
            let _ = self.commits.send(Commit::Failed(taken, why.clone()));
        }
    }

    fn fail(&mut self, why: &StoreError) {
        if self.failing.is_none() {
            tracing::error!(error = %why, "the store takes no writes");
            self.failing = Some((why.clone(), Instant::now() + PROBE_EVERY));
            self.store.set_health(Health::Failing { why: why.clone() });
        }
    }

    /// Tries a failing store again once the next attempt is due.
    fn probe(&mut self) {
        let Some((why, at)) = self.failing.clone() else { return };
        if Instant::now() < at || why == StoreError::TakenOver {
            return;
        }
        let store = self.store.clone();
        self.failing = match self.wait(store.backend().probe()) {
            Ok(()) => {
                tracing::info!("the store takes writes again");
                store.set_health(Health::Ok);
                None
            }
            Err(still) => {
                if still != why {
                    store.set_health(Health::Failing { why: still.clone() });
                }
                Some((still, Instant::now() + PROBE_EVERY))
            }
        };
    }
}

impl<P> Drop for Work<P> {
    /// Ensures that nothing waits for ever for a thread that panicked.
    fn drop(&mut self) {
        self.store.queue().close();
        if thread::panicking() {
            self.store.set_health(Health::Failing { why: StoreError::Closed });
        }
    }
}
