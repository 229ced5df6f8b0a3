//! A subscriber: a cursor in a task's committed log. Nobody waits for it, and it never misses or repeats an event.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::future::BoxFuture;
use tricord_bindings::{Encoded, EventId, Reply};
use uuid::Uuid;

use crate::schema::{StreamResponse, Task, TaskState};
use crate::store::Tail;
use crate::task::cursor::{self, Start};
use crate::task::event::{Body, LogEvent};
use crate::task::{fold, lifecycle};

use super::limits::Permit;
use super::send::STREAMS;
use super::{Engine, EngineError, TaskCell};

/// The events of a task, from a point on.
pub struct TaskStream {
    cell: Arc<TaskCell>,
    watcher: usize,
    generation: u32,
    /// The last event that was yielded or skipped.
    cursor: u64,
    first: First,
    /// The message that a send's stream began with; `None` for a subscription.
    own: Option<u64>,
    history: Option<u32>,
    /// Events taken over from the ring, or read from the store by a reader that fell behind it or began in the past.
    backlog: VecDeque<Arc<LogEvent>>,
    reading: Option<BoxFuture<'static, Result<Past, EngineError>>>,
    over: bool,
    _permit: Permit,
}

/// What the store has for a reader.
enum Past {
    /// The task to begin with, folded at the stream's own message.
    First(Box<Task>),
    /// The next events, not necessarily all.
    Events(VecDeque<Arc<LogEvent>>),
}

enum First {
    /// The task folded at the stream's own message, once that is committed.
    Own(u64),
    /// The task as it stood when the stream was opened.
    Ready(Arc<Encoded<StreamResponse>>),
    Done,
}

impl TaskStream {
    pub(super) fn of_message(
        engine: &Engine,
        cell: Arc<TaskCell>,
        seq: u64,
        history: Option<u32>,
        permit: Permit,
    ) -> Self {
        let watcher = cell.lock().watch(true);
        Self {
            cell,
            watcher,
            generation: engine.generation(),
            cursor: seq - 1,
            first: First::Own(seq),
            own: Some(seq),
            history,
            backlog: VecDeque::new(),
            reading: None,
            over: false,
            _permit: permit,
        }
    }

    fn reply(&self, seq: u64, message: &Arc<Encoded<StreamResponse>>) -> Reply<StreamResponse> {
        Reply::event(Arc::clone(message), EventId { generation: self.generation, seq })
    }

    /// Whether the stream ends behind an event that enters this state (settled: a send's stream when the client has to
    /// act, a subscription only when the task has ended).
    fn ends_on(&self, state: TaskState) -> bool {
        lifecycle::is_terminal(state) || (self.own.is_some() && state == TaskState::InputRequired)
    }

    /// What an event is for this reader: something to yield, or nothing.
    fn take(&mut self, event: &Arc<LogEvent>) -> Option<Reply<StreamResponse>> {
        self.cursor = event.seq;
        if matches!(self.first, First::Own(seq) if seq == event.seq) {
            self.first = First::Done;
            return self.own_snapshot(event);
        }
        if let Some(state) = event.state() {
            self.over = self.ends_on(state);
        }
        event.update().map(|update| self.reply(event.seq, update))
    }

    /// The first event of a send's stream, from its message's own record.
    fn own_snapshot(&self, event: &LogEvent) -> Option<Reply<StreamResponse>> {
        let Body::Message { snapshot: Some(snapshot), .. } = &event.body else { return None };
        let message = snapshot.get()?;
        Some(match self.history {
            None => self.reply(event.seq, message),
            limit => self.reply(event.seq, &limited(message, limit)),
        })
    }
}

fn limited(message: &Encoded<StreamResponse>, history: Option<u32>) -> Arc<Encoded<StreamResponse>> {
    let mut response = message.value().clone();
    if let Some(crate::schema::stream_response::Payload::Task(task)) = &mut response.payload {
        fold::limit_history(task, history);
    }
    Arc::new(Encoded::new(response))
}

