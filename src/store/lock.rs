//! Locking without poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. Every one in the store guards plain data that no panic can leave half changed.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
