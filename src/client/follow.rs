//! Follows a task to its end, even if connections break.
//!
//! After a break it subscribes to the task again: after the last event if events have ids, otherwise from the current
//! state, which then arrives as a `task` event. If the task ended in the meantime, it is read, and its final state
//! arrives the same way. So a reader sees every change once, or a whole `task` that contains it.

use std::time::Duration;

use futures::StreamExt as _;
use tricord_bindings::client::{ClientError, Code, EventStream, StreamEvent};

use super::Client;
use crate::protocol::UNSUPPORTED_OPERATION;
use crate::schema::stream_response::Payload;
use crate::schema::{GetTaskRequest, StreamResponse, TaskState};
use crate::task::lifecycle::is_terminal;

/// The most attempts to reconnect without an event in between.
const ATTEMPTS: u32 = 8;
/// The wait before the second attempt. It doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest wait between attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The events of a message or a task.
#[derive(Debug)]
pub struct Follow {
    client: Client,
    events: Option<EventStream<StreamResponse>>,
    task: Option<String>,
    last_id: Option<String>,
    /// The id that was sent with the current subscription, until its first event arrives.
    resumed_at: Option<String>,
    /// Whether the first event of a subscription after a break is still to come.
    subscribed: bool,
    attempts: u32,
    /// The number of streams in a row that ended without a new event.
    quiet: u32,
    ends_at_interruption: bool,
    state: Option<TaskState>,
    ended: bool,
}

impl Follow {
    pub(super) fn of_message(client: Client, events: EventStream<StreamResponse>) -> Self {
        Self {
            client,
            events: Some(events),
            task: None,
            last_id: None,
            resumed_at: None,
            subscribed: false,
            attempts: 0,
            quiet: 0,
            ends_at_interruption: true,
            state: None,
            ended: false,
        }
    }

    pub(super) fn of_task(
        client: Client,
        task: String,
        last_id: Option<String>,
        events: EventStream<StreamResponse>,
    ) -> Self {
        Self { task: Some(task), last_id, ends_at_interruption: false, ..Self::of_message(client, events) }
    }

    /// Returns the task's id, once it is known.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Returns the last state that was reported.
    pub fn state(&self) -> Option<TaskState> {
        self.state
    }

    /// Returns the id of the last event, with which a later call can resume after it.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the next event, or `None` after the last one. Nothing follows an error.
    pub async fn next(&mut self) -> Option<Result<StreamResponse, ClientError>> {
        loop {
            let events = match (&mut self.events, self.ended) {
                (Some(events), _) => events,
                (None, true) => return None,
                (None, false) => match self.resume().await {
                    Ok(Some(end)) => return Some(Ok(end)),
                    Ok(None) => continue,
                    Err(error) => return Some(Err(error)),
                },
            };
            match events.next().await {
                Some(Ok(event)) => {
                    if let Some(message) = self.take(event) {
                        return Some(Ok(message));
                    }
                }
                // The server ended the stream before the task ended; it may be restarting.
                None if self.ended || self.task.is_none() => {
                    self.events = None;
                    self.ended = true;
                }
                None => {
                    self.events = None;
                    self.quiet = self.quiet.saturating_add(1);
                }
                Some(Err(error)) => {
                    self.events = None;
                    self.quiet = self.quiet.saturating_add(1);
                    if self.state.is_some_and(is_terminal) {
                        self.ended = true;
                        continue;
                    }
                    if self.ended || self.task.is_none() || !passes(&error) {
                        self.ended = true;
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    /// Records an event, and returns it unless it has nothing new.
    fn take(&mut self, event: StreamEvent<StreamResponse>) -> Option<StreamResponse> {
        self.attempts = 0;
        let resumed_at = self.resumed_at.take();
        // Every subscription begins with the task. Only later events, or a different state, are new.
        let before = self.state;
        let retold = std::mem::take(&mut self.subscribed);
        // The first event after a resumption is the task as of that id, which is already known.
        let known = resumed_at.is_some() && event.id == resumed_at;
        self.last_id = event.id.or_else(|| self.last_id.take());
        let state = match event.message.payload.as_ref() {
            Some(Payload::Task(task)) => {
                self.task = Some(task.id.clone());
                task.status.as_ref().map(|status| status.state())
            }
            Some(Payload::StatusUpdate(update)) => {
                self.task = Some(update.task_id.clone());
                update.status.as_ref().map(|status| status.state())
            }
            Some(Payload::ArtifactUpdate(update)) => {
                self.task = Some(update.task_id.clone());
                None
            }
            Some(Payload::Message(_)) => {
                self.ended = true;
                None
            }
            None => None,
        };
        if !retold || (state.is_some() && state != before) {
            self.quiet = 0;
        }
        if let Some(state) = state {
            self.state = Some(state);
            self.ended =
                is_terminal(state) || (self.ends_at_interruption && state == TaskState::InputRequired && !known);
        }
        Some(event.message).filter(|_| !known || self.ended)
    }

    /// Subscribes again. Returns the task if it has ended in the meantime.
    async fn resume(&mut self) -> Result<Option<StreamResponse>, ClientError> {
        let task = self.task.clone().unwrap_or_default();
        loop {
            // The first end of a stream may be a restart. A server that keeps ending streams is not asked again without
            // a pause.
            let waits = self.attempts.max(self.quiet.saturating_sub(1)).min(ATTEMPTS);
            if waits > 0 {
                tokio::time::sleep((FIRST_WAIT * 2_u32.pow(waits - 1)).min(LONGEST_WAIT)).await;
            }
            self.attempts += 1;
            let error = match self.client.subscribe(&task, self.last_id.as_deref()).await {
                Ok(events) => {
                    self.resumed_at = self.last_id.clone();
                    self.subscribed = true;
                    self.events = Some(events);
                    return Ok(None);
                }
                Err(error) => error,
            };
            let ended = error.server().is_some_and(is_unsupported);
            let read = if ended { self.read_end(&task).await } else { Err(error) };
            match read {
                Ok(end) => return Ok(Some(end)),
                Err(error) if passes(&error) && self.attempts < ATTEMPTS => {}
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }

    async fn read_end(&mut self, task: &str) -> Result<StreamResponse, ClientError> {
        let task = self.client.get_task(GetTaskRequest { id: task.to_owned(), ..GetTaskRequest::default() }).await?;
        self.ended = true;
        self.state = task.status.as_ref().map(|status| status.state());
        Ok(StreamResponse { payload: Some(Payload::Task(task)) })
    }
}

fn is_unsupported(error: &tricord_bindings::client::ServerError) -> bool {
    let code = error.code == Code::JsonRpc(i64::from(UNSUPPORTED_OPERATION.jsonrpc));
    code || error.reason.as_deref() == Some(UNSUPPORTED_OPERATION.reason)
}

/// Returns whether the error may go away by itself.
fn passes(error: &ClientError) -> bool {
    match error {
        ClientError::Broken(_) | ClientError::Unreachable { .. } => true,
        ClientError::Server(error) => {
            error.reason.as_deref() == Some("UNAVAILABLE")
                || matches!(error.code, Code::Grpc(code) if i32::from(code) == 14)
                || matches!(error.code, Code::Http(502..=504))
        }
        _ => false,
    }
}
