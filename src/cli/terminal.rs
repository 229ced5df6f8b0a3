//! Standard output as commands write to it.
//!
//! What a remote agent sends is text, and a terminal takes some text for orders: to move the cursor, to set the title, to
//! hide what was printed. So on a terminal control characters are shown as a mark instead; into files and pipes everything
//! goes as it is.

use std::io::{self, IsTerminal, Write};

/// A writer that shows control characters as marks where it writes to a terminal.
pub(super) struct Clean<W> {
    inner: W,
    terminal: bool,
}

/// Standard output, buffered: flush it at the end, and whenever something should be seen.
pub(super) fn stdout() -> Clean<io::BufWriter<io::Stdout>> {
    let inner = io::stdout();
    let terminal = inner.is_terminal();
    Clean { inner: io::BufWriter::new(inner), terminal }
}

/// Standard error, not buffered.
pub(super) fn stderr() -> Clean<io::Stderr> {
    let inner = io::stderr();
    let terminal = inner.is_terminal();
    Clean { inner, terminal }
}

/// Whether content and notes are seen in the same place.
pub(super) fn is_shared() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    /// Takes whole strings, so that no character is cut.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.terminal {
            return self.inner.write_all(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        let is_order = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if text.contains(is_order) {
            return self.inner.write_all(text.replace(is_order, "\u{fffd}").as_bytes());
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
    fn a_terminal_gets_no_orders_and_a_file_gets_everything() {
        assert_eq!(written(true), "a\tb\u{fffd}[2Jc\nd\u{fffd}e");
        assert_eq!(written(false), "a\tb\u{1b}[2Jc\nd\u{9b}e");
    }
}
