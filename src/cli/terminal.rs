//! Standard output and standard error without control sequences.
//!
//! The text of a remote agent may contain sequences that move the cursor, set the title or hide output. On a terminal
//! control characters are therefore replaced; files and pipes get everything as it is.

use std::io::{self, IsTerminal, Write};

/// A writer that replaces control characters if it writes to a terminal.
pub(super) struct Clean<W> {
    inner: W,
    terminal: bool,
}

/// Returns standard output, buffered. Flush it at the end, and whenever the user should see something.
pub(super) fn stdout() -> Clean<io::BufWriter<io::Stdout>> {
    let inner = io::stdout();
    let terminal = inner.is_terminal();
    Clean { inner: io::BufWriter::new(inner), terminal }
}

/// Returns standard error, unbuffered.
pub(super) fn stderr() -> Clean<io::Stderr> {
    let inner = io::stderr();
    let terminal = inner.is_terminal();
    Clean { inner, terminal }
}

/// Returns whether standard output and standard error are both a terminal.
pub(super) fn is_shared() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    /// Must be called with whole strings, so that no character is cut.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.terminal {
            return self.inner.write_all(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if text.contains(is_control) {
            return self.inner.write_all(text.replace(is_control, "\u{fffd}").as_bytes());
        }
        self.inner.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(terminal: bool) -> String {
        let mut out = Clean { inner: Vec::new(), terminal };
        out.write_all("a\tb\u{1b}[2Jc\nd\u{9b}e".as_bytes()).unwrap();
        String::from_utf8(out.inner).unwrap()
    }

    #[test]
    fn control_characters_are_replaced_on_a_terminal_only() {
        assert_eq!(written(true), "a\tb\u{fffd}[2Jc\nd\u{fffd}e");
        assert_eq!(written(false), "a\tb\u{1b}[2Jc\nd\u{9b}e");
    }
}
