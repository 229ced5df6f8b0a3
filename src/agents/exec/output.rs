//! What a command prints: cut into pieces of an artifact as it comes, and the end of what it complains about.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::super::{AgentError, ArtifactWriter};
use super::ExecSettings;

/// The longest piece, as JSON writes it: with what stands around it the event stays one that every client takes.
const PIECE: usize = 40_000;

/// Read at once.
const READ: usize = 16 << 10;

/// What is read at most after the command is gone: all that a pipe can hold. More comes from others of its group.
const LEFT_OVER: usize = 1 << 20;

/// How long a pipe that others of the group hold open is taken to be empty.
const SILENCE: Duration = Duration::from_millis(100);

/// What is kept of standard error.
const TAIL: usize = 2 << 10;

/// How long output is gathered before it becomes a piece. A command that prints and ends gives one piece; one that prints
/// for hours does not fill the task's log.
fn pace(pieces: u32) -> Duration {
    Duration::from_millis(match pieces {
        0..100 => 25,
        100..5000 => 100,
        _ => 1000,
    })
}

/// Passes output on until its end, or until the command is gone and the pipe is empty.
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
    // The last piece waits for the end, which is near unless the command closed its output and goes on.
    if timeout(pace(pieces), exited.cancelled()).await.is_err() {
        artifact.flush().await?;
    }
    Ok(())
}

/// Reads the end of what a command complains about.
pub(super) async fn keep_tail(mut stderr: impl AsyncRead + Unpin, tail: &mut Tail, exited: &CancellationToken) {
    let mut left_over = LEFT_OVER;
    while let Some(chunk) = read(&mut stderr, exited, &mut left_over).await {
        tail.push(&chunk);
    }
}

/// The next bytes; `None` at the end. It may be dropped and called again: nothing that was read is lost.
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
    // A pipe that cannot be read has ended.
    (count.unwrap_or(0) > 0).then_some(chunk)
}

/// Output that is no piece yet.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Bytes since the last line end.
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

    /// How many bytes fill a piece; `None` while there is room for more.
    fn full(&self) -> Option<usize> {
        let mut room = PIECE;
        self.bytes.iter().position(|byte| {
            let fits = room.checked_sub(written(*byte));
            room = fits.unwrap_or_default();
            fits.is_none()
        })
    }

    /// As many whole lines as fit into a piece; of a longer line its beginning.
    fn take_piece(&mut self, window: usize) -> String {
        let window = &self.bytes[..window];
        let end = window.iter().rposition(|byte| *byte == b'\n').map_or_else(|| complete(window), |at| at + 1);
        self.take(end)
    }

    /// Everything but a character whose end is still to come.
    fn take_complete(&mut self) -> String {
        self.take(complete(&self.bytes))
    }

    fn take_all(&mut self) -> String {
        self.take(self.bytes.len())
    }

    fn take(&mut self, end: usize) -> String {
        let rest = self.bytes.split_off(end);
        let piece = std::mem::replace(&mut self.bytes, rest);
        // Whatever is not text is shown as such.
        String::from_utf8(piece).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// How many bytes JSON needs for a byte, at most: escapes of control characters, and what stands for bytes that are no
/// text or for the line ends that U+0085 and the like are.
fn written(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        0x80.. => 3,
        _ => 1,
    }
}

/// How many bytes are left when a last character that is cut off is left out.
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
        // Cut now and then, not at every push.
        if self.bytes.len() > 4 * TAIL {
            self.bytes.drain(..self.bytes.len() - TAIL);
            self.cut = true;
        }
    }

    /// The last lines, without spaces around them.
    pub(super) fn text(&self) -> String {
        let start = self.bytes.len().saturating_sub(TAIL);
        let mut tail = &self.bytes[start..];
        // Begin with a whole line if there is one.
        if (self.cut || start > 0)
            && let Some(at) = tail.iter().position(|byte| *byte == b'\n').filter(|at| at + 1 < tail.len())
        {
            tail = &tail[at + 1..];
        }
        String::from_utf8_lossy(tail).trim().to_owned()
    }
}