impl Stream for TaskStream {
    type Item = Result<Reply<StreamResponse>, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.over {
                return Poll::Ready(None);
            }
            if let First::Ready(message) = &this.first {
                let reply = this.reply(this.cursor, message);
                this.first = First::Done;
                return Poll::Ready(Some(Ok(reply)));
            }
            if let Some(event) = this.backlog.pop_front() {
                match this.take(&event) {
                    Some(reply) => return Poll::Ready(Some(Ok(reply))),
                    None => continue,
                }
            }
            if let Some(reading) = &mut this.reading {
                let read = ready!(reading.as_mut().poll(cx));
                this.reading = None;
                match read {
                    // Committed, and yet not to be read: asking again would never end.
                    Ok(Past::Events(events)) if events.is_empty() => {
                        this.over = true;
                        return Poll::Ready(Some(Err(EngineError::StoreUnavailable)));
                    }
                    Ok(Past::Events(events)) => this.backlog = events,
                    Ok(Past::First(mut task)) => {
                        this.cursor += 1;
                        fold::limit_history(&mut task, this.history);
                        this.first = First::Ready(Arc::new(Encoded::new((*task).into())));
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
    /// Looks at what is committed; `None` is to look again: events were taken over, or the store is being read.
    fn poll_live(&mut self, cx: &mut Context<'_>) -> Option<Polled> {
        let cell = Arc::clone(&self.cell);
        let mut inner = cell.lock();
        loop {
            if let Some(reply) = &inner.reply {
                self.over = true;
                return Some(Poll::Ready(Some(Ok(Reply::shared(Arc::clone(reply))))));
            }
            if self.cursor >= inner.committed.seq {
                if inner.poisoned {
                    self.over = true;
                    return Some(Poll::Ready(Some(Err(EngineError::StoreUnavailable))));
                }
                if lifecycle::is_terminal(super::cell::state_of(inner.committed.task.task())) {
                    return Some(Poll::Ready(None));
                }
                inner.park(self.watcher, cx);
                return Some(Poll::Pending);
            }
            // The only reader takes all that there is at once, and nobody has to keep it.
            if inner.is_followed_once() && inner.committed.hand_over(self.cursor + 1, &mut self.backlog) {
                return None;
            }
            let Some(event) = inner.committed.event(self.cursor + 1).cloned() else {
                drop(inner);
                self.read_behind();
                return None;
            };
            if let Some(reply) = self.take(&event) {
                return Some(Poll::Ready(Some(Ok(reply))));
            }
        }
    }

    /// Reads from the store what the ring has dropped: as much as is worth holding for a reader that may be slow.
    fn read_behind(&mut self) {
        let (engine, cell, after) = (Engine(Arc::clone(&self.cell.shared)), Arc::clone(&self.cell), self.cursor);
        let own = match self.first {
            First::Own(seq) => Some(seq),
            First::Ready(_) | First::Done => None,
        };
        self.reading = Some(Box::pin(async move {
            match own {
                None => Ok(Past::Events(engine.events_after(&cell, after).await?)),
                Some(seq) => {
                    let task = engine.past(&cell, seq).await?.ok_or(EngineError::StoreUnavailable)?;
                    Ok(Past::First(Box::new(task)))
                }
            }
        }));
    }
}

impl Drop for TaskStream {
    fn drop(&mut self) {
        self.cell.lock().unwatch(self.watcher, true);
    }
}

impl std::fmt::Debug for TaskStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskStream").field("cell", &self.cell).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Engine {
    /// Follows a task until it has ended: the task as it stands (or stood at `cursor`, a client's `Last-LogEvent-ID`), then
    /// every event after that. `history` is how many messages the first event shows.
    ///
    /// # Errors
    /// When there is no such task, it has ended and nothing is left to replay, or the store cannot be read.
    pub async fn subscribe(
        &self,
        agent: &str,
        owner: &str,
        id: Uuid,
        cursor: Option<&str>,
        history: Option<u32>,
    ) -> Result<TaskStream, EngineError> {
        let permit = self.0.limits.stream().ok_or(STREAMS)?;
        let cell = self.cell(agent, owner, id).await?;
        let (head, start, snapshot, watcher) = {
            let mut inner = cell.lock();
            let head = inner.committed.seq;
            if head == 0 {
                return Err(EngineError::NotFound);
            }
            let task = inner.committed.task.task();
            let start = cursor::start(cursor, self.generation(), head);
            // A cursor that names nothing we have still asks for what there is, unless it is the very end.
            let nothing_left = cursor.is_none_or(|cursor| self.is_head(cursor, head));
            if lifecycle::is_terminal(super::cell::state_of(task)) && nothing_left {
                return Err(EngineError::Ended(super::cell::state_of(task)));
            }
            let snapshot = task.clone();
            (head, start, snapshot, inner.watch(true))
        };
        let mut stream = TaskStream {
            cell: Arc::clone(&cell),
            watcher,
            generation: self.generation(),
            cursor: head,
            first: First::Done,
            own: None,
            history,
            backlog: VecDeque::new(),
            reading: None,
            over: false,
            _permit: permit,
        };
        let mut first = snapshot;
        if let Start::At(seq) = start
            && let Some(task) = self.past(&cell, seq).await?
        {
            (first, stream.cursor) = (task, seq);
        }
        fold::limit_history(&mut first, history);
        stream.first = First::Ready(Arc::new(Encoded::new(first.into())));
        Ok(stream)
    }

    fn is_head(&self, cursor: &str, head: u64) -> bool {
        cursor.trim().parse() == Ok(EventId { generation: self.generation(), seq: head })
    }

    /// The task folded at `seq`; `None` if the log does not reach back that far.
    async fn past(&self, cell: &TaskCell, seq: u64) -> Result<Option<Task>, EngineError> {
        let (mut task, mut at) = (fold::empty(&cell.ids), 0);
        while at < seq {
            let Tail::Records(batches) = self.0.store.log_since(cell.handle, at).await? else { return Ok(None) };
            let before = at;
            let records = batches.into_iter().flat_map(|batch| batch.records);
            for record in records.take_while(|record| record.seq <= seq) {
                at = record.seq;
                if let Some(event) = LogEvent::from_record(&cell.ids, record) {
                    fold::apply(&mut task, &event);
                }
            }
            if at == before {
                return Ok(None);
            }
        }
        Ok(Some(task))
    }
}
