//! Streams: a cursor in the committed log of a task. Nobody waits for a slow reader, and no event is missed or repeated.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::future::BoxFuture;
use tricord_bindings::budget::BudgetPermit;
use tricord_bindings::{Encoded, EventId, Reply};

use crate::schema::{StreamResponse, Task, TaskState};
use crate::task::cursor::{self, Start};
use crate::task::event::{Body, LogEvent};
use crate::task::lifecycle;

use super::cell::{TaskCell, View, Watcher};
use super::error::EngineError;
use super::limits::Permit;
use super::load::Tasks;

/// The events of a task, from a point on.
pub struct TaskStream {
    tasks: Arc<Tasks>,
    watcher: Watcher,
    /// The seq of the last event that was yielded or skipped.
    cursor: u64,
    first: First,
    /// Whether it began with a message of its client (SendStreamingMessage), rather than as a subscription.
    of_message: bool,
    history: Option<u32>,
    /// Events taken from the cell, or read from the store by a reader that fell behind or began in the past.
    backlog: VecDeque<Arc<LogEvent>>,
    reading: Option<BoxFuture<'static, Result<Past, EngineError>>>,
    /// The memory of a backlog that was read from the store.
    replay: Option<BudgetPermit>,
    over: bool,
    _permit: Permit,
}

/// What is read from the store.
enum Past {
    /// The task to begin with, folded at the stream's own message.
    First(Arc<Encoded<Task>>),
    /// The next events, not necessarily all.
    Events(VecDeque<Arc<LogEvent>>, BudgetPermit),
}

/// The first event, which is a task.
enum First {
    /// The task folded at the stream's own message, once that is committed.
    Own(u64),
    /// The task as it was when the stream was opened.
    Ready(Arc<Encoded<Task>>),
    /// It was yielded.
    Done,
}

impl TaskStream {
    /// Streams from a message on: the task folded at the message, then every later event.
    pub(super) fn of_message(
        tasks: &Arc<Tasks>,
        watcher: Watcher,
        seq: u64,
        history: Option<u32>,
        permit: Permit,
    ) -> Self {
        let (tasks, backlog) = (Arc::clone(tasks), VecDeque::new());
        let (cursor, first) = (seq - 1, First::Own(seq));
        Self {
            tasks,
            watcher,
            cursor,
            first,
            of_message: true,
            history,
            backlog,
            reading: None,
            replay: None,
            over: false,
            _permit: permit,
        }
    }

    /// Streams a task until it has ended: the task as it is (or was at `cursor`, a client's `Last-Event-ID`), then every
    /// later event.
    pub(super) async fn subscribe(
        tasks: &Arc<Tasks>,
        cell: &Arc<TaskCell>,
        cursor: Option<&str>,
        history: Option<u32>,
        permit: Permit,
    ) -> Result<Self, EngineError> {
        let generation = tasks.store.generation();
        let watcher = Watcher::new(cell, true);
        // The watcher keeps every event that is committed after this look.
        let (head, state, mut task) = cell.look(|view| (view.seq(), view.state(), view.task()));
        if head == 0 {
            return Err(EngineError::NotFound);
        }
        // A cursor that names no event still asks for what there is, unless it is the very end.
        let is_head = |cursor: &str| cursor.trim().parse() == Ok(EventId { generation, seq: head });
        if lifecycle::is_terminal(state) && cursor.is_none_or(is_head) {
            return Err(EngineError::Ended(state));
        }
        let mut from = head;
        if let Start::At(seq) = cursor::start(cursor, generation, head)
            && let Some(past) = tasks.task_at(cell, seq).await?
        {
            (task, from) = (past, seq);
        }
        let (tasks, backlog, first) = (Arc::clone(tasks), VecDeque::new(), First::Ready(task));
        Ok(Self {
            tasks,
            watcher,
            cursor: from,
            first,
            of_message: false,
            history,
            backlog,
            reading: None,
            replay: None,
            over: false,
            _permit: permit,
        })
    }

    fn id(&self, seq: u64) -> EventId {
        EventId { generation: self.tasks.store.generation(), seq }
    }

    /// Makes the first event, with as much of the history as the client wants. A client that has just sent a message and
    /// says nothing of the history does not get that message back.
    fn first(&self, seq: u64, task: &Arc<Encoded<Task>>) -> Result<Reply<StreamResponse>, EngineError> {
        let limits = &self.tasks.handles.limits;
        let limited = match self.history {
            None if self.of_message => limits.without_newest(task),
            history => limits.limited(task, history),
        }?;
        Ok(Reply::wrapped(limited, Some(self.id(seq))))
    }

    /// Returns whether the stream ends with an event that enters this state: the stream of a message also when the client
    /// has to act, a subscription only when the task has ended.
    fn ends_on(&self, state: TaskState) -> bool {
        lifecycle::is_terminal(state) || (self.of_message && state == TaskState::InputRequired)
    }

    /// Moves past an event. Returns what it is for this reader, if anything.
    fn take(&mut self, event: &Arc<LogEvent>) -> Option<Result<Reply<StreamResponse>, EngineError>> {
        self.cursor = event.seq;
        if matches!(self.first, First::Own(seq) if seq == event.seq) {
            self.first = First::Done;
            return self.own_snapshot(event);
        }
        if let Some(state) = event.state() {
            self.over = self.ends_on(state);
        }
        event.update().map(|update| Ok(Reply::event(Arc::clone(update), self.id(event.seq))))
    }

