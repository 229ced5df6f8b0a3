//! The run that owns a task: how it begins, and what its end, a cancel or a recovery means for the task.

use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tricord_bindings::budget::BudgetPermit;

use crate::agents::{EmitError, Turn, text_part};
use crate::schema::store::Resumed;
use crate::schema::store::record::Event;
use crate::schema::{Message, Part, TaskState};
use crate::store::ClaimKey;
use crate::task::lifecycle;

use super::super::error::EngineError;
use super::super::limits::Permit;
use super::append::FIRST_MESSAGE;
use super::turn::{FollowUp, LastTurn, Resumption, RunEnd, RunStart, StartedRun};
use super::{Inner, QueuedMessage, TaskCell, Watcher};

/// A run that owns the task.
pub(super) struct Run {
    pub(super) number: u32,
    /// The first run of the future that it belongs to.
    pub(super) first: u32,
    pub(super) cancelled: CancellationToken,
    pub(super) abort: Option<AbortHandle>,
    /// The run's future is being polled: its events go to the writer when the poll ends.
    pub(super) polling: bool,
    /// It entered a state in which the task waits for the client.
    pub(super) asked: bool,
    /// It answered with a message instead of a task.
    pub(super) replied: bool,
    /// Whether it was resumed from AUTH_REQUIRED and has not noticed yet.
    pub(super) resumed: bool,
}

impl TaskCell {
    /// Begins the first run of a task. Its message becomes the task when the agent says anything but a reply.
    pub(in crate::engine) fn begin(self: &Arc<Self>, start: RunStart, follows: bool) -> (Watcher, StartedRun) {
        let mut inner = self.lock();
        let watcher = Watcher::locked(self, &mut inner, follows);
        // The writer is told when the first poll of the run ends.
        (watcher, self.start_run(&mut inner, start))
    }

    /// Appends a follow-up message, for the live run or for a new one.
    ///
    /// # Errors
    /// When there is no task, it has ended, is at its limits or waits for recovery, or `permit` has none for a new run.
    pub(in crate::engine) fn follow_up(
        self: &Arc<Self>,
        message: Message,
        start: RunStart,
        streaming: bool,
        claim: Option<ClaimKey>,
        memory: BudgetPermit,
        permit: impl FnOnce() -> Result<Permit, EngineError>,
    ) -> Result<FollowUp, EngineError> {
        let mut inner = self.lock();
        // Nobody knows the id of a task that is not created yet.
        if inner.committed.seq() == 0 {
            return Err(EngineError::NotFound);
        }
        if inner.orphaned {
            return Err(EngineError::StoreUnavailable);
        }
        let permit = if inner.run.is_none() { Some(permit()?) } else { None };
        let seq = self.append_message(&mut inner, message, streaming, claim)?;
        inner.memory.merge(memory);
        let watcher = Watcher::locked(self, &mut inner, streaming);
        let mut wakers = Vec::new();
        let run = match permit {
            Some(permit) => {
                self.append_turn(&mut inner, seq);
                Some((self.start_run(&mut inner, start), permit))
            }
            None => {
                inner.incoming.push_back(QueuedMessage { seq, message: start.message });
                wakers = std::mem::take(&mut inner.agent_wakers);
                None
            }
        };
        self.unlock(inner);
        wakers.into_iter().for_each(std::task::Waker::wake);
        Ok(FollowUp { seq, watcher, run })
    }

    fn start_run(&self, inner: &mut Inner, start: RunStart) -> StartedRun {
        let started = self.own(inner, start, None);
        if !self.identity.spec.agent.may_reply() {
            self.create(inner);
        }
        inner.touch_row();
        started
    }

    /// Makes the next run the owner of the task. `before` is the run whose future goes on with it.
    fn own(&self, inner: &mut Inner, start: RunStart, before: Option<Run>) -> StartedRun {
        inner.runs += 1;
        let number = inner.runs;
        let cancelled = CancellationToken::new();
        let (first, abort) = before.map_or((number, None), |run| (run.first, run.abort));
        inner.run = Some(Run {
            number,
            first,
            cancelled: cancelled.clone(),
            abort,
            // What is appended before the first poll belongs to the same commit.
            polling: true,
            asked: false,
            replied: false,
            resumed: false,
        });
        let RunStart { message, attempt, begins_task, extensions, accepted_output_modes, metadata } = start;
        let turn = Arc::new(Turn {
            message,
            task_id: Arc::clone(&self.identity.ids.task),
            context_id: Arc::clone(&self.identity.ids.context),
            agent: Arc::clone(&self.identity.spec.name),
            owner: Arc::clone(&self.identity.owner),
            begins_task,
            attempt,
            extensions,
            accepted_output_modes,
            metadata,
            cancelled,
        });
        StartedRun { number, turn }
    }

