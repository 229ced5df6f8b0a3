//! The body of a unary gRPC request: one message behind a flag and its length, compressed or not.

use std::io::Read as _;

use bytes::{Buf as _, Bytes};
use flate2::read::GzDecoder;

use crate::body::BodyLimits;
use crate::budget::BudgetPermit;
use crate::error::{Error, kinds};

/// The bytes before a message: a flag and the length.
pub(super) const HEADER: usize = 5;

/// How much larger than its compressed form a message may be, beyond [`FREE`] bytes.
const MAX_RATIO: usize = 100;

/// Up to this size, in bytes, a message may be compressed as well as it can be.
const FREE: usize = 1 << 20;

/// How much is inflated before the next bytes are charged.
const STEP: usize = 64 << 10;

/// Returns the message of a body that was read whole. `is_gzip` says what the headers say of compressed messages; what a
/// message grows by is charged to `permit`.
///
/// # Errors
/// [`kinds::INVALID_REQUEST`] if the body is not one message, [`kinds::TOO_LARGE`] if the message inflates beyond the limit
/// of bodies or to more than a hundred times its compressed size, [`kinds::UNAVAILABLE`] if the budget is used up.
pub(super) fn message(
    mut body: Bytes,
    is_gzip: bool,
    limits: &BodyLimits,
    permit: &mut BudgetPermit,
) -> Result<Bytes, Error> {
    let invalid = |problem: &'static str| Error::new(&kinds::INVALID_REQUEST, problem);
    if body.is_empty() {
        return Err(invalid("the body holds no request message"));
    }
    if body.len() < HEADER {
        return Err(invalid("the body broke off"));
    }
    let (flag, length) = (body.get_u8(), body.get_u32() as usize);
    if body.len() < length {
        return Err(if length > limits.bytes { limits.too_large() } else { invalid("the body broke off") });
    }
    if body.len() > length {
        return Err(invalid("the body holds more than one message, and this method takes one"));
    }
    match flag {
        0 => Ok(body),
        1 if is_gzip => inflate(&body, limits, permit),
        1 => Err(invalid("the message is compressed, and no grpc-encoding says how")),
        _ => Err(invalid("the flag before the message is neither 0 nor 1")),
    }
}

fn inflate(compressed: &[u8], limits: &BodyLimits, permit: &mut BudgetPermit) -> Result<Bytes, Error> {
    let most = limits.bytes.min(FREE.max(compressed.len().saturating_mul(MAX_RATIO)));
    let mut reader = GzDecoder::new(compressed);
    let mut message = Vec::new();
    loop {
        permit.more(STEP)?;
        let before = message.len();
        let read = reader.by_ref().take(STEP as u64).read_to_end(&mut message);
        read.map_err(|_| Error::new(&kinds::INVALID_REQUEST, "the message is not valid gzip"))?;
        if message.len() > limits.bytes {
            return Err(limits.too_large());
        }
        if message.len() > most {
            let message = format!("the request inflates to more than {MAX_RATIO} times its compressed size");
            return Err(Error::new(&kinds::TOO_LARGE, message));
        }
        if message.len() < before + STEP {
            return Ok(message.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::budget::Budget;

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[flag], &length[..], message].concat()
    }

    fn gzip(message: &[u8]) -> Vec<u8> {
        let mut writer = GzEncoder::new(Vec::new(), Compression::best());
        writer.write_all(message).unwrap();
        writer.finish().unwrap()
    }

    fn read(body: Vec<u8>) -> Result<Bytes, &'static str> {
        let limits = BodyLimits::default();
        let mut permit = BudgetPermit::none(&Budget::new("tests", 64 << 20));
        message(body.into(), true, &limits, &mut permit).map_err(|error| error.kind().reason)
    }

    #[test]
    fn a_body_is_one_message() {
        assert_eq!(read(framed(0, b"hello")).unwrap(), "hello");
        assert_eq!(read(framed(0, b"")).unwrap(), "");
        assert_eq!(read(framed(1, &gzip(b"hello"))).unwrap(), "hello");
        let two = [framed(0, b"a"), framed(1, &gzip(b"b"))].concat();
        for bad in [vec![], vec![0, 0], framed(0, b"abc")[..7].to_vec(), two, framed(2, b""), framed(1, b"no gzip")] {
            assert_eq!(read(bad.clone()), Err("INVALID_REQUEST"), "{bad:?}");
        }
        assert_eq!(read(vec![0, 0xff, 0, 0, 0]), Err("TOO_LARGE"), "a length beyond the limit");
    }

    #[test]
    fn a_message_that_inflates_too_far_is_refused() {
        let mut random = 1_u64;
        let varied: Vec<u8> = std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            b'a' + (random % 16) as u8
        })
        .take(3_000_000)
        .collect();
        let packed = gzip(&varied);
        assert!(packed.len() * MAX_RATIO > varied.len(), "{}", packed.len());
        assert_eq!(read(framed(1, &packed)).unwrap(), varied);
        assert_eq!(read(framed(1, &gzip(&vec![0; FREE]))).unwrap().len(), FREE);
        assert_eq!(read(framed(1, &gzip(&vec![0; 2 * FREE]))), Err("TOO_LARGE"));
        assert_eq!(read(framed(1, &gzip(&vec![0; 17 << 20]))), Err("TOO_LARGE"));
    }
}
