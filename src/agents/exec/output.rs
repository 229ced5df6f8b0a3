//! The output of a command: standard output becomes pieces of an artifact, and the end of standard error is kept.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::super::{AgentError, ArtifactWriter};
use super::ExecSettings;

/// The longest piece in bytes of JSON. It keeps the whole event small enough for every client.
const PIECE: usize = 40_000;

/// The size of one read, in bytes.
const READ: usize = 16 << 10;

/// How many bytes are read at most after the command has ended: as much as a pipe can hold. More comes from other
/// processes of the group.
const LEFT_OVER: usize = 1 << 20;

/// After how much silence a pipe counts as empty, once the command has ended and other processes hold it open.
const SILENCE: Duration = Duration::from_millis(100);

/// How many bytes of standard error are kept.
const TAIL: usize = 2 << 10;

/// Returns how long output is collected before it becomes a piece. A command that prints and ends makes one piece; one
/// that prints for hours does not fill the task's log.
fn pace(pieces: u32) -> Duration {
    Duration::from_millis(match pieces {
        0..100 => 25,
        100..5000 => 100,
        _ => 1000,
    })
}

/// Writes output to the artifact until its end, or until the command has ended and the pipe is empty.
pub(super) async fn print(
    mut stdout: impl AsyncRead + Unpin,
    artifact: &mut ArtifactWriter,
    limits: &ExecSettings,
    exited: &CancellationToken,
) -> Result<(), AgentError> {
    let mut buffer = Buffer::default();
    let mut pieces = 0;
    let mut left_over = LEFT_OVER;
    let mut due: Option<Instant> = None;
    loop {
        let late = sleep_until(due.unwrap_or_else(Instant::now));
        let chunk = tokio::select! {
            biased;
            chunk = read(&mut stdout, exited, &mut left_over) => chunk,
            () = late, if due.is_some() => {
                due = None;
                pieces += 1;
                artifact.text(buffer.take_complete()).await?;
                artifact.flush().await?;
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        buffer.push(&chunk, limits)?;
        while let Some(window) = buffer.full() {
            pieces += 1;
            artifact.text(buffer.take_piece(window)).await?;
        }
        due = match due {
            _ if buffer.bytes.is_empty() => None,
            None => Some(Instant::now() + pace(pieces)),
            due => due,
        };
    }
    artifact.text(buffer.take_all()).await?;
    // The last piece is held for the end of the command, unless the command has closed its output and goes on.
    if timeout(pace(pieces), exited.cancelled()).await.is_err() {
        artifact.flush().await?;
    }
    Ok(())
}

/// Keeps the end of standard error.
pub(super) async fn keep_tail(mut stderr: impl AsyncRead + Unpin, tail: &mut Tail, exited: &CancellationToken) {
    let mut left_over = LEFT_OVER;
    while let Some(chunk) = read(&mut stderr, exited, &mut left_over).await {
        tail.push(&chunk);
    }
}

/// Returns the next bytes, or `None` at the end. Cancel safe: no bytes are lost when it is dropped.
async fn read(
    pipe: &mut (impl AsyncRead + Unpin),
    exited: &CancellationToken,
    left_over: &mut usize,
) -> Option<Vec<u8>> {
    let mut chunk = Vec::with_capacity(READ);
    let count = tokio::select! {
        biased;
        count = pipe.read_buf(&mut chunk) => count,
        () = exited.cancelled() => timeout(SILENCE, pipe.read_buf(&mut chunk)).await.unwrap_or(Ok(0)),
    };
    if exited.is_cancelled() {
        *left_over = left_over.saturating_sub(chunk.len());
        if *left_over == 0 {
            return None;
        }
    }
    // A read error counts as the end.
    (count.unwrap_or(0) > 0).then_some(chunk)
}

/// Output that is not yet part of a piece.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Bytes since the last line feed.
    line: usize,
    /// Bytes in all.
    total: u64,
}

impl Buffer {
    fn push(&mut self, chunk: &[u8], limits: &ExecSettings) -> Result<(), AgentError> {
        self.bytes.extend_from_slice(chunk);
        self.total += chunk.len() as u64;
        if self.total > limits.max_output {
            return Err(AgentError::new(format!("The command printed more than {} bytes.", limits.max_output)));
        }
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line += part.len();
            if self.line as u64 > limits.max_line {
                return Err(AgentError::new(format!(
                    "The command printed a line of more than {} bytes.",
                    limits.max_line
                )));
            }
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Ok(())
    }

    /// Returns how many bytes fill a piece, or `None` while there is room for more.
    fn full(&self) -> Option<usize> {
        let mut room = PIECE;
        self.bytes.iter().position(|byte| {
            let fits = room.checked_sub(written(*byte));
            room = fits.unwrap_or_default();
            fits.is_none()
        })
    }

    /// Takes as many whole lines as fit into a piece, or the beginning of a longer line.
    fn take_piece(&mut self, window: usize) -> String {
        let window = &self.bytes[..window];
        let end = window.iter().rposition(|byte| *byte == b'\n').map_or_else(|| complete(window), |at| at + 1);
        self.take(end)
    }

    /// Takes everything except an incomplete last character.
    fn take_complete(&mut self) -> String {
        self.take(complete(&self.bytes))
    }

    fn take_all(&mut self) -> String {
        self.take(self.bytes.len())
    }

    fn take(&mut self, end: usize) -> String {
        let rest = self.bytes.split_off(end);
        let piece = std::mem::replace(&mut self.bytes, rest);
        // Bytes that are not UTF-8 become replacement characters.
        String::from_utf8(piece).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// Returns an upper bound of the bytes that JSON needs for a byte: control characters are escaped, and a byte that is not
/// UTF-8 becomes a replacement character.
fn written(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        0x80.. => 3,
        _ => 1,
    }
}

/// Returns the length without an incomplete last character.
fn complete(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    let last = bytes[start..].iter().rposition(|byte| byte & 0b1100_0000 != 0b1000_0000);
    match last.map(|at| start + at) {
        Some(at) if std::str::from_utf8(&bytes[at..]).is_err_and(|error| error.error_len().is_none()) => at,
        _ => bytes.len(),
    }
}

/// The end of a stream of bytes.
#[derive(Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        // Not at every push, to copy each byte only a few times.
        if self.bytes.len() > 4 * TAIL {
            self.bytes.drain(..self.bytes.len() - TAIL);
            self.cut = true;
        }
    }

    /// Returns the last lines, trimmed.
    pub(super) fn text(&self) -> String {
        let start = self.bytes.len().saturating_sub(TAIL);
        let mut tail = &self.bytes[start..];
        // Starts with a whole line if there is one.
        if (self.cut || start > 0)
            && let Some(at) = tail.iter().position(|byte| *byte == b'\n').filter(|at| at + 1 < tail.len())
        {
            tail = &tail[at + 1..];
        }
        String::from_utf8_lossy(tail).trim().to_owned()
    }
}
