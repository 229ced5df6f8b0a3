//! Work on large messages, kept from holding up everything else.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tracing::Span;

/// From this size on, in bytes, a message is decoded, folded and encoded here. Less takes less than a millisecond.
pub const LARGE: usize = 64 << 10;

/// How much lower than that of other threads the priority of a thread with large work is, as a nice value. Where the
/// processors are busy such a thread gets about a third of the time of another, and gives way to one that wakes up: small
/// calls do not wait for the end of its time slice.
const NICE: i32 = 5;

/// Runs work on large messages in threads of its own, a few at a time and in the order in which it came. Clones share
/// their places.
#[derive(Debug, Clone)]
pub struct Offload(Arc<Semaphore>);

impl Default for Offload {
    /// One place for every two processors, and at least one.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self::new(processors / 2)
    }
}

impl Offload {
    /// Makes one with this many places, at least one.
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places.max(1))))
    }

    /// Runs work on a message of about this many bytes: at once if it is small, else in turn, while the runtime's other
    /// tasks go on elsewhere. On a runtime of one thread it runs in turn there.
    #[expect(clippy::manual_async_fn, reason = "an async fn would keep the work, and what it owns, twice")]
    pub fn run<T: Send>(&self, bytes: usize, work: impl FnOnce() -> T + Send) -> impl Future<Output = T> {
        async move {
            if bytes < LARGE {
                return work();
            }
            // The semaphore is never closed.
            let _place = self.0.acquire().await;
            if !has_workers() {
                return work();
            }
            tokio::task::block_in_place(|| in_background(work))
        }
    }
}

/// Runs work in a thread of low priority and waits for it. The priority of a thread cannot be raised again, so the thread
/// ends with the work.
///
/// # Panics
/// If the work does.
fn in_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let (runtime, span) = (Handle::current(), Span::current());
    let mut work = Some(work);
    let done = std::thread::scope(|scope| {
        let run = || {
            let (_runtime, _span) = (runtime.enter(), span.enter());
            // Without it the work is done all the same.
            let _ = rustix::process::nice(NICE);
            work.take().map(|work| work())
        };
        let thread = std::thread::Builder::new().name("large-message".to_owned()).spawn_scoped(scope, run).ok()?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    match (done, work) {
        (Some(done), _) => done,
        // No thread could be started.
        (None, Some(work)) => work(),
        (None, None) => unreachable!("a thread that has ended has done its work"),
    }
}

/// Returns whether the runtime has several threads.
fn has_workers() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Runs work on a message of about this many bytes at once. The runtime's other tasks go on elsewhere if it is large.
///
/// For work that must not wait for that of others, of which there is never more than one at a time.
pub fn run_now<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes >= LARGE && has_workers() {
        return tokio::task::block_in_place(work);
    }
    work()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_work_leaves_the_workers_to_others() {
        let offload = Offload::new(1);
        let (sender, receiver) = mpsc::channel();
        let other = tokio::spawn(async move { sender.send(()) });
        // With one worker, the other task runs only if this work gives the worker away.
        let seen = offload.run(LARGE, move || receiver.recv_timeout(Duration::from_secs(20))).await;
        assert_eq!(seen, Ok(()));
        other.await.unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_is_that_of_the_caller() {
        let work = async { Offload::new(1).run(LARGE, || panic!("as it should")).await };
        let panic = tokio::spawn(work).await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"as it should"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_work_has_a_low_priority_and_can_spawn_tasks() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let (during, task) = Offload::new(1).run(LARGE, || (priority(), tokio::spawn(async { 7 }))).await;
        assert_eq!((during, priority(), task.await.unwrap()), ((before + NICE).min(19), before, 7));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_the_work_itself() {
        assert_eq!(Offload::new(0).run(LARGE, || 7).await, 7);
    }
}
