//! The writer: one thread that writes whatever waits in one transaction, again and again.
//!
//! There is no timer. A batch is what arrived while the last commit waited for the disk, so a lone append is written
//! at once and a thousand cost little more than one. Nobody waits for a lock that is held across a write.

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

/// How often a store that failed is tried again.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Something that has records to write.
pub trait Pending: Send + Sync + 'static {
    /// Takes what is to be written, numbered and encoded; `None` if there is nothing left. Called on the writer's
    /// thread, once for each [`Writer::push`]; it must not block.
    fn take(&self) -> Option<Append>;

    /// What was taken last was not written, and nothing that follows it may be. Called on the writer's thread, before it
    /// takes anything else; it must not block.
    fn refused(&self) {}
}

/// What came of a transaction, for everything whose [`Pending::take`] was in it.
#[derive(Debug)]
pub enum Commit<P> {
    /// The transaction is durable: for each the seq of its last record, or why it alone was refused.
    Done(Vec<(Arc<P>, Result<u64, AppendError>)>),
    /// Nothing of it counts as written. Where the disk failed in the very commit, some of it may be found later: what
    /// the store then says is the truth.
    Failed(Vec<Arc<P>>, StoreError),
}

/// The handle on the writer's thread. When the last clone is gone the thread writes what is left, and ends.
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
    /// [`StoreError::Closed`] if the store has or had a writer, [`StoreError::Io`] if no thread can be made.
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

    /// Adds `item` to those that the next commit asks for what they have to write, and wakes the writer if it sleeps.
    /// Cheap, from any thread. An item pushed twice is asked twice.
    pub fn push(&self, item: Arc<P>) {
        self.enqueue(item);
        self.wake();
    }

    /// Adds an item without waking the writer. Returns whether it is the first that waits: the caller then has to see to
    /// it that [`Writer::wake`] is called.
    pub fn enqueue(&self, item: Arc<P>) -> bool {
        let mut items = lock(&self.0.dirty.items);
        items.push(item);
        items.len() == 1
    }

    /// Wakes the writer if it sleeps. A writer at work takes what was added when its commit is done.
    pub fn wake(&self) {
        self.0.store.queue().wake();
    }

    /// Adds several items and wakes the writer once.
    pub fn push_all(&self, items: impl IntoIterator<Item = Arc<P>>) {
        lock(&self.0.dirty.items).extend(items);
        self.0.store.queue().wake();
    }

    /// Writes what was pushed and stops the thread. It waits for that, so call it where blocking is allowed. Items
    /// pushed later are never asked, and the store's file is free as soon as the other handles on it are gone.
    pub fn close(&self) {
        self.0.close();
        if let Some(thread) = lock(&self.0.thread).take() {
            // A panic there has already been reported through the store's health.
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
    /// What waits for a backend that does not answer at once. Most never need it.
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
            tracing::warn!(%error, "the store could not be put in order at its end");
        }
    }

    /// Waits for a backend.
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

    /// Takes what waits. Half the cost of a commit is the same for one task as for ten, and the clients that the last commit
    /// answered are about to come back: where much less waits than was written last, whoever is ready to run goes first.
    /// That costs nothing where this thread has a core for itself, and never waits for a clock.
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
            Some((_, at)) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
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
            // Refused at once: trying each would make every caller wait for the device.
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

    /// Tells everybody that nothing of theirs was written.
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

    /// Tries a failing store again when it is time.
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
    /// If the thread dies of a panic nobody may wait for it for ever.
    fn drop(&mut self) {
        self.store.queue().close();
        if thread::panicking() {
            self.store.set_health(Health::Failing { why: StoreError::Closed });
        }
    }
}
