//! The record of one call: a line in the log and a count, however the call ends.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::Stream;
use tracing::{Level, Span};

use super::ACCESS;
use crate::error::{Error, Protocol};
use crate::meter::{Meter, OK};
use crate::reply::{Events, Reply};
use crate::{Binding, Rpc};

/// The code of a call whose client left before it was answered.
const CANCELLED: &str = "CANCELLED";

/// The rpc that calls of what a program serves beside the service are recorded under.
pub(crate) const ADDITIONAL: &str = "additional";

/// What a call is about, for its line in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The id of the task; empty if none is known.
    pub task: String,
    /// The state of the task; empty if none is known.
    pub state: &'static str,
}

/// The record of a call. Written when it is dropped, as cancelled unless [`CallRecord::end`] said how the call ended.
pub struct CallRecord {
    meter: Arc<Meter>,
    describe: fn(&dyn Any, &mut Subject),
    binding: Binding,
    rpc: &'static str,
    started: Instant,
    /// When the handler began.
    handling: Option<Instant>,
    code: Option<&'static str>,
    is_counted: bool,
    /// What only the log shows; `None` if nobody reads it.
    line: Option<Box<Line>>,
}

struct Line {
    span: Span,
    agent: String,
    subject: Subject,
    events: Option<u64>,
}

impl CallRecord {
    pub(super) fn new(meter: &Arc<Meter>, protocol: &Protocol, binding: Binding) -> Self {
        let line = tracing::enabled!(target: ACCESS, Level::INFO).then(|| {
            Box::new(Line { span: Span::current(), agent: String::new(), subject: Subject::default(), events: None })
        });
        Self {
            meter: meter.clone(),
            describe: protocol.describe,
            binding,
            rpc: "",
            started: Instant::now(),
            handling: None,
            code: None,
            is_counted: false,
            line,
        }
    }

    /// Notes which rpc is called.
    pub(super) fn rpc(&mut self, rpc: &Rpc) {
        self.rpc = rpc.name;
    }

    /// Notes that something is called that a program serves beside the service.
    pub(crate) fn additional(&mut self) {
        self.rpc = ADDITIONAL;
    }

    /// Notes which agent is called, and that its handler begins.
    pub(super) fn handling(&mut self, agent: &str) {
        self.handling = Some(Instant::now());
        if let Some(line) = &mut self.line {
            agent.clone_into(&mut line.agent);
        }
    }

    /// Notes what a request or an answer is about.
    pub(super) fn message(&mut self, message: &dyn Any) {
        if let Some(line) = &mut self.line {
            (self.describe)(message, &mut line.subject);
        }
    }

    /// Notes how the call ended.
    pub fn end(&mut self, error: Option<&Error>) {
        self.end_with(error.map_or(OK, |error| error.kind().reason));
    }

    /// Notes the code with which the call ended.
    pub fn end_with(&mut self, code: &'static str) {
        self.code = Some(code);
    }

    /// Counts the call as one whose stream has begun.
    fn begin_stream(&mut self) {
        self.count(OK);
        if let Some(line) = &mut self.line {
            line.events = Some(0);
        }
    }

    fn count(&mut self, code: &'static str) {
        if !std::mem::replace(&mut self.is_counted, true) {
            let took = self.handling.map(|since| since.elapsed());
            self.meter.count(self.binding, self.rpc, code, took);
        }
    }
}

impl std::fmt::Debug for CallRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallRecord").field("binding", &self.binding).field("rpc", &self.rpc).finish_non_exhaustive()
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(CANCELLED);
        self.count(code);
        let Some(line) = &self.line else { return };
        let some = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let ms = self.started.elapsed().as_micros() as f64 / 1e3;
        tracing::info!(
            target: ACCESS,
            parent: &line.span,
            rpc = some(self.rpc),
            binding = self.binding.name(),
            agent = some(&line.agent),
            task = some(&line.subject.task),
            state = some(line.subject.state),
            code,
            ms,
            events = line.events,
            "call"
        );
    }
}

/// Events that are noted in the record of their call, which ends with them.
struct Recorded<A> {
    events: Events<A>,
    record: CallRecord,
}

impl<A: 'static> Stream for Recorded<A> {
    type Item = Result<Reply<A>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(Pin::new(&mut self.events).poll_next(cx));
        match &event {
            Some(Ok(reply)) => {
                tracing::trace!(rpc = self.record.rpc, id = reply.id().map(|id| id.to_string()), "an event");
                if let Some(events) = self.record.line.as_mut().and_then(|line| line.events.as_mut()) {
                    *events += 1;
                    self.record.message(reply.as_any());
                }
            }
            Some(Err(error)) => self.record.end(Some(error)),
            None if self.record.code.is_none() => self.record.end(None),
            None => {}
        }
        Poll::Ready(event)
    }
}

/// Records a stream: counted now, and logged when it ends or its client leaves.
pub(super) fn stream<A: 'static>(events: Events<A>, mut record: CallRecord) -> Events<A> {
    record.begin_stream();
    if record.line.is_none() {
        return events;
    }
    Events::new(Recorded { events, record })
}
