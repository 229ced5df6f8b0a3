//! Work on large messages, kept from holding up everything else.

use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// From this size on, in bytes, a message is decoded, folded and encoded here. Less takes less than a millisecond.
pub const LARGE: usize = 64 << 10;

/// Runs work on large messages away from the runtime's workers, a few at a time and in the order in which it came.
/// Clones share their places.
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
    pub fn run<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> impl Future<Output = T> {
        async move {
            if bytes < LARGE {
                return work();
            }
            // The semaphore is never closed.
            let _place = self.0.acquire().await;
            run_now(bytes, work)
        }
    }
}

/// Runs work on a message of about this many bytes at once. The runtime's other tasks go on elsewhere if it is large.
///
/// For work that must not wait for that of others, of which there is never more than one at a time.
pub fn run_now<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes >= LARGE && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
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
        let seen = offload.run(LARGE, || receiver.recv_timeout(Duration::from_secs(20))).await;
        assert_eq!(seen, Ok(()));
        other.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_the_work_itself() {
        assert_eq!(Offload::new(0).run(LARGE, || 7).await, 7);
    }
}
