//! The writer: one thread that writes whatever waits in one transaction, again and again.
//!
//! There is no timer. A batch is what arrived while the last commit waited for the disk, so a lone append is written
//! at once and a thousand cost little more than one. Nobody waits for a lock that is held across a write.

use super::maintenance::Maintenance;
use super::{Append, AppendError, Done, Health, Job, Log, Store, StoreError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use std::{fmt, mem};
use tokio::sync::{mpsc, oneshot};

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
        let log = lock(&store.0.queue.log).take().ok_or(StoreError::Closed)?;
        let dirty = Arc::new(Dirty { items: Mutex::default(), closing: AtomicBool::new(false) });
        let work = Work { store: store.clone(), dirty: dirty.clone(), commits, failing: None };
        let thread = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || work.run(log))
            .map_err(|e| StoreError::Io(e.to_string().into()))?;
        store.0.queue.thread.get_or_init(|| thread.thread().clone());
        // It may have gone to sleep before anybody could wake it.
        store.0.queue.wake();
        Ok(Writer(Arc::new(Handle { dirty, store, thread: Mutex::new(Some(thread)) })))
    }

    /// Has `item` asked for what it has to write, with the next commit. Cheap, from any thread; the writer is woken
    /// only if it sleeps. An item pushed twice is asked twice.
    pub fn push(&self, item: Arc<P>) {
        lock(&self.0.dirty.items).push(item);
        self.0.store.0.queue.wake();
    }

    /// Has several items asked, with one look at whether the writer sleeps.
    pub fn push_all(&self, items: impl IntoIterator<Item = Arc<P>>) {
        lock(&self.0.dirty.items).extend(items);
        self.0.store.0.queue.wake();
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
        self.store.0.queue.wake();
    }
}

impl<P> Drop for Handle<P> {
    fn drop(&mut self) {
        self.close();
    }
}

/// A job and who waits for it.
type QueuedJob = (Job, oneshot::Sender<Result<Done, StoreError>>);

/// The store's side of the writer: its own jobs, and the way to wake the thread.
pub(super) struct Queue {
    /// Until a writer takes it.
    log: Mutex<Option<Box<dyn Log>>>,
    jobs: Mutex<Jobs>,
    idle: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Default)]
struct Jobs {
    waiting: Vec<QueuedJob>,
    closed: bool,
}

impl Queue {
    pub(super) fn new(log: Box<dyn Log>) -> Self {
        let log = Mutex::new(Some(log));
        Queue { log, jobs: Mutex::default(), idle: AtomicBool::new(false), thread: OnceLock::new() }
    }

    /// Has a job done with the next commit.
    pub(super) fn ask(&self, job: Job) -> impl Future<Output = Result<Done, StoreError>> + Send + use<> {
        let answer = self.submit(job);
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }
    }

    /// The same for a thread that may block.
    pub(super) fn ask_blocking(&self, job: Job) -> Result<Done, StoreError> {
        self.submit(job).blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    fn submit(&self, job: Job) -> oneshot::Receiver<Result<Done, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let mut jobs = lock(&self.jobs);
        // Dropping the sender says that the store is closed.
        if !jobs.closed {
            jobs.waiting.push((job, reply));
        }
        drop(jobs);
        self.wake();
        answer
    }

    fn wake(&self) {
        // Whoever turns the flag back is the one who wakes; everybody else sees a writer at work, which looks again
        // before it sleeps.
        if self.idle.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn close(&self) {
        let mut jobs = lock(&self.jobs);
        jobs.closed = true;
        jobs.waiting.clear();
    }
}

struct Work<P> {
    store: Store,
    dirty: Arc<Dirty<P>>,
    commits: mpsc::UnboundedSender<Commit<P>>,
    /// Why the last commit failed, and when to try again.
    failing: Option<(StoreError, Instant)>,
}

