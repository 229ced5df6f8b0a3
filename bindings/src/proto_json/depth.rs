//! How deeply JSON nests, and whether a decoder saw all of it.

use std::cell::Cell;

use serde::de::{IgnoredAny, MapAccess};

thread_local! {
    /// Whether the decoding under way on this thread has skipped a value. A serde visitor has no place for it.
    static SKIPPED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder, and returns whether it called [`skip_value`].
pub(super) fn note_skipped<T>(decode: impl FnOnce() -> T) -> (T, bool) {
    SKIPPED.set(false);
    let decoded = decode();
    (decoded, SKIPPED.get())
}

/// Skips the next value of a map, however deep it is.
///
/// # Errors
/// If it is not JSON.
pub(super) fn skip_value<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    SKIPPED.set(true);
    map.next_value::<IgnoredAny>().map(drop)
}

/// Returns whether brackets outside strings nest deeper than `limit`. Does not check that the text is JSON.
pub(super) fn nests_deeper_than(json: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(json, at + 1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// Returns the index of the closing quote of the string whose first byte is at `at`, or the length of the text.
pub(crate) fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += found;
        if json[at] == b'"' {
            return at;
        }
        at += 2;
    }
    json.len()
}
