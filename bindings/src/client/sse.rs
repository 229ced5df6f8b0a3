//! Reads server-sent events from a body that arrives in pieces.
//!
//! A piece may end anywhere, even between CR and LF or inside a character. Comments (pings), unknown fields and a byte
//! order mark are skipped, as the standard says. Lines and events have a size limit, so that a server cannot fill the
//! memory.

use std::collections::VecDeque;

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The value of the `event:` line; empty without one.
    pub name: String,
    /// The value of the last `id:` line so far, of this event or an earlier one.
    pub id: Option<String>,
    /// The `data:` lines, joined by newlines.
    pub data: String,
}

/// The reason why a body cannot be read as a stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line, or the lines of one event together, exceed the limit.
    #[error("an event of more than {0} bytes")]
    TooLong(usize),
    /// A line is not UTF-8.
    #[error("an event that is not UTF-8")]
    NotUtf8,
}

/// Reads events: bytes go in with [`push`](SseReader::push), events come out of [`next`](SseReader::next).
#[derive(Debug)]
pub struct SseReader {
    limit: usize,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The last byte was a CR that ended a line. An LF that follows belongs to it.
    after_cr: bool,
    /// No line was read yet, so a byte order mark may follow.
    first: bool,
    name: String,
    id: Option<String>,
    data: String,
    has_data: bool,
    ready: VecDeque<SseEvent>,
}

impl SseReader {
    /// Creates a reader for one body. `limit` is the most bytes in one line and in the data of one event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_cr: false,
            first: true,
            name: String::new(),
            id: None,
            data: String::new(),
            has_data: false,
            ready: VecDeque::new(),
        }
    }

    /// Adds the next bytes of the body.
    ///
    /// # Errors
    /// When they cannot be part of a stream of events. The reader cannot be used after that.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), SseError> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = memchr::memchr2(b'\r', b'\n', bytes) {
            self.extend(&bytes[..at])?;
            let ended_by_cr = bytes[at] == b'\r';
            bytes = &bytes[at + 1..];
            if ended_by_cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.end_line()?;
        }
        self.extend(bytes)
    }

    /// Returns the next complete event, in order.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: more events may follow `None`")]
    pub fn next(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// Returns whether the bytes so far end inside an event. The standard drops such an event at the end of the body.
    pub fn inside_event(&self) -> bool {
        !self.line.is_empty() || self.has_data
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(SseError::TooLong(self.limit));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut text = std::str::from_utf8(&line).map_err(|_| SseError::NotUtf8)?;
        if std::mem::take(&mut self.first) {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            self.end_event();
        } else {
            let (field, value) = text.split_once(':').unwrap_or((text, ""));
            self.field(field, value.strip_prefix(' ').unwrap_or(value))?;
        }
        // Keeps the buffer for the next line.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn field(&mut self, field: &str, value: &str) -> Result<(), SseError> {
        match field {
            "data" => {
                if self.data.len() + value.len() >= self.limit {
                    return Err(SseError::TooLong(self.limit));
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            // A comment has an empty field name. `retry` is ignored: the caller decides when to reconnect.
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self) {
        let name = std::mem::take(&mut self.name);
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(SseEvent { name, id: self.id.clone(), data: std::mem::take(&mut self.data) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<SseEvent>, SseError> {
        let mut reader = SseReader::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            reader.push(piece)?;
            events.extend(std::iter::from_fn(|| reader.next()));
        }
        Ok(events)
    }

    fn event(name: &str, id: Option<&str>, data: &str) -> SseEvent {
        SseEvent { name: name.into(), id: id.map(Into::into), data: data.into() }
    }

    #[test]
    fn fields_comments_and_line_ends_follow_the_standard() {
        let body = "\u{feff}: hello\nid: 1.1\ndata: a\n\n: ping\ndata:b\r\ndata:  c\r\n\r\nevent: error\rdata\r\rretry: 5\n\
                    what: ever\nid:1.2\ndata: d\n\nevent: lost\n\ndata: e\n\nid\ndata: f\n\nid: x\0\ndata: g\n\ndata: cut";
        let expected = [
            event("", Some("1.1"), "a"),
            event("", Some("1.1"), "b\n c"),
            event("error", Some("1.1"), ""),
            event("", Some("1.2"), "d"),
            event("", Some("1.2"), "e"),
            event("", None, "f"),
            event("", None, "g"),
        ];
        assert_eq!(read(&[body.as_bytes()]).unwrap(), expected);
    }

    #[test]
    fn a_comment_between_the_lines_of_an_event_is_skipped() {
        assert_eq!(read(&[b"data: a\n: ping\ndata: b\n\n"]).unwrap(), [event("", None, "a\nb")]);
    }

    #[test]
    fn an_event_that_is_too_long_or_not_utf8_is_refused() {
        let long = format!("data: {}", "x".repeat(1000));
        assert_eq!(read(&[long.as_bytes()]), Err(SseError::TooLong(1000)));
        let many = "data: xxxxxxxxx\n".repeat(110);
        assert_eq!(read(&[many.as_bytes()]), Err(SseError::TooLong(1000)));
        assert_eq!(read(&[b"data: \xff\n"]), Err(SseError::NotUtf8));
    }

    #[test]
    fn an_incomplete_event_is_noticed() {
        let mut reader = SseReader::new(100);
        reader.push(b"data: a\n\n").unwrap();
        assert!(!reader.inside_event());
        reader.push(b"data: b\n").unwrap();
        assert!(reader.inside_event());
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            lines in proptest::collection::vec(
                prop_oneof![
                    Just(String::new()),
                    Just(": ping".to_owned()),
                    "data: ?[a-z:é\u{1f600}\u{2028}]{0,8}",
                    "id: [0-9.]{0,4}",
                    "event: [a-z]{0,3}",
                    "[a-z]{0,4}",
                ],
                0..20,
            ),
            ends in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 20),
            mut cuts in proptest::collection::vec(0_usize..400, 0..12),
        ) {
            let body: String = lines.iter().zip(&ends).map(|(line, end)| format!("{line}{end}")).collect();
            let body = body.as_bytes();
            cuts.push(body.len());
            cuts.iter_mut().for_each(|cut| *cut = (*cut).min(body.len()));
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&body[from..cut]);
                from = cut;
            }
            let bytes: Vec<&[u8]> = body.chunks(1).collect();
            let whole = read(&[body]);
            prop_assert_eq!(&read(&pieces), &whole);
            prop_assert_eq!(&read(&bytes), &whole);
        }
    }
}