    /// Keeps the handle that aborts the future which began with this run, or aborts it now if no run of it is live.
    pub(in crate::engine) fn keep_abort_handle(&self, first: u32, abort: AbortHandle) {
        match self.lock().run.as_mut().filter(|run| run.first == first) {
            Some(run) => run.abort = Some(abort),
            // It is over already, or was cancelled before there was a handle.
            None => abort.abort(),
        }
    }

    /// Says that a poll of the run's future begins or ends. The end of a poll gives what was appended to the writer.
    pub(in crate::engine) fn set_polling(self: &Arc<Self>, number: u32, polling: bool) {
        self.change(|inner| {
            if let Some(run) = inner.run.as_mut().filter(|run| run.number == number) {
                run.polling = polling;
            }
        });
    }

    /// Returns whether the task is created, committed or not.
    pub(in crate::engine) fn is_created(&self) -> bool {
        self.lock().head.is_some()
    }

    /// Creates the task if it is not created yet.
    pub(in crate::engine) fn ensure_created(self: &Arc<Self>) {
        self.change(|inner| self.create(inner));
    }

    /// Ends a run. Returns the next run, which the same future goes on with, if a message is left that no run has read.
    pub(in crate::engine) fn end_run(self: &Arc<Self>, ended: &StartedRun, end: RunEnd) -> Option<StartedRun> {
        let mut inner = self.lock();
        let cancelled = inner.run.as_ref().is_some_and(|run| run.cancelled.is_cancelled());
        let next = self.settle(&mut inner, ended, end);
        // Only a cancel waits for the end of a run. Others wait for what is committed.
        let wakers = if cancelled { inner.take_wakers() } else { Vec::new() };
        self.unlock(inner);
        wakers.into_iter().for_each(std::task::Waker::wake);
        next
    }

    fn settle(&self, inner: &mut Inner, ended: &StartedRun, end: RunEnd) -> Option<StartedRun> {
        let run = inner.run.take_if(|run| run.number == ended.number)?;
        if run.replied {
            return None;
        }
        // A run that ends without a task and without a reply owes the client a task.
        self.create(inner);
        inner.touch_row();
        if lifecycle::is_terminal(inner.head?.state) {
            return None;
        }
        let event = match end {
            _ if run.cancelled.is_cancelled() => Event::status(TaskState::Canceled, None),
            RunEnd::Panicked => self.failed("The agent failed unexpectedly."),
            // Not judged by the error: an agent may return one that it got from another task.
            _ if inner.poisoned => return None,
            RunEnd::Returned(Err(error)) => self.failed(error.public()),
            RunEnd::Returned(Ok(())) => match inner.incoming.pop_front() {
                Some(QueuedMessage { seq, message }) => {
                    // The row still says that a run owns the task, so it is not written.
                    self.append_turn(inner, seq);
                    let start = RunStart {
                        message,
                        attempt: 1,
                        begins_task: false,
                        extensions: ended.turn.extensions.clone(),
                        accepted_output_modes: ended.turn.accepted_output_modes.clone(),
                        metadata: None,
                    };
                    return Some(self.own(inner, start, Some(run)));
                }
                None if run.asked => return None,
                None => Event::status(TaskState::Completed, None),
            },
        };
        self.append_end(inner, event);
        None
    }

    /// Appends the terminal state of the task.
    fn append_end(&self, inner: &mut Inner, event: Event) {
        if let Err(error) = self.append(inner, event) {
            tracing::error!(%error, task = %self.identity.ids.task, "the terminal state of a task was refused");
        }
    }

    fn failed(&self, text: &str) -> Event {
        Event::status(TaskState::Failed, Some(self.agent_message(vec![text_part(text)])))
    }

    /// Makes a message of the agent about this task.
    fn agent_message(&self, parts: Vec<Part>) -> Message {
        let mut message = Message { parts, ..Message::default() };
        // It has parts, which is all that could be wrong.
        let _ = self.complete_message(&mut message);
        message
    }

