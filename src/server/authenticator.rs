//! Who may come in. Until authentication is configured everybody may, as nobody in particular.

use http::request::Parts;
use tricord_bindings::{Authenticator, Error, Identity};

/// A door that lets everybody in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Anonymous;

impl Authenticator for Anonymous {
    fn authenticate(&self, _: &Parts) -> Result<Identity, Error> {
        Ok(Identity::anonymous())
    }
}
