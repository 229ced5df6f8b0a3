//! Budgets: bytes that may be held at one time, and the permits of those who hold them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::error::Error;

/// Bytes that may be held at one time for one purpose, over all connections.
///
/// A budget is a counter, not an allocator: whoever holds bytes takes a [`BudgetPermit`] for them and drops it with them.
#[derive(Debug)]
pub struct Budget {
    name: &'static str,
    limit: usize,
    used: AtomicUsize,
    refused: AtomicU64,
    /// Those who wait for bytes to be given back.
    waiting: AtomicUsize,
    freed: Notify,
}

impl Budget {
    /// Makes a budget of this many bytes. `name` says what for, in errors: "request bodies".
    pub fn new(name: &'static str, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            limit,
            used: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    /// Returns what the bytes are for.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns how many bytes there are.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how many bytes are held. [`Budget::charge`] may have taken it beyond the limit.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns how often a permit was refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Takes a permit for this many bytes.
    ///
    /// # Errors
    /// [`UNAVAILABLE`](crate::error::kinds::UNAVAILABLE) if too little is left.
    pub fn permit(self: &Arc<Self>, bytes: usize) -> Result<BudgetPermit, Error> {
        let mut permit = BudgetPermit::none(self);
        permit.more(bytes)?;
        Ok(permit)
    }

    /// Takes a permit for bytes that are held already, whether or not they are left. What was accepted goes on; new work
    /// is refused until the budget has recovered.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> BudgetPermit {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        BudgetPermit { budget: self.clone(), bytes }
    }

    /// Waits for a permit for this many bytes, at most `patience`. More than the whole budget is cut to that.
    ///
    /// # Errors
    /// [`UNAVAILABLE`](crate::error::kinds::UNAVAILABLE) if too little was given back in time.
    pub async fn wait(self: &Arc<Self>, bytes: usize, patience: Duration) -> Result<BudgetPermit, Error> {
        let bytes = bytes.min(self.limit);
        if self.take(bytes) {
            return Ok(BudgetPermit { budget: self.clone(), bytes });
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(self);
        let turn = async {
            loop {
                // Enabled before the look: what is given back after it is noticed.
                let mut freed = std::pin::pin!(self.freed.notified());
                freed.as_mut().enable();
                if self.take(bytes) {
                    return;
                }
                freed.await;
            }
        };
        match tokio::time::timeout(patience, turn).await {
            Ok(()) => Ok(BudgetPermit { budget: self.clone(), bytes }),
            Err(_) => Err(self.refuse()),
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    fn give(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }

    fn refuse(&self) -> Error {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let message = format!("the memory for {} is in use; try again later", self.name);
        Error::unavailable(message, Duration::from_secs(1))
    }
}

/// One that waits in [`Budget::wait`].
struct Waiting<'a>(&'a Budget);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Bytes of a [`Budget`]. Dropping it gives them back.
#[derive(Debug)]
pub struct BudgetPermit {
    budget: Arc<Budget>,
    bytes: usize,
}

impl BudgetPermit {
    /// Makes a permit for nothing yet.
    pub fn none(budget: &Arc<Budget>) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    /// Returns how many bytes it is for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more bytes of the budget.
    ///
    /// # Errors
    /// [`UNAVAILABLE`](crate::error::kinds::UNAVAILABLE) if too little is left.
    pub fn more(&mut self, bytes: usize) -> Result<(), Error> {
        if !self.budget.take(bytes) {
            return Err(self.budget.refuse());
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes more bytes, whether or not they are left, as [`Budget::charge`] does.
    pub fn charge(&mut self, bytes: usize) {
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Takes or gives back bytes until it is for this many.
    ///
    /// # Errors
    /// [`UNAVAILABLE`](crate::error::kinds::UNAVAILABLE) if it would grow and too little is left.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.more(more),
            None => {
                self.budget.give(self.bytes - bytes);
                self.bytes = bytes;
                Ok(())
            }
        }
    }

    /// Takes over the bytes of another permit of the same budget.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget), "permits of two budgets");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Ties the permit to bytes: it is given back when the last of their clones and slices is dropped, wherever that is.
    pub fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _permit: self })
    }
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

/// Bytes with their permit.
struct Charged {
    bytes: Bytes,
    _permit: BudgetPermit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_given_back() {
        let budget = Budget::new("tests", 10);
        let mut held = budget.permit(6).unwrap();
        assert_eq!(budget.permit(5).unwrap_err().kind().reason, "UNAVAILABLE");
        held.resize(2).unwrap();
        let rest = budget.permit(8).unwrap();
        assert!(held.resize(3).is_err());
        assert_eq!((held.bytes(), budget.used(), budget.refused()), (2, 10, 2));
        drop((held, rest));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_charge_passes_the_limit_and_stops_new_permits() {
        let budget = Budget::new("tests", 10);
        let mut held = budget.charge(8);
        held.charge(8);
        assert_eq!(budget.used(), 16);
        assert!(budget.permit(1).is_err());
        drop(held);
        assert!(budget.permit(10).is_ok());
    }

    #[test]
    fn attached_bytes_hold_their_permit_to_the_last_slice() {
        let budget = Budget::new("tests", 10);
        let bytes = budget.permit(5).unwrap().attach(Bytes::from_static(b"hello"));
        let slice = bytes.slice(1..3);
        drop(bytes);
        assert_eq!((&*slice, budget.used()), (&b"el"[..], 5));
        drop(slice);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_what_is_given_back_or_with_its_time() {
        let budget = Budget::new("tests", 10);
        let held = budget.permit(10).unwrap();
        let error = budget.wait(1, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.kind().reason, "UNAVAILABLE");
        let waiting = {
            let budget = budget.clone();
            tokio::spawn(async move { budget.wait(99, Duration::from_secs(9)).await })
        };
        tokio::task::yield_now().await;
        drop(held);
        assert_eq!(waiting.await.unwrap().unwrap().bytes(), 10, "more than there is waits for all");
    }
}
