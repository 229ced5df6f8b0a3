//! Bytes on their way out: what is written for one answer, and encodings that several answers share.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;

use crate::Error;
use crate::budget::Budget;
use crate::offload::LARGE;

/// From this size on, in bytes, a shared encoding is sent as it is. A smaller one is copied, which is cheaper.
const SHARED: usize = 16 << 10;

/// From this size on, in bytes, what is written for one answer alone is charged. Less is part of what a call costs.
const CHARGED: usize = 4 << 10;

/// The most bytes of one frame of a body. A peer that does not read holds no more than this in the buffers below.
pub(crate) const FRAME: usize = 64 << 10;

/// Bytes that are written for one answer or event: a buffer to write into, and shared encodings between what was written.
///
/// It dereferences to the buffer.
#[derive(Debug)]
pub struct Output {
    buffer: Vec<u8>,
    /// What comes before the buffer.
    pieces: Vec<Encoding>,
    budget: Option<Arc<Budget>>,
}

/// Encoded bytes that may be shared.
#[derive(Debug, Clone)]
pub struct Encoding {
    bytes: Bytes,
    /// Whether no reader of an event stream takes a character in it for the end of a line.
    is_one_line: bool,
}

impl Encoding {
    /// Returns how many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// A large encoding, charged as long as anybody holds it.
#[derive(Debug)]
pub(crate) struct LargeEncoding {
    bytes: Bytes,
    is_one_line: bool,
}

impl From<Arc<LargeEncoding>> for Encoding {
    fn from(large: Arc<LargeEncoding>) -> Self {
        let is_one_line = large.is_one_line;
        Self { bytes: Bytes::from_owner(Holder(large)), is_one_line }
    }
}

/// Keeps a large encoding while its bytes are used.
struct Holder(Arc<LargeEncoding>);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// What was taken out of an output, for sharing.
pub(crate) enum Taken {
    /// It is worth keeping with the message.
    Small(Encoding),
    /// It is kept only while it is sent.
    Large(Arc<LargeEncoding>),
}

/// A point in what was written.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pieces: usize,
    length: usize,
}

impl Deref for Output {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.buffer
    }
}

impl DerefMut for Output {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

impl Output {
    /// Makes an empty one. What becomes large is charged to the budget, if there is one.
    pub fn new(budget: Option<&Arc<Budget>>) -> Self {
        Self { buffer: Vec::new(), pieces: Vec::new(), budget: budget.cloned() }
    }

    /// Returns the point after what was written so far.
    pub(crate) fn mark(&self) -> Mark {
        Mark { pieces: self.pieces.len(), length: self.buffer.len() }
    }

    /// Returns how many bytes were written in all.
    pub(crate) fn total(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() + self.buffer.len()
    }

    /// Forgets what was written after a point.
    pub(crate) fn truncate_to(&mut self, mark: Mark) {
        if self.pieces.len() > mark.pieces {
            // The buffer at that point became the piece there, whole.
            let before = self.pieces.swap_remove(mark.pieces);
            self.pieces.truncate(mark.pieces);
            self.buffer = before.bytes[..mark.length].to_vec();
        } else {
            self.buffer.truncate(mark.length);
        }
    }

    /// Adds an encoding that others share.
    pub(crate) fn push_shared(&mut self, encoding: &Encoding) {
        if encoding.bytes.len() < SHARED {
            self.buffer.extend_from_slice(&encoding.bytes);
            return;
        }
        if !self.buffer.is_empty() {
            let bytes = std::mem::take(&mut self.buffer).into();
            self.pieces.push(Encoding { bytes, is_one_line: false });
        }
        self.pieces.push(encoding.clone());
    }

    /// Takes what was written after a point out, for sharing. Returns `None` if it holds a shared encoding itself.
    ///
    /// # Errors
    /// [`UNAVAILABLE`](crate::error::kinds::UNAVAILABLE) if it is large and the budget is used up.
    pub(crate) fn take(&mut self, mark: Mark) -> Result<Option<Taken>, Error> {
        if self.pieces.len() > mark.pieces {
            return Ok(None);
        }
        let bytes = self.buffer.split_off(mark.length);
        let is_one_line = line_end(&bytes).is_none();
        if bytes.len() < LARGE {
            return Ok(Some(Taken::Small(Encoding { bytes: bytes.into(), is_one_line })));
        }
        let bytes = charged(self.budget.as_ref(), bytes)?;
        Ok(Some(Taken::Large(Arc::new(LargeEncoding { bytes, is_one_line }))))
    }

    /// Returns how many bytes were written after a point, if all of them are in the buffer.
    pub(crate) fn written(&self, mark: Mark) -> usize {
        if self.pieces.len() > mark.pieces { 0 } else { self.buffer.len() - mark.length }
    }

    /// Writes U+0085, U+2028 and U+2029 in the JSON after a point as escapes. An event stream's lines do not end there, but
    /// those that the common HTTP library of Python reads do, and its readers would lose the event.
    ///
    /// # Errors
    /// [`UNAVAILABLE`](crate::error::kinds::UNAVAILABLE) if a shared encoding has to be copied and the budget is used up.
    pub(crate) fn escape_line_ends(&mut self, mark: Mark) -> Result<(), Error> {
        let mut from = mark.length;
        for piece in self.pieces.iter_mut().skip(mark.pieces) {
            if !piece.is_one_line && line_end(&piece.bytes[from..]).is_some() {
                let mut copy = piece.bytes[..from].to_vec();
                escape(&piece.bytes[from..], &mut copy);
                piece.bytes = charged(self.budget.as_ref(), copy)?;
            }
            from = 0;
        }
        if line_end(&self.buffer[from..]).is_some() {
            let json = self.buffer.split_off(from);
            escape(&json, &mut self.buffer);
        }
        Ok(())
    }

