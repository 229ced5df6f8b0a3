//! A task as the fold of its log: the only way that a `Task` comes to be.

use crate::schema::stream_response::Payload;
use crate::schema::{Artifact, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus};
use tricord_bindings::wkt::Struct;

use super::event::{Body, Ids, LogEvent};

/// The fold of nothing: a task without a status, which the first record gives it.
pub(crate) fn empty(ids: &Ids) -> Task {
    Task { id: String::from(&*ids.task), context_id: String::from(&*ids.context), ..Task::default() }
}

/// Returns a task's state; unspecified before its first record.
pub(crate) fn state(task: &Task) -> TaskState {
    task.status.as_ref().map_or(TaskState::Unspecified, TaskStatus::state)
}

/// Folds one entry into the task.
pub(crate) fn apply(task: &mut Task, event: &LogEvent) {
    match &event.body {
        Body::Created { time, metadata } => {
            task.metadata.clone_from(metadata);
            let state = TaskState::Submitted.into();
            task.status = Some(TaskStatus { state, message: None, timestamp: Some(*time) });
        }
        Body::Message { message, .. } => {
            retire_status_message(task);
            task.history.push(message.as_ref().clone());
        }
        Body::RunStarted => {}
        Body::Update(update) => match &update.value().payload {
            Some(Payload::StatusUpdate(update)) => {
                retire_status_message(task);
                task.status.clone_from(&update.status);
            }
            Some(Payload::ArtifactUpdate(update)) => apply_artifact(task, update),
            Some(Payload::Task(_) | Payload::Message(_)) | None => {}
        },
    }
}

/// The message of a status that is replaced moves to history, and so does one that a new message answers: history
/// reads in the order in which things were said.
fn retire_status_message(task: &mut Task) {
    if let Some(message) = task.status.as_mut().and_then(|status| status.message.take()) {
        task.history.push(message);
    }
}

fn apply_artifact(task: &mut Task, update: &TaskArtifactUpdateEvent) {
    let Some(piece) = &update.artifact else { return };
    // From the end: pieces nearly always belong to the artifact that was begun last.
    match task.artifacts.iter_mut().rev().find(|a| a.artifact_id == piece.artifact_id) {
        Some(artifact) if update.append => extend(artifact, piece),
        Some(artifact) => artifact.clone_from(piece),
        None => task.artifacts.push(piece.clone()),
    }
}

fn extend(artifact: &mut Artifact, piece: &Artifact) {
    artifact.parts.extend_from_slice(&piece.parts);
    if !piece.name.is_empty() {
        artifact.name.clone_from(&piece.name);
    }
    if !piece.description.is_empty() {
        artifact.description.clone_from(&piece.description);
    }
    if let Some(metadata) = &piece.metadata {
        let news = metadata.fields.iter().map(|(key, value)| (key.clone(), value.clone()));
        artifact.metadata.get_or_insert_with(Struct::default).fields.extend(news);
    }
    for uri in &piece.extensions {
        if !artifact.extensions.contains(uri) {
            artifact.extensions.push(uri.clone());
        }
    }
}

/// Returns a copy of the task with only the newest `limit` messages of its history, or `None` if it has no more than those
/// (§3.2.4). What is left out is not copied.
pub(crate) fn limited(task: &Task, limit: Option<u32>) -> Option<Task> {
    let surplus = task.history.len().checked_sub(limit? as usize).filter(|surplus| *surplus > 0)?;
    Some(with_history(task, &task.history[surplus..]))
}

/// Returns a copy of the task without the newest message of its history, which is not copied.
pub(crate) fn without_newest(task: &Task) -> Task {
    let older = task.history.split_last().map_or(&[][..], |(_, older)| older);
    with_history(task, older)
}

fn with_history(task: &Task, history: &[Message]) -> Task {
    Task {
        id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: task.status.clone(),
        artifacts: task.artifacts.clone(),
        history: history.to_vec(),
        metadata: task.metadata.clone(),
    }
}
