//! The time, and ids that follow it: the only place where either is made.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// Returns the time now, in microseconds since 1970-01-01T00:00:00Z and with millisecond precision, which is what A2A
/// timestamps have (§5.6.1).
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).map_or(i64::MAX, |ms| ms.saturating_mul(1000))
}

/// Returns a new id that sorts by time (a UUID of version 7).
///
/// An id of a task is also what protects it where nobody authenticates, so the random half comes from a generator that is
/// cryptographically strong: one for each thread, seeded by the kernel, so that an id costs no system call.
pub(crate) fn new_id() -> Uuid {
    Uuid::now_v7()
}