    /// Returns the bytes in order.
    ///
    /// # Errors
    /// [`UNAVAILABLE`](crate::error::kinds::UNAVAILABLE) if what was written for this answer is large and the budget is used
    /// up.
    pub(crate) fn finish(self) -> Result<Pieces, Error> {
        let mut pieces: VecDeque<_> =
            self.pieces.into_iter().map(|piece| piece.bytes).filter(|bytes| !bytes.is_empty()).collect();
        if self.buffer.len() >= CHARGED {
            pieces.push_back(charged(self.budget.as_ref(), self.buffer)?);
        } else if !self.buffer.is_empty() {
            pieces.push_back(self.buffer.into());
        }
        Ok(Pieces(pieces))
    }

    /// Returns the bytes in one piece.
    pub fn into_vec(mut self) -> Vec<u8> {
        if self.pieces.is_empty() {
            return self.buffer;
        }
        let mut all = Vec::with_capacity(self.total());
        self.pieces.iter().for_each(|piece| all.extend_from_slice(&piece.bytes));
        all.append(&mut self.buffer);
        all
    }
}

fn charged(budget: Option<&Arc<Budget>>, bytes: Vec<u8>) -> Result<Bytes, Error> {
    match budget {
        Some(budget) => Ok(budget.permit(bytes.len())?.attach(bytes.into())),
        None => Ok(bytes.into()),
    }
}

/// Returns where the first character is that some readers take for the end of a line, its length and its escape.
fn line_end(bytes: &[u8]) -> Option<(usize, usize, &'static [u8; 6])> {
    memchr::memchr2_iter(0xC2, 0xE2, bytes).find_map(|at| match &bytes[at..] {
        [0xC2, 0x85, ..] => Some((at, 2, b"\\u0085")),
        [0xE2, 0x80, 0xA8, ..] => Some((at, 3, b"\\u2028")),
        [0xE2, 0x80, 0xA9, ..] => Some((at, 3, b"\\u2029")),
        _ => None,
    })
}

fn escape(json: &[u8], out: &mut Vec<u8>) {
    let mut rest = json;
    while let Some((at, length, escape)) = line_end(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(escape);
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
}

/// Bytes to send, in frames of at most 64 KiB.
#[derive(Debug, Default)]
pub struct Pieces(VecDeque<Bytes>);

impl Pieces {
    /// Returns the next frame.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        let first = self.0.front_mut()?;
        if first.len() > FRAME { Some(first.split_to(FRAME)) } else { self.0.pop_front() }
    }

    /// Returns whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl<T: Into<Bytes>> From<T> for Pieces {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        Self(if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([bytes]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(bytes: &str, budget: &Arc<Budget>) -> Encoding {
        let mut out = Output::new(Some(budget));
        let mark = out.mark();
        out.extend_from_slice(bytes.as_bytes());
        match out.take(mark).unwrap().unwrap() {
            Taken::Small(encoding) => encoding,
            Taken::Large(large) => large.into(),
        }
    }

    fn text(mut pieces: Pieces) -> String {
        let frames: Vec<_> = std::iter::from_fn(|| pieces.next()).collect();
        assert!(frames.iter().all(|frame| frame.len() <= FRAME));
        String::from_utf8(frames.concat()).unwrap()
    }

    #[test]
    fn a_large_encoding_is_shared_and_charged_once() {
        let budget = Budget::new("tests", 1 << 20);
        let large = "x".repeat(LARGE);
        let encoding = shared(&large, &budget);
        assert_eq!(budget.used(), LARGE);
        let answers: Vec<_> = (0..10)
            .map(|n| {
                let mut out = Output::new(Some(&budget));
                out.extend_from_slice(n.to_string().as_bytes());
                out.push_shared(&encoding);
                out.push(b'!');
                out.finish().unwrap()
            })
            .collect();
        drop(encoding);
        assert_eq!(budget.used(), LARGE);
        for (n, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.len(), LARGE + 2);
            assert_eq!(text(answer), format!("{n}{large}!"));
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_the_budget_does_not_allow_is_refused() {
        let budget = Budget::new("tests", 10_000);
        let mut out = Output::new(Some(&budget));
        out.extend_from_slice(&[b'x'; 20_000]);
        assert_eq!(out.finish().unwrap_err().kind().reason, "UNAVAILABLE");
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn line_ends_are_escaped_after_the_mark_in_every_piece() {
        let budget = Budget::new("tests", 1 << 20);
        let encoding = shared(&"\u{2028}".repeat(SHARED), &budget);
        let mut out = Output::new(None);
        out.extend_from_slice("a\u{85}".as_bytes());
        let mark = out.mark();
        out.extend_from_slice("b\u{85}".as_bytes());
        out.push_shared(&encoding);
        out.extend_from_slice("c\u{2029}".as_bytes());
        out.escape_line_ends(mark).unwrap();
        let expected = format!("a\u{85}b\\u0085{}c\\u2029", "\\u2028".repeat(SHARED));
        assert_eq!(text(out.finish().unwrap()), expected);
    }

    #[test]
    fn what_was_written_after_a_mark_is_forgotten() {
        let encoding = shared(&"x".repeat(SHARED), &Budget::new("tests", 1 << 20));
        let mut out = Output::new(None);
        out.push_shared(&encoding);
        out.extend_from_slice(b"ab");
        let mark = out.mark();
        out.extend_from_slice(b"cd");
        out.push_shared(&encoding);
        out.truncate_to(mark);
        assert_eq!(out.total(), SHARED + 2);
        out.extend_from_slice(b"ef");
        out.truncate_to(mark);
        assert_eq!(out.into_vec(), format!("{}ab", "x".repeat(SHARED)).as_bytes());
    }
}
