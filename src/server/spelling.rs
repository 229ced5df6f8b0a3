//! Header names that gateways confuse: many turn `-` into `_` or the other way, or check only one of them.

use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING};
use tricord_bindings::Error;
use tricord_bindings::error::kinds;

use super::request_id::REQUEST_ID;

/// Headers that the server acts on.
static OWN: [HeaderName; 11] = [
    HeaderName::from_static("a2a-version"),
    HeaderName::from_static("a2a-extensions"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("x-forwarded-for"),
    REQUEST_ID,
    AUTHORIZATION,
    CONTENT_TYPE,
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    TRANSFER_ENCODING,
];

/// Checks that no header is one of the server's own with an underscore in place of a hyphen.
///
/// # Errors
/// [`kinds::INVALID_REQUEST`], which names the header.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Error> {
    for name in headers.keys().filter(|name| name.as_str().contains('_')) {
        let meant = name.as_str().replace('_', "-");
        if OWN.iter().any(|own| *own == *meant) {
            return Err(Error::new(&kinds::INVALID_REQUEST, format!("the header {name} is written {meant}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_names_are_checked() {
        let of =
            |name: &'static str| check(&HeaderMap::from_iter([(HeaderName::from_static(name), "x".parse().unwrap())]));
        assert!(of("a2a-version").is_ok() && of("x_other").is_ok() && of("a2a_other").is_ok());
        for wrong in ["a2a_version", "idempotency_key", "last_event-id", "content_length", "x_forwarded_for"] {
            assert!(of(wrong).unwrap_err().message().contains(wrong), "{wrong}");
        }
    }
}
