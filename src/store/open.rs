//! From an address to the backend that serves it: the one list of backends.

use super::backend::Backend;
use super::{OpenError, Options, StoreUrl};
use std::sync::Arc;

/// Opens the store of an address.
pub(super) fn open(options: &Options) -> Result<Arc<dyn Backend>, OpenError> {
    match &options.url {
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(_) | StoreUrl::Memory => super::sqlite::open(options),
        #[cfg(not(feature = "sqlite"))]
        StoreUrl::Sqlite(_) | StoreUrl::Memory => Err(OpenError::Address(options.url.to_string())),
    }
}