    /// Makes the first event of a message's stream, from the record of the message.
    fn own_snapshot(&self, event: &LogEvent) -> Option<Result<Reply<StreamResponse>, EngineError>> {
        let Body::Message { snapshot: Some(snapshot), .. } = &event.body else { return None };
        snapshot.get().map(|task| self.first(event.seq, task))
    }
}

impl Stream for TaskStream {
    type Item = Result<Reply<StreamResponse>, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.over {
                return Poll::Ready(None);
            }
            if let First::Ready(task) = &this.first {
                let reply = this.first(this.cursor, task);
                this.first = First::Done;
                this.over |= reply.is_err();
                return Poll::Ready(Some(reply));
            }
            if this.backlog.is_empty() {
                this.replay = None;
            }
            if let Some(event) = this.backlog.pop_front() {
                match this.take(&event) {
                    Some(reply) => {
                        this.over |= reply.is_err();
                        return Poll::Ready(Some(reply));
                    }
                    None => continue,
                }
            }
            if let Some(reading) = &mut this.reading {
                let read = ready!(reading.as_mut().poll(cx));
                this.reading = None;
                match read {
                    // Committed, but not readable: asking again would never end.
                    Ok(Past::Events(events, _)) if events.is_empty() => {
                        this.over = true;
                        return Poll::Ready(Some(Err(EngineError::StoreUnavailable)));
                    }
                    Ok(Past::Events(events, permit)) => {
                        this.backlog = events;
                        this.replay = Some(permit);
                    }
                    Ok(Past::First(task)) => {
                        this.cursor += 1;
                        this.first = First::Ready(task);
                    }
                    Err(error) => {
                        this.over = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                continue;
            }
            if let Some(polled) = this.poll_live(cx) {
                return polled;
            }
        }
    }
}

/// What a poll of the stream says.
type Polled = Poll<Option<Result<Reply<StreamResponse>, EngineError>>>;

impl TaskStream {
    /// Looks at what is committed. Returns `None` if there is more to do: events were taken over, or the store is read.
    fn poll_live(&mut self, cx: &mut Context<'_>) -> Option<Polled> {
        let (seq, backlog) = (self.cursor + 1, &mut self.backlog);
        match self.watcher.poll(cx, |view| Live::look(view, seq, backlog)) {
            Poll::Pending => Some(Poll::Pending),
            Poll::Ready(Live::Reply(reply)) => {
                self.over = true;
                Some(Poll::Ready(Some(Ok(Reply::shared(reply)))))
            }
            Poll::Ready(Live::Poisoned) => {
                self.over = true;
                Some(Poll::Ready(Some(Err(EngineError::StoreUnavailable))))
            }
            Poll::Ready(Live::Ended) => Some(Poll::Ready(None)),
            Poll::Ready(Live::Taken) => None,
            Poll::Ready(Live::Event(event)) => {
                self.backlog.push_back(event);
                None
            }
            Poll::Ready(Live::Behind) => {
                self.read_behind();
                None
            }
        }
    }

    /// Reads from the store what the cell no longer has: as much as is worth holding for a reader that may be slow.
    fn read_behind(&mut self) {
        let (tasks, cell, after) = (Arc::clone(&self.tasks), Arc::clone(self.watcher.cell()), self.cursor);
        let own = match self.first {
            First::Own(seq) => Some(seq),
            First::Ready(_) | First::Done => None,
        };
        self.reading = Some(Box::pin(async move {
            match own {
                None => tasks.events_after(&cell, after).await.map(|(events, permit)| Past::Events(events, permit)),
                Some(seq) => {
                    let task = tasks.task_at(&cell, seq).await?.ok_or(EngineError::StoreUnavailable)?;
                    Ok(Past::First(task))
                }
            }
        }));
    }
}

/// What a stream finds in the cell.
enum Live {
    /// The agent answered with a message instead of a task.
    Reply(Arc<Encoded<StreamResponse>>),
    /// The store failed.
    Poisoned,
    /// Everything was yielded, and the task has ended.
    Ended,
    /// The next events were moved into the backlog.
    Taken,
    /// The next event.
    Event(Arc<LogEvent>),
    /// The next event is in the store only.
    Behind,
}

impl Live {
    /// Looks for what is next at `seq`; `None` if it is still to come.
    fn look(view: &mut View<'_>, seq: u64, backlog: &mut VecDeque<Arc<LogEvent>>) -> Option<Self> {
        if let Some(reply) = view.reply() {
            return Some(Self::Reply(reply));
        }
        if seq > view.seq() {
            return match lifecycle::is_terminal(view.state()) {
                _ if view.is_poisoned() => Some(Self::Poisoned),
                true => Some(Self::Ended),
                false => None,
            };
        }
        // The only reader takes all events at once.
        if view.take_events(seq, backlog) {
            return Some(Self::Taken);
        }
        Some(view.event(seq).map_or(Self::Behind, Self::Event))
    }
}

impl std::fmt::Debug for TaskStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskStream")
            .field("watcher", &self.watcher)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
