//! Who may come in. Until authentication is configured everybody may, as nobody in particular.

use http::request::Parts;
use tricord_bindings::{Door, Error, Identity};

/// A door that lets everybody in.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenDoor;

impl Door for OpenDoor {
    fn identify(&self, _: &Parts) -> Result<Identity, Error> {
        Ok(Identity::anonymous())
    }
}
