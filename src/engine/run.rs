//! Runs: an agent's future, polled so that what it emits in one poll is one commit, and what its end means for the task.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tricord_bindings::Encoded;
use tricord_bindings::wkt::Struct;

use crate::agents::{AgentError, EmitError, RunFuture, RunHandle, TaskContext, Turn, text_part};
use crate::clock::new_id;
use crate::schema::store::record::Event;
use crate::schema::stream_response::Payload;
use crate::schema::{Message, Part, StreamResponse, TaskState};
use crate::task::lifecycle;

use super::TaskCell;
use super::cell::{Inner, Run};
use super::limits::Permit;

/// A run that has said nothing by then gets its task made, so that clients have something to hold on to.
const CREATE_AFTER: Duration = Duration::from_millis(250);

/// What a run begins with.
pub(super) struct RunStart {
    pub(super) message: Arc<Message>,
    pub(super) attempt: u32,
    pub(super) begins_task: bool,
    pub(super) extensions: Vec<String>,
    pub(super) accepted_output_modes: Vec<String>,
    pub(super) metadata: Option<Struct>,
}

/// Makes a run the owner of the task, under the lock that appended its message. The caller spawns what it returns.
pub(super) fn begin(cell: &Arc<TaskCell>, inner: &mut Inner, start: RunStart, permit: Permit) -> RunTask {
    let turn = own(cell, inner, start, None);
    let may_reply = inner.head.is_none() && cell.spec.agent.may_reply();
    if !may_reply {
        cell.create(inner);
    }
    cell.touch_row(inner);
    let host = Arc::new(CellRun { cell: Arc::clone(cell), number: inner.runs });
    let running = cell.spec.agent.run(TaskContext::new(host, Arc::clone(&turn)));
    let create_at = may_reply.then(|| Box::pin(tokio::time::sleep(CREATE_AFTER)));
    let number = inner.runs;
    RunTask { cell: Arc::clone(cell), first: number, number, turn, running, create_at, permit: Some(permit) }
}

/// Spawns a run that [`begin`] made, and leaves the handle that can cut it off with the cell.
pub(super) fn spawn(task: RunTask) {
    let (cell, first) = (Arc::clone(&task.cell), task.first);
    let abort = tokio::spawn(task).abort_handle();
    let mut inner = cell.lock();
    match inner.run.as_mut().filter(|run| run.first == first) {
        Some(run) => run.abort = Some(abort),
        // It is over already, or was cut off before there was a handle to do it with.
        None => abort.abort(),
    }
}

/// Makes the next run the owner of the task; `before` is the one whose future goes on with it.
fn own(cell: &TaskCell, inner: &mut Inner, start: RunStart, before: Option<Run>) -> Arc<Turn> {
    inner.runs += 1;
    let cancelled = CancellationToken::new();
    let (first, abort) = before.map_or((inner.runs, None), |run| (run.first, run.abort));
    inner.run = Some(Run {
        number: inner.runs,
        first,
        cancelled: cancelled.clone(),
        abort,
        // Until the first poll is over: what is appended before belongs to the same commit.
        polling: true,
        asked: false,
        replied: false,
        resumed: false,
    });
    let RunStart { message, attempt, begins_task, extensions, accepted_output_modes, metadata } = start;
    Arc::new(Turn {
        message,
        task_id: Arc::clone(&cell.ids.task),
        context_id: Arc::clone(&cell.ids.context),
        agent: Arc::clone(&cell.spec.name),
        owner: Arc::clone(&cell.owner),
        begins_task,
        attempt,
        extensions,
        accepted_output_modes,
        metadata,
        cancelled,
    })
}

/// A run under way.
pub(super) struct RunTask {
    cell: Arc<TaskCell>,
    /// The run that it began with, and the one that it is at.
    first: u32,
    number: u32,
    turn: Arc<Turn>,
    running: RunFuture,
    create_at: Option<Pin<Box<Sleep>>>,
    /// `None` only while it is being dropped.
    permit: Option<Permit>,
}