impl<P: Pending> Work<P> {
    fn run(mut self, mut log: Box<dyn Log>) {
        let maintenance = Maintenance::start(self.store.clone());
        let mut last = 0;
        loop {
            let items = self.gather(last);
            last = items.len();
            let jobs = mem::take(&mut lock(&self.queue().jobs).waiting);
            if items.is_empty() && jobs.is_empty() {
                if self.dirty.closing.load(Ordering::SeqCst) {
                    break;
                }
                self.sleep();
            } else {
                let bytes = self.write(&mut *log, items, jobs);
                maintenance.written(&self.store, bytes);
            }
            self.probe(&mut *log);
        }
        self.queue().close();
        maintenance.stop();
        drop(log);
        if let Err(error) = self.store.0.index.tidy() {
            tracing::warn!(%error, "the write-ahead log stays beside the store");
        }
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

    fn queue(&self) -> &Queue {
        &self.store.0.queue
    }

    fn sleep(&self) {
        let queue = self.queue();
        queue.idle.store(true, Ordering::SeqCst);
        // What came between the look and the flag woke nobody.
        let came = !lock(&self.dirty.items).is_empty()
            || !lock(&queue.jobs).waiting.is_empty()
            || self.dirty.closing.load(Ordering::SeqCst);
        if !came {
            match &self.failing {
                Some((_, at)) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
        queue.idle.store(false, Ordering::SeqCst);
    }

    /// Writes one transaction and reports it. Returns about how many bytes went to the write-ahead log.
    fn write(&mut self, log: &mut dyn Log, items: Vec<Arc<P>>, asked: Vec<QueuedJob>) -> u64 {
        let (mut taken, mut appends) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            if let Some(append) = item.take() {
                taken.push(item);
                appends.push(append);
            }
        }
        let mut asked = asked;
        if let Some((why, _)) = &self.failing {
            // Refused at once: trying each would make every caller wait for the device. Pruning is let through, as it
            // may be what frees the space.
            let (freeing, others) = asked.into_iter().partition(|(job, _)| job.frees_space());
            refuse(why, &self.commits, mem::take(&mut taken), others);
            appends.clear();
            asked = freeing;
        }
        if appends.is_empty() && asked.is_empty() {
            return 0;
        }
        let (jobs, replies): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let began = Instant::now();
        match log.commit(&appends, &jobs) {
            Ok(done) => {
                self.store.0.commits.count(appends.len(), began.elapsed());
                for (reply, done) in replies.into_iter().zip(done.jobs) {
                    // The one who asked may have gone.
                    let _ = reply.send(Ok(done));
                }
                let results = taken.into_iter().zip(done.appends).collect::<Vec<_>>();
                results.iter().filter(|(_, result)| result.is_err()).for_each(|(item, _)| item.refused());
                if !results.is_empty() {
                    let _ = self.commits.send(Commit::Done(results));
                }
                estimate(&appends, jobs.len())
            }
            Err(why) => {
                self.fail(&why);
                refuse(&why, &self.commits, taken, jobs.into_iter().zip(replies).collect());
                0
            }
        }
    }

    fn fail(&mut self, why: &StoreError) {
        if self.failing.is_none() {
            tracing::error!(error = %why, "the store takes no writes");
            self.failing = Some((why.clone(), Instant::now() + PROBE_EVERY));
            self.store.0.health.send_replace(Health::Failing { why: why.clone() });
        }
    }

    fn probe(&mut self, log: &mut dyn Log) {
        let Some((why, at)) = &mut self.failing else { return };
        if Instant::now() < *at || *why == StoreError::TakenOver {
            return;
        }
        match log.probe() {
            Ok(()) => {
                tracing::info!("the store takes writes again");
                self.failing = None;
                self.store.0.health.send_replace(Health::Ok);
            }
            Err(still) => {
                *at = Instant::now() + PROBE_EVERY;
                if still != *why {
                    *why = still.clone();
                    self.store.0.health.send_replace(Health::Failing { why: still });
                }
            }
        }
    }
}

impl<P> Drop for Work<P> {
    /// If the thread dies of a panic nobody may wait for it for ever.
    fn drop(&mut self) {
        self.store.0.queue.close();
        if thread::panicking() {
            self.store.0.health.send_replace(Health::Failing { why: StoreError::Closed });
        }
    }
}

/// Tells everybody that nothing of theirs was written.
fn refuse<P: Pending>(
    why: &StoreError,
    commits: &mpsc::UnboundedSender<Commit<P>>,
    taken: Vec<Arc<P>>,
    asked: Vec<QueuedJob>,
) {
    taken.iter().for_each(|item| item.refused());
    for (_, reply) in asked {
        let _ = reply.send(Err(why.clone()));
    }
    if !taken.is_empty() {
        let _ = commits.send(Commit::Failed(taken, why.clone()));
    }
}

/// What a transaction adds to the write-ahead log: bodies, and the pages that rows and indexes touch.
fn estimate(appends: &[Append], jobs: usize) -> u64 {
    const PAGE: u64 = 4096;
    let bodies: usize = appends.iter().map(|a| a.body.len() + a.checkpoint.as_ref().map_or(0, |c| c.1.len())).sum();
    bodies as u64 + PAGE * (8 + appends.len() as u64 / 4 + 2 * jobs as u64)
}

/// Every lock here guards plain data that no panic can leave half changed.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
