//! What a message is about, for the log.

use std::any::Any;

use tricord_bindings::pipeline::Subject;

use crate::schema::send_message_response::Payload as Answer;
use crate::schema::stream_response::Payload as Event;
use crate::schema::{
    CancelTaskRequest, GetTaskRequest, Message, SendMessageRequest, SendMessageResponse, StreamResponse,
    SubscribeToTaskRequest, Task, TaskStatus,
};

/// Notes the task of a request, an answer or an event, and its state.
pub(super) fn describe(message: &dyn Any, subject: &mut Subject) {
    if let Some(task) = message.downcast_ref::<Task>() {
        of_task(task, subject);
    } else if let Some(response) = message.downcast_ref::<SendMessageResponse>() {
        match &response.payload {
            Some(Answer::Task(task)) => of_task(task, subject),
            Some(Answer::Message(message)) => of_message(message, subject),
            None => {}
        }
    } else if let Some(event) = message.downcast_ref::<StreamResponse>() {
        match &event.payload {
            Some(Event::Task(task)) => of_task(task, subject),
            Some(Event::Message(message)) => of_message(message, subject),
            Some(Event::StatusUpdate(update)) => of_status(&update.task_id, update.status.as_ref(), subject),
            Some(Event::ArtifactUpdate(_)) | None => {}
        }
    } else if let Some(request) = message.downcast_ref::<SendMessageRequest>() {
        if let Some(message) = &request.message {
            of_message(message, subject);
        }
    } else if let Some(request) = message.downcast_ref::<GetTaskRequest>() {
        set_task(&request.id, subject);
    } else if let Some(request) = message.downcast_ref::<CancelTaskRequest>() {
        set_task(&request.id, subject);
    } else if let Some(request) = message.downcast_ref::<SubscribeToTaskRequest>() {
        set_task(&request.id, subject);
    }
}

fn of_task(task: &Task, subject: &mut Subject) {
    of_status(&task.id, task.status.as_ref(), subject);
}

fn of_status(id: &str, status: Option<&TaskStatus>, subject: &mut Subject) {
    set_task(id, subject);
    if let Some(status) = status {
        subject.state = status.state().as_str_name();
    }
}

fn of_message(message: &Message, subject: &mut Subject) {
    set_task(&message.task_id, subject);
}

/// Sets the id, which a request may have made as long as its body.
fn set_task(id: &str, subject: &mut Subject) {
    if subject.task != id {
        subject.task = id.chars().take(64).collect();
    }
}
