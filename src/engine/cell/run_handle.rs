//! What an agent's [`TaskContext`] stands on: the cell, as long as its run owns the task.

use std::sync::Arc;
use std::task::{Context, Poll};

use tricord_bindings::Encoded;

use crate::agents::{EmitError, RunHandle, TaskContext};
use crate::clock::new_id;
use crate::schema::store::record::Event;
use crate::schema::stream_response::Payload;
use crate::schema::{Message, Part, StreamResponse, Task};
use crate::task::{fold, lifecycle};

use super::run::Run;
use super::{Inner, StartedRun, TaskCell};

/// A run's way into its cell.
struct CellRun {
    cell: Arc<TaskCell>,
    number: u32,
}

impl TaskCell {
    /// Makes the context that the agent gets for a run.
    pub(in crate::engine) fn context(self: &Arc<Self>, run: &StartedRun) -> TaskContext {
        let handle = Arc::new(CellRun { cell: Arc::clone(self), number: run.number });
        TaskContext::new(handle, Arc::clone(&run.turn))
    }

    /// Looks once under the lock; if `look` finds nothing, remembers the agent's waker until the next change.
    fn poll_agent<R>(&self, cx: &Context<'_>, look: impl FnOnce(&mut Inner) -> Option<R>) -> Poll<R> {
        let mut inner = self.lock();
        if let Some(found) = look(&mut inner) {
            return Poll::Ready(found);
        }
        if !inner.agent_wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.agent_wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Inner {
    /// Returns the messages so far, appended ones included.
    fn history(&self) -> Vec<Message> {
        let mut task = Task { history: self.committed.value().history.clone(), ..Task::default() };
        task.status = self.committed.value().status.clone();
        if let Some(unsaved) = &self.unsaved {
            task.history.push(unsaved.message.clone());
        }
        for event in self.committing.iter().chain(&self.pending.events) {
            if !matches!(event.update().map(|update| &update.value().payload), Some(Some(Payload::ArtifactUpdate(_)))) {
                fold::apply(&mut task, event);
            }
        }
        task.history
    }

    /// Returns the live run with this number.
    fn run(&mut self, number: u32) -> Result<&mut Run, EmitError> {
        if self.poisoned {
            return Err(EmitError::StoreLost);
        }
        match &mut self.run {
            Some(run) if run.number == number && !run.replied => Ok(run),
            _ => match self.head {
                Some(head) if lifecycle::is_terminal(head.state) => Err(EmitError::Ended(head.state)),
                _ => Err(EmitError::RunOver),
            },
        }
    }
}

impl RunHandle for CellRun {
    fn append(&self, event: Event) -> Result<u64, EmitError> {
        self.cell.change(|inner| {
            inner.run(self.number)?;
            self.cell.append(inner, event)
        })
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let limits = &self.cell.handles.limits;
        self.cell.poll_agent(cx, |inner| {
            // Where all tasks together are over the limit, a run waits until its own events are committed, and no longer.
            let room = if limits.has_room() { limits.run_has_room(inner.uncommitted) } else { inner.is_settled() };
            (room || inner.poisoned).then_some(())
        })
    }

    fn poll_committed(&self, seq: u64, cx: &mut Context<'_>) -> Poll<Result<(), EmitError>> {
        self.cell.poll_agent(cx, |inner| match inner.poisoned {
            true => Some(Err(EmitError::StoreLost)),
            false => (inner.committed.seq() >= seq).then_some(Ok(())),
        })
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
        self.cell.poll_agent(cx, |inner| match inner.run(self.number) {
            Ok(_) => inner.incoming.pop_front().map(|queued| queued.message),
            Err(_) => None,
        })
    }

    fn poll_incoming_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.cell.poll_agent(cx, |inner| (!inner.incoming.is_empty()).then_some(()))
    }

    fn poll_resumed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.cell.poll_agent(cx, |inner| {
            let run = inner.run(self.number).ok()?;
            std::mem::take(&mut run.resumed).then_some(())
        })
    }

    fn history(&self) -> Vec<Message> {
        self.cell.lock().history()
    }

    fn fresh_id(&self) -> String {
        new_id().to_string()
    }
}