/// How a run ended.
enum End {
    Returned(Result<(), AgentError>),
    Panicked(Box<dyn Any + Send>),
}

impl Future for RunTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            this.set_polling(true);
            let end = match catch_unwind(AssertUnwindSafe(|| this.running.as_mut().poll(cx))) {
                Ok(Poll::Ready(result)) => End::Returned(result),
                Err(panic) => End::Panicked(panic),
                Ok(Poll::Pending) => {
                    this.create_if_due(cx);
                    this.set_polling(false);
                    return Poll::Pending;
                }
            };
            if matches!(this.end(end), Next::Over) {
                return Poll::Ready(());
            }
        }
    }
}

impl RunTask {
    fn set_polling(&self, polling: bool) {
        self.cell.change(|inner| {
            if let Some(run) = inner.run.as_mut().filter(|run| run.number == self.number) {
                run.polling = polling;
            }
        });
    }

    fn create_if_due(&mut self, cx: &mut Context<'_>) {
        if let Some(timer) = &mut self.create_at
            && (self.cell.lock().head.is_some() || timer.as_mut().poll(cx).is_ready())
        {
            self.create_at = None;
            self.cell.change(|inner| self.cell.create(inner));
        }
    }

    /// Says what the end of the run means for the task, and begins the next run if there is one.
    fn end(&mut self, end: End) -> Next {
        if let End::Panicked(panic) = &end {
            let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
            tracing::error!(task = %self.cell.ids.task, agent = %self.cell.spec.name, panic = text, "an agent panicked");
        }
        // That a task which was cancelled takes no more is no news.
        if let End::Returned(Err(error)) = &end
            && !matches!(error.refusal(), Some(EmitError::Ended(_) | EmitError::RunOver))
        {
            let source = std::error::Error::source(error);
            // As a quoted string: what a command complains about must not look like lines of this log.
            let error = error.public();
            tracing::warn!(task = %self.cell.ids.task, agent = %self.cell.spec.name, error, source, "a run failed");
        }
        let cell = Arc::clone(&self.cell);
        let next = cell.change(|inner| self.settle(inner, end));
        match &next {
            Next::Over => cell.wake_all(),
            Next::Run(number, turn) => {
                (self.number, self.turn) = (*number, Arc::clone(turn));
                let host = Arc::new(CellRun { cell: Arc::clone(&cell), number: self.number });
                self.running = cell.spec.agent.run(TaskContext::new(host, Arc::clone(&self.turn)));
            }
        }
        next
    }

    fn settle(&self, inner: &mut Inner, end: End) -> Next {
        let Some(run) = inner.run.take_if(|run| run.number == self.number) else { return Next::Over };
        if run.replied {
            return Next::Over;
        }
        // No task yet: whatever ended, the client is owed one.
        self.cell.create(inner);
        self.cell.touch_row(inner);
        let Some(head) = inner.head else { return Next::Over };
        if lifecycle::is_terminal(head.state) {
            return Next::Over;
        }
        let event = match end {
            _ if run.cancelled.is_cancelled() => Event::status(TaskState::Canceled, None),
            End::Panicked(_) => self.failed("The agent failed unexpectedly."),
            End::Returned(Err(error)) if error.refusal() == Some(&EmitError::StoreLost) => return Next::Over,
            End::Returned(Err(error)) => self.failed(error.public()),
            End::Returned(Ok(())) => match inner.incoming.pop_front() {
                Some(message) => {
                    // The same future goes on with the next run: the row still says that one owns the task.
                    let start = RunStart {
                        message,
                        attempt: 1,
                        begins_task: false,
                        extensions: self.turn.extensions.clone(),
                        accepted_output_modes: self.turn.accepted_output_modes.clone(),
                        metadata: None,
                    };
                    let turn = own(&self.cell, inner, start, Some(run));
                    return Next::Run(inner.runs, turn);
                }
                None if run.asked => return Next::Over,
                None => Event::status(TaskState::Completed, None),
            },
        };
        if let Err(error) = self.cell.append(inner, event) {
            tracing::error!(%error, task = %self.cell.ids.task, "the end of a run was refused");
        }
        Next::Over
    }

