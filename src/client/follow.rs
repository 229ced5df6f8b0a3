//! Following a task to its end over connections that break.
//!
//! After a break the task is subscribed to again: after the last event that was seen where events have ids, else from its
//! present state, which then arrives as a `task` event. A task that ended meanwhile is read, and its end arrives the same
//! way. So whoever reads the events sees every change once, or a whole `task` that holds it.

use std::time::Duration;

use futures::StreamExt as _;
use tricord_bindings::client::{ClientError, Code, EventStream, StreamEvent};

use super::Client;
use crate::protocol::UNSUPPORTED_OPERATION;
use crate::schema::stream_response::Payload;
use crate::schema::{GetTaskRequest, StreamResponse, TaskState};
use crate::task::lifecycle::is_terminal;

/// Attempts to connect again without an event in between.
const ATTEMPTS: u32 = 8;
/// The wait before the second attempt; it doubles with each.
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
    /// The id that was sent with the subscription whose first event has not come yet.
    resumed_at: Option<String>,
    /// The first event of a subscription after a break has not come yet.
    subscribed: bool,
    attempts: u32,
    /// Streams in a row that ended and told nothing new.
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

    /// The task, once it is known.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// The last state that was told.
    pub fn state(&self) -> Option<TaskState> {
        self.state
    }

    /// The id of the last event, to go on after it later.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The next event; `None` after the last one. After an error nothing more comes.
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
                // A stream that ends before its task does was cut by the server, which may be restarting.
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

    /// Takes note of an event; gives it on unless it says nothing new.
    fn take(&mut self, event: StreamEvent<StreamResponse>) -> Option<StreamResponse> {
        self.attempts = 0;
        let resumed_at = self.resumed_at.take();
        // Every subscription begins with the task; only what follows, or another state, is news.
        let before = self.state;
        let retold = std::mem::take(&mut self.subscribed);
        // The first event after a resumption is the task as it was at the id; that much is known already.
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

    /// Subscribes again; gives the task where it has ended meanwhile.
    async fn resume(&mut self) -> Result<Option<StreamResponse>, ClientError> {
        let task = self.task.clone().unwrap_or_default();
        loop {
            // A server that ends streams of its own accord is not asked without a pause: the first time may be a restart.
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

/// Whether it may go away by itself.
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
