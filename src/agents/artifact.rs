//! Writes an artifact piece by piece. The cost of a piece does not depend on the size of the artifact.

use crate::schema::part::Content;
use crate::schema::store::ArtifactPiece;
use crate::schema::store::record::Event;
use crate::schema::{Artifact, Part};

use super::task_context::text_part;
use super::{AgentError, TaskContext};

/// Writes one artifact, piece by piece.
///
/// The last piece is held back until the next one or [`finish`](Self::finish), so that it can carry `lastChunk`. A writer
/// that is dropped sends it without `lastChunk`.
#[derive(Debug)]
pub struct ArtifactWriter {
    task: TaskContext,
    id: String,
    name: String,
    begun: bool,
    held: Option<Part>,
    /// Whether the held part is the rest of a text that was already sent; the next text is added to it.
    rest: bool,
}

impl ArtifactWriter {
    pub(super) fn new(task: TaskContext, id: String, name: String) -> Self {
        Self { task, id, name, begun: false, held: None, rest: false }
    }

    /// Returns the artifact's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Adds a piece of text. An empty text is ignored.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn text(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        let text = text.into();
        if text.is_empty() {
            return Ok(());
        }
        if self.rest
            && let Some(Content::Text(held)) = self.held.as_mut().and_then(|part| part.content.as_mut())
        {
            self.rest = false;
            held.push_str(&text);
            return Ok(());
        }
        self.part(text_part(text)).await
    }

    /// Sends the held text except its last character, which stays to carry `lastChunk`. Call it when the next piece may
    /// take long.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn flush(&mut self) -> Result<(), AgentError> {
        let Some(Content::Text(held)) = self.held.as_mut().and_then(|part| part.content.as_mut()) else {
            return Ok(());
        };
        let Some((at, _)) = held.char_indices().next_back().filter(|(at, _)| *at > 0) else { return Ok(()) };
        let last = held.split_off(at);
        let sent = text_part(std::mem::replace(held, last));
        self.rest = true;
        let piece = self.piece(sent, false);
        self.task.emit(piece).await
    }

    /// Adds a part as a piece.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn part(&mut self, part: Part) -> Result<(), AgentError> {
        self.rest = false;
        match self.held.replace(part) {
            None => Ok(()),
            Some(before) => {
                let piece = self.piece(before, false);
                self.task.emit(piece).await
            }
        }
    }

    /// Sends the last piece with `lastChunk`. An artifact without a piece does not appear.
    ///
    /// # Errors
    /// When the task has ended or the store failed.
    pub async fn finish(mut self) -> Result<(), AgentError> {
        match self.held.take() {
            None => Ok(()),
            Some(last) => {
                let piece = self.piece(last, true);
                self.task.emit(piece).await
            }
        }
    }

    fn piece(&mut self, part: Part, last_chunk: bool) -> Event {
        let append = std::mem::replace(&mut self.begun, true);
        let mut artifact = Artifact { artifact_id: self.id.clone(), parts: vec![part], ..Artifact::default() };
        if !append {
            artifact.name.clone_from(&self.name);
        }
        Event::Artifact(ArtifactPiece { artifact: Some(artifact), append, last_chunk, metadata: None })
    }
}

impl Drop for ArtifactWriter {
    fn drop(&mut self) {
        if let Some(part) = self.held.take() {
            let piece = self.piece(part, false);
            // Refused only if the task has ended or the store has failed. There is no caller to tell.
            let _ = self.task.emit_now(piece);
        }
    }
}