    fn failed(&self, text: &str) -> Event {
        Event::status(TaskState::Failed, Some(agent_message(&self.cell, vec![text_part(text)])))
    }
}

/// What follows a run.
enum Next {
    Over,
    /// The next run, by its number, and what it is about.
    Run(u32, Arc<Turn>),
}

impl Drop for RunTask {
    fn drop(&mut self) {
        // Given back first: whoever is woken counts the runs that are left.
        drop(self.permit.take());
        self.cell.shared.settled.notify_waiters();
    }
}

/// A message of ours about this task.
pub(super) fn agent_message(cell: &TaskCell, parts: Vec<Part>) -> Message {
    let mut message = Message { parts, ..Message::default() };
    // It has a part, so there is nothing to refuse.
    let _ = cell.complete_message(&mut message);
    message
}

/// What an agent's [`TaskContext`] stands on: the cell, as long as this run owns it.
struct CellRun {
    cell: Arc<TaskCell>,
    number: u32,
}

impl RunHandle for CellRun {
    fn append(&self, event: Event) -> Result<u64, EmitError> {
        self.cell.change(|inner| {
            inner.run(self.number)?;
            self.cell.append(inner, event)
        })
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let limits = &self.cell.shared.limits;
        let mut inner = self.cell.lock();
        // Where the whole server is behind, a run waits until its own events are committed, and no longer.
        let room = if limits.has_room() { limits.run_has_room(inner.uncommitted) } else { inner.is_settled() };
        if room || inner.poisoned {
            return Poll::Ready(());
        }
        inner.park_agent(cx);
        Poll::Pending
    }

    fn poll_committed(&self, seq: u64, cx: &mut Context<'_>) -> Poll<Result<(), EmitError>> {
        let mut inner = self.cell.lock();
        if inner.poisoned {
            return Poll::Ready(Err(EmitError::StoreLost));
        }
        if inner.committed.seq >= seq {
            return Poll::Ready(Ok(()));
        }
        inner.park_agent(cx);
        Poll::Pending
    }

    fn head(&self) -> u64 {
        self.cell.lock().head.map_or(0, |head| head.seq)
    }

    fn reply(&self, parts: Vec<Part>) -> Result<Option<Vec<Part>>, EmitError> {
        let refused = self.cell.change(|inner| {
            inner.run(self.number)?;
            if inner.head.is_some() {
                return Ok(Some(parts));
            }
            let mut message = Message { parts, ..Message::default() };
            self.cell.complete_message(&mut message)?;
            message.task_id.clear();
            inner.run(self.number)?.replied = true;
            inner.reply = Some(Arc::new(Encoded::new(StreamResponse::from(Payload::Message(message)))));
            Ok(None)
        })?;
        if refused.is_none() {
            self.cell.wake_all();
        }
        Ok(refused)
    }

    fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<Arc<Message>> {
        let mut inner = self.cell.lock();
        if inner.run(self.number).is_ok()
            && let Some(message) = inner.incoming.pop_front()
        {
            return Poll::Ready(message);
        }
        inner.park_agent(cx);
        Poll::Pending
    }

    fn poll_incoming_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.cell.lock();
        if !inner.incoming.is_empty() {
            return Poll::Ready(());
        }
        inner.park_agent(cx);
        Poll::Pending
    }

    fn poll_resumed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.cell.lock();
        if let Ok(run) = inner.run(self.number)
            && std::mem::take(&mut run.resumed)
        {
            return Poll::Ready(());
        }
        inner.park_agent(cx);
        Poll::Pending
    }

    fn history(&self) -> Vec<Message> {
        self.cell.lock().history()
    }

    fn fresh_id(&self) -> String {
        new_id().to_string()
    }
}
