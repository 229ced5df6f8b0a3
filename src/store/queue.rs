//! The queue of jobs that wait for the writer, and the way to wake its thread.

use super::StoreError;
use super::job::{Job, QueuedJob, Ticket};
use super::lock::lock;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;

/// What a store and its writer share.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<Jobs>,
    idle: AtomicBool,
    has_writer: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Default)]
struct Jobs {
    waiting: Vec<QueuedJob>,
    closed: bool,
}

impl Queue {
    /// Runs a job with the next commit, and waits for its answer.
    pub(super) async fn run<J: Job>(&self, job: J) -> Result<J::Answer, StoreError>
    where
        QueuedJob: From<Ticket<J>>,
    {
        let (ticket, answer) = Ticket::new(job);
        {
            let mut jobs = lock(&self.jobs);
            if jobs.closed {
                return Err(StoreError::Closed);
            }
            jobs.waiting.push(ticket.into());
        }
        self.wake();
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Takes the jobs that wait.
    pub(super) fn take(&self) -> Vec<QueuedJob> {
        mem::take(&mut lock(&self.jobs).waiting)
    }

    /// Says that there is a writer. Returns `false` if there was one already.
    pub(super) fn claim_writer(&self) -> bool {
        !self.has_writer.swap(true, Ordering::SeqCst)
    }

    /// Leaves the thread to wake.
    pub(super) fn set_thread(&self, thread: Thread) {
        self.thread.get_or_init(|| thread);
        // Whoever called `wake` before found no thread to wake, and has cleared the flag.
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Wakes the writer if it sleeps. The one who turns the flag back does it; everybody else sees a writer at work, which
    /// looks again before it sleeps.
    pub(super) fn wake(&self) {
        if self.idle.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Sleeps until somebody wakes the writer, unless there is something to do. Called on the writer's thread.
    pub(super) fn sleep(&self, is_due: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.idle.store(true, Ordering::SeqCst);
        // What came between the last look and the flag woke nobody.
        if lock(&self.jobs).waiting.is_empty() && !is_due() {
            sleep();
        }
        self.idle.store(false, Ordering::SeqCst);
    }

    /// Refuses all jobs from now on. Those that wait are answered with [`StoreError::Closed`].
    pub(super) fn close(&self) {
        let mut jobs = lock(&self.jobs);
        jobs.closed = true;
        jobs.waiting.clear();
    }
}
