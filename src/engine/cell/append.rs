//! Appending: a legal event gets its number and joins what the writer takes next.

use std::sync::{Arc, OnceLock};

use prost::Message as _;

use crate::agents::EmitError;
use crate::clock::{new_id, now_us};
use crate::schema::store::record::Event;
use crate::schema::store::{Created, TurnStarted};
use crate::schema::{Message, Part, Role, TaskState};
use crate::store::{ClaimKey, NewTask};
use crate::task::event::{Body, LogEvent};
use crate::task::lifecycle;

use super::{Head, Inner, TaskCell, UnsavedTask};

/// The seq of a task's first message: the record before it creates the task.
pub(in crate::engine) const FIRST_MESSAGE: u64 = 2;

impl TaskCell {
    /// Appends an event. See [`crate::agents::RunHandle::append`].
    pub(super) fn append(&self, inner: &mut Inner, event: Event) -> Result<u64, EmitError> {
        if inner.poisoned {
            return Err(EmitError::StoreLost);
        }
        if inner.head.is_none() {
            self.create(inner);
        }
        let Some(head) = inner.head else { return Err(EmitError::RunOver) };
        let event = self.complete(event)?;
        let transition = event.transition();
        let state = lifecycle::next(Some(head.state), transition).map_err(|illegal| match illegal {
            lifecycle::Illegal::Ended(state) => EmitError::Ended(state),
            other => EmitError::Illegal(other.to_string()),
        })?;
        // A task at its limits can still end.
        if !lifecycle::is_terminal(state) {
            self.handles.limits.check_task_size(head.seq, head.bytes, event.encoded_len())?;
        }
        let entered = matches!(transition, lifecycle::Transition::Status(_));
        let seq = self.push(inner, event, false);
        if let Some(head) = &mut inner.head {
            head.state = state;
            if entered {
                head.status_us = head.time_us;
                inner.pending.row = true;
                if let Some(run) = &mut inner.run {
                    run.asked = lifecycle::is_interrupted(state);
                    // What was not noticed belongs to the state before.
                    run.resumed = false;
                }
            }
        }
        Ok(seq)
    }

    /// Appends a message of the client and returns its seq. A task that waits for the client enters WORKING before it, in
    /// the same commit: nobody who reads the message sees its question as still open.
    pub(super) fn append_message(
        &self,
        inner: &mut Inner,
        message: Message,
        snapshot: bool,
        claim: Option<ClaimKey>,
    ) -> Result<u64, EmitError> {
        let Some(head) = inner.head else { return Err(EmitError::RunOver) };
        if inner.poisoned {
            return Err(EmitError::StoreLost);
        }
        if let Err(lifecycle::Illegal::Ended(state)) = lifecycle::next(Some(head.state), lifecycle::Transition::Message)
        {
            return Err(EmitError::Ended(state));
        }
        self.handles.limits.check_task_size(head.seq, head.bytes, message.encoded_len())?;
        inner.pending.claims.extend(claim);
        if lifecycle::is_interrupted(head.state) {
            self.push_answered(inner);
        }
        Ok(self.push(inner, Event::Message(message), snapshot))
    }

    fn push_answered(&self, inner: &mut Inner) {
        let working = TaskState::Working;
        self.push(inner, Event::status(working, None), false);
        if let Some(head) = &mut inner.head {
            head.state = working;
            head.status_us = head.time_us;
        }
        inner.pending.row = true;
        if let Some(run) = &mut inner.run {
            run.asked = false;
        }
    }

    /// Appends that a run begins with the message at `message_seq`, for a recovery that has to begin it again. It is accepted
    /// also by a task at its limits, as the message was.
    pub(super) fn append_turn(&self, inner: &mut Inner, message_seq: u64) {
        if !inner.poisoned {
            self.push(inner, Event::TurnStarted(TurnStarted { message_seq }), false);
        }
    }

    /// Creates the task: the first two records of its log, and its row.
    ///
    /// Does nothing once a run has answered with a message: no task may appear behind that.
    pub(super) fn create(&self, inner: &mut Inner) {
        if inner.reply.is_some() {
            return;
        }
        let Some(UnsavedTask { message, metadata, snapshot, claim }) = inner.unsaved.take() else { return };
        let now = now_us();
        let state = TaskState::Submitted;
        inner.head = Some(Head { state, seq: 0, time_us: now, status_us: now, bytes: 0 });
        inner.pending.new = Some(NewTask {
            id: self.identity.id,
            agent: Arc::clone(&self.identity.spec.name),
            owner: Arc::clone(&self.identity.owner),
            context: Arc::clone(&self.identity.ids.context),
            created_us: now,
        });
        inner.pending.claims.extend(claim);
        inner.pending.row = true;
        self.push(inner, Event::Created(Created { metadata }), false);
        self.push(inner, Event::Message(message), snapshot);
    }

    fn push(&self, inner: &mut Inner, event: Event, snapshot: bool) -> u64 {
        let Some(head) = &mut inner.head else { return 0 };
        head.seq += 1;
        head.time_us = head.time_us.max(now_us());
        let mut event = LogEvent::append(&self.identity.ids, head.seq, head.time_us, event, &mut inner.pending.batch);
        if snapshot && let Body::Message { snapshot, .. } = &mut event.body {
            *snapshot = Some(OnceLock::new());
        }
        head.bytes += event.size;
        inner.uncommitted += event.size;
        self.handles.limits.uncommitted_add(event.size);
        inner.pending.events.push(Arc::new(event));
        head.seq
    }

    /// Fills in what the agent left out, and refuses an event that no client could use.
    fn complete(&self, mut event: Event) -> Result<Event, EmitError> {
        match &mut event {
            Event::Status(status) => {
                if let Some(message) = &mut status.message {
                    self.complete_message(message)?;
                }
            }
            Event::Artifact(piece) => {
                let Some(artifact) = &mut piece.artifact else {
                    return Err(EmitError::Illegal("an artifact event without an artifact".into()));
                };
                if artifact.artifact_id.is_empty() {
                    return Err(EmitError::Illegal("an artifact without an id".into()));
                }
                parts_hold_content(&artifact.parts)?;
            }
            Event::Created(_) | Event::Message(_) | Event::Resumed(_) | Event::TurnStarted(_) => {}
        }
        Ok(event)
    }

    /// Gives a message of the agent its id, role, task and context, and checks that it has parts.
    pub(super) fn complete_message(&self, message: &mut Message) -> Result<(), EmitError> {
        if message.message_id.is_empty() {
            message.message_id = new_id().to_string();
        }
        message.role = Role::Agent.into();
        message.context_id = String::from(&*self.identity.ids.context);
        message.task_id = String::from(&*self.identity.ids.task);
        parts_hold_content(&message.parts)
    }
}

fn parts_hold_content(parts: &[Part]) -> Result<(), EmitError> {
    if parts.is_empty() {
        return Err(EmitError::Illegal("an artifact or message needs at least one part".into()));
    }
    if parts.iter().any(|part| part.content.is_none()) {
        return Err(EmitError::Illegal("a part needs a content: text, raw, url or data".into()));
    }
    Ok(())
}
