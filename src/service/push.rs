//! Push notifications: not offered yet, and every card says so.

use tricord_bindings::Error;

use crate::protocol;

/// What every push operation, and an inline configuration, is answered with.
pub(super) fn not_supported() -> Error {
    Error::new(&protocol::PUSH_NOTIFICATION_NOT_SUPPORTED, "this agent sends no push notifications")
}