    /// Returns the live run's number and what cancels it, or `Ok(None)` if no run is live.
    ///
    /// # Errors
    /// [`EngineError::Ended`] when the task has ended, which need not be committed yet.
    pub(in crate::engine) fn run_to_cancel(&self) -> Result<Option<(u32, CancellationToken)>, EngineError> {
        let inner = self.lock();
        if inner.poisoned {
            return Err(EngineError::StoreUnavailable);
        }
        match inner.head.ok_or(EngineError::NotFound)?.state {
            state if lifecycle::is_terminal(state) => Err(EngineError::Ended(state)),
            _ => Ok(inner.run.as_ref().map(|run| (run.number, run.cancelled.clone()))),
        }
    }

    /// Aborts the run that is still live, and ends the task in CANCELED.
    ///
    /// # Errors
    /// [`EmitError::Ended`] when the task has ended already.
    pub(in crate::engine) fn end_canceled(self: &Arc<Self>) -> Result<(), EmitError> {
        let (result, abort) = self.change(|inner| {
            let abort = inner.run.take().and_then(|run| {
                // A run that began since the cancel was not told yet.
                run.cancelled.cancel();
                run.abort
            });
            inner.touch_row();
            (self.append(inner, Event::status(TaskState::Canceled, None)), abort)
        });
        if let Some(abort) = abort {
            abort.abort();
        }
        result.map(drop)
    }

    /// Resumes a task that waits in AUTH_REQUIRED. Returns whether a run was told; without a live one, the caller has to
    /// begin the last turn again with [`rerun`](Self::rerun).
    ///
    /// # Errors
    /// When there is no task, the store failed, or the task waits for recovery.
    pub(in crate::engine) fn resume(&self) -> Result<(Resumption, bool), EngineError> {
        let mut inner = self.lock();
        if inner.poisoned || inner.orphaned {
            return Err(EngineError::StoreUnavailable);
        }
        let state = inner.head.ok_or(EngineError::NotFound)?.state;
        if state != TaskState::AuthRequired {
            return Ok((Resumption::NotWaiting(state), true));
        }
        let Some(run) = &mut inner.run else { return Ok((Resumption::Resumed, false)) };
        run.resumed = true;
        let wakers = std::mem::take(&mut inner.agent_wakers);
        drop(inner);
        wakers.into_iter().for_each(std::task::Waker::wake);
        Ok((Resumption::Resumed, true))
    }

    /// Begins the last turn of a task in AUTH_REQUIRED again, on an operator's word. Returns `None` if the task went on
    /// meanwhile, or is as large as it may be.
    pub(in crate::engine) fn rerun(self: &Arc<Self>, turn: LastTurn) -> Option<StartedRun> {
        self.change(|inner| {
            let waits = inner.run.is_none() && inner.head?.state == TaskState::AuthRequired;
            if waits { self.run_again(inner, turn, 1) } else { None }
        })
    }

    /// Recovers a task that no run owns any more: leaves it if it waits for the client, begins its last turn again if it
    /// `resumes`, or fails it.
    ///
    /// `live` says whether a run owned it.
    pub(in crate::engine) fn recover(
        self: &Arc<Self>,
        live: bool,
        turn: Option<LastTurn>,
        resumes: bool,
    ) -> Option<StartedRun> {
        self.change(|inner| {
            let state = inner.head?.state;
            inner.orphaned = false;
            // A new run has taken the task up already.
            if inner.run.is_some() {
                return None;
            }
            let unread = turn.as_ref().is_some_and(|turn| !turn.queued.is_empty());
            let waits = lifecycle::is_interrupted(state) && (!live || (state == TaskState::InputRequired && !unread));
            if lifecycle::is_terminal(state) || waits {
                // Only the end of its run was not written.
                inner.touch_row();
                return None;
            }
            let resumed = turn.filter(|_| resumes).and_then(|turn| {
                let attempt = turn.attempts + 1;
                self.run_again(inner, turn, attempt)
            });
            if resumed.is_none() {
                let event = self.failed("The server stopped while the task was under way.");
                self.append_end(inner, event);
            }
            resumed
        })
    }

    /// Begins a turn again, with its own message; those behind it are unread again. Returns `None` if the task is as large
    /// as it may be.
    fn run_again(&self, inner: &mut Inner, turn: LastTurn, attempt: u32) -> Option<StartedRun> {
        let LastTurn { message: QueuedMessage { seq, message }, queued, .. } = turn;
        let start = RunStart {
            message,
            attempt,
            begins_task: seq == FIRST_MESSAGE,
            extensions: Vec::new(),
            accepted_output_modes: Vec::new(),
            metadata: inner.committed.value().metadata.clone(),
        };
        self.append(inner, Event::Resumed(Resumed { attempt })).ok()?;
        inner.incoming = queued;
        Some(self.start_run(inner, start))
    }
}
