//! Jobs: the store's own writes, which ride in the commits of the tasks. Each has its own type of answer.

use super::{Claim, ClaimEnd, ClaimKey, Claimed, StoreError};
use tokio::sync::oneshot;

/// A write that is answered when it is durable.
pub(crate) trait Job: Send + 'static {
    /// What the one who asked for it learns.
    type Answer: Send + 'static;
}

/// Claims an idempotency key, or finds who has it.
impl Job for Claim {
    type Answer = Claimed;
}

/// Ends the claim of an idempotency key.
#[derive(Debug)]
pub(crate) struct EndClaim {
    pub(crate) key: ClaimKey,
    pub(crate) end: ClaimEnd,
}

impl Job for EndClaim {
    type Answer = ();
}

/// A job on its way to a commit, and who waits for its answer.
#[derive(Debug)]
pub(crate) struct Ticket<J: Job> {
    /// The job.
    pub(crate) job: J,
    /// Set by the backend when the job is done. Whoever waits gets it only once the commit is durable.
    pub(crate) answer: Option<J::Answer>,
    waiter: oneshot::Sender<Result<J::Answer, StoreError>>,
}

impl<J: Job> Ticket<J> {
    /// Returns the ticket of a job, and where its answer comes out.
    pub(super) fn new(job: J) -> (Self, oneshot::Receiver<Result<J::Answer, StoreError>>) {
        let (waiter, answer) = oneshot::channel();
        (Ticket { job, answer: None, waiter }, answer)
    }

    fn finish(self, result: Result<(), &StoreError>) {
        debug_assert!(result.is_err() || self.answer.is_some(), "the backend passed over a job");
        // Without an answer the sender is dropped, which reads as a closed store. The one who waited may have gone.
        let result = result.map_err(StoreError::clone).map(|()| self.answer).transpose();
        if let Some(result) = result {
            let _ = self.waiter.send(result);
        }
    }
}

/// Every kind of job. A backend matches on it, so that a new kind does not compile before each backend does it.
#[derive(Debug)]
pub(crate) enum QueuedJob {
    Claim(Ticket<Claim>),
    EndClaim(Ticket<EndClaim>),
}

impl QueuedJob {
    /// Answers the one who waits, once the commit has succeeded or failed.
    pub(super) fn finish(self, result: Result<(), &StoreError>) {
        match self {
            QueuedJob::Claim(ticket) => ticket.finish(result),
            QueuedJob::EndClaim(ticket) => ticket.finish(result),
        }
    }
}

impl From<Ticket<Claim>> for QueuedJob {
    fn from(ticket: Ticket<Claim>) -> Self {
        QueuedJob::Claim(ticket)
    }
}

impl From<Ticket<EndClaim>> for QueuedJob {
    fn from(ticket: Ticket<EndClaim>) -> Self {
        QueuedJob::EndClaim(ticket)
    }
}
