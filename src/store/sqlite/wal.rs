//! A look at the write-ahead log before SQLite uses it.
//!
//! SQLite applies the transactions of the log up to the first frame that is not as it was written, and silently forgets
//! those behind it, as they may be what a crash left. But a transaction that another one follows was durable, so a broken
//! frame before that is damage: without this look acknowledged tasks would be gone without a word.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC: u32 = 0x377f_0682;

/// What a look at the log found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wal {
    /// Nothing that was durable is broken.
    Whole,
    /// The last transaction is broken: its write may have been cut off, or it was damaged later.
    BrokenEnd,
    /// The frame at this offset is broken, and durable transactions follow.
    Damaged(u64),
}

/// Returns the path of the log of a database.
pub(super) fn path(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-wal");
    name.into()
}

/// Looks at the log of a database.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn scan(database: &Path) -> io::Result<Wal> {
    let file = match File::open(path(database)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Wal::Whole),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(Wal::Whole);
    }
    let (magic, page) = (word(&header, 0), word(&header, 8) as usize);
    let mut sum = Sum { big_endian: magic & 1 == 1, words: (0, 0) };
    sum.add(&header[..24]);
    let readable = magic & !1 == MAGIC && (512..=65536).contains(&page) && page.is_power_of_two();
    if !readable || sum.words != (word(&header, 24), word(&header, 28)) {
        return Ok(Wal::Damaged(0));
    }
    let (mut frame, mut at) = (vec![0; FRAME_HEADER + page], HEADER as u64);
    let (mut broken, mut committed_behind) = (None, false);
    while fill(&mut file, &mut frame)? {
        let is_ours = frame[8..16] == header[16..24];
        if let (Some(offset), true, true) = (broken, committed_behind, is_ours) {
            return Ok(Wal::Damaged(offset));
        }
        if broken.is_none() {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER..]);
            if !is_ours || sum.words != (word(&frame, 16), word(&frame, 20)) {
                broken = Some(at);
            }
        }
        committed_behind |= broken.is_some() && is_ours && word(&frame, 4) != 0;
        at += frame.len() as u64;
    }
    Ok(if committed_behind { Wal::BrokenEnd } else { Wal::Whole })
}

/// Reads as many bytes as fit. Returns `false` if the file ends before.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The checksum of the log's format: each frame's goes on from the one before.
struct Sum {
    big_endian: bool,
    words: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (mut first, mut second) = self.words;
        for pair in bytes.chunks_exact(8) {
            let read = |at| if self.big_endian { word(pair, at) } else { word(pair, at).swap_bytes() };
            first = first.wrapping_add(read(0)).wrapping_add(second);
            second = second.wrapping_add(read(4)).wrapping_add(first);
        }
        self.words = (first, second);
    }
}
