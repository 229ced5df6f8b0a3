//! Runs: an agent's future, polled so that what it emits in one poll is one commit.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::agents::{AgentError, EmitError, RunFuture};

use super::cell::{RunEnd, StartedRun, TaskCell};
use super::limits::Permit;

/// How long a run may be silent before its task is created, so that clients have something to hold on to.
const CREATE_AFTER: Duration = Duration::from_millis(250);

/// Spawns the future of a run that has begun, and leaves the handle that aborts it with the cell.
pub(super) fn spawn(cell: &Arc<TaskCell>, run: StartedRun, permit: Permit) {
    let first = run.number;
    let running = cell.spec().agent.run(cell.context(&run));
    let create = match cell.spec().agent.may_reply() {
        true => Create::At(Instant::now() + CREATE_AFTER),
        false => Create::Done,
    };
    let task = RunTask { cell: Arc::clone(cell), run, running, create, polling: true, _permit: permit };
    cell.keep_abort_handle(first, tokio::spawn(task).abort_handle());
}

/// A run under way, and those that follow it in the same future.
struct RunTask {
    cell: Arc<TaskCell>,
    run: StartedRun,
    running: RunFuture,
    create: Create,
    /// What the cell was told last. A run begins as if it were being polled.
    polling: bool,
    _permit: Permit,
}

/// When a task is created of which the run has said nothing.
enum Create {
    At(Instant),
    /// Registered with the runtime only by a run that is still going on after its first poll.
    Timer(Pin<Box<Sleep>>),
    Done,
}

impl Future for RunTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            this.set_polling(true);
            let end = match catch_unwind(AssertUnwindSafe(|| this.running.as_mut().poll(cx))) {
                Ok(Poll::Ready(result)) => this.returned(result),
                Err(panic) => this.panicked(&*panic),
                Ok(Poll::Pending) => {
                    this.create_if_due(cx);
                    this.set_polling(false);
                    return Poll::Pending;
                }
            };
            let Some(next) = this.cell.end_run(&this.run, end) else { return Poll::Ready(()) };
            this.running = this.cell.spec().agent.run(this.cell.context(&next));
            (this.run, this.polling) = (next, true);
        }
    }
}

impl RunTask {
    fn set_polling(&mut self, polling: bool) {
        if self.polling != polling {
            self.cell.set_polling(self.run.number, polling);
            self.polling = polling;
        }
    }

    fn create_if_due(&mut self, cx: &mut Context<'_>) {
        let timer = match &mut self.create {
            Create::Done => return,
            _ if self.cell.is_created() => {
                self.create = Create::Done;
                return;
            }
            Create::At(at) => {
                self.create = Create::Timer(Box::pin(tokio::time::sleep_until(*at)));
                return self.create_if_due(cx);
            }
            Create::Timer(timer) => timer,
        };
        if timer.as_mut().poll(cx).is_ready() {
            self.create = Create::Done;
            self.cell.ensure_created();
        }
    }

    fn returned(&self, result: Result<(), AgentError>) -> RunEnd {
        // A cancelled task takes no more events, so that its agent is refused is expected.
        if let Err(error) = &result
            && !matches!(error.refusal(), Some(EmitError::Ended(_) | EmitError::RunOver))
        {
            let source = std::error::Error::source(error);
            // As a quoted string: the output of a command must not look like lines of this log.
            let error = error.public();
            tracing::warn!(task = %self.cell.ids().task, agent = %self.cell.spec().name, error, source, "a run failed");
        }
        RunEnd::Returned(result)
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> RunEnd {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(task = %self.cell.ids().task, agent = %self.cell.spec().name, panic = text, "an agent panicked");
        RunEnd::Panicked
    }
}
