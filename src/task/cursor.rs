//! Where a stream begins: a client's `Last-Event-ID` held against what the log still has.

use tricord_bindings::EventId;

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the task as it stands now.
    Head,
    /// With the task folded at this record, then what followed it.
    At(u64),
}

/// Decides where a subscription begins.
///
/// `cursor` is the client's `Last-Event-ID`, verbatim; `generation` the store's; `head` the last committed record. A
/// cursor that cannot be read, of another generation, at 0 or above the head gets a fresh snapshot.
pub fn start(cursor: Option<&str>, generation: u32, head: u64) -> Start {
    match cursor.map(str::trim).and_then(|text| text.parse::<EventId>().ok()) {
        Some(id) if id.generation == generation && (1..head).contains(&id.seq) => Start::At(id.seq),
        _ => Start::Head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_place_below_the_head_of_this_generation_is_kept() {
        assert_eq!(start(Some("7.3"), 7, 9), Start::At(3));
        assert_eq!(start(Some(" 7.3 "), 7, 9), Start::At(3));
        for (cursor, why) in [
            (None, "absent"),
            (Some(""), "empty"),
            (Some("3"), "without a generation"),
            (Some("6.3"), "another generation"),
            (Some("7.0"), "before the log"),
            (Some("7.9"), "at the head"),
            (Some("7.10"), "above the head"),
            (Some("7.-1"), "negative"),
            (Some("7.+3"), "signed"),
            (Some("7.99999999999999999999999"), "too large"),
        ] {
            assert_eq!(start(cursor, 7, 9), Start::Head, "{why}");
        }
    }
}
