//! Recovery: what becomes of tasks whose run was under way when the process, or the store, stopped.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::agents::text_part;
use crate::schema::store::Resumed;
use crate::schema::store::record::Event;
use crate::schema::{Role, TaskState};
use crate::store::{Health, Tail, TaskRow};
use crate::task::lifecycle;

use super::cell::Inner;
use super::limits::Permit;
use super::run::{self, RunStart, RunTask, agent_message};
use super::send::RUNS;
use super::{Engine, EngineError, OnRestart, TaskCell};

/// How often a run is tried, the first time included, before its task fails.
const MOST_ATTEMPTS: u32 = 3;
/// Tasks read at once.
const PAGE: u32 = 256;

impl Engine {
    /// Resumes or fails every task that was under way in a process whose lease has ended. No task is left WORKING.
    pub(super) async fn recover_orphans(&self) -> Result<(), EngineError> {
        let (mut after, mut count) = (None, 0);
        loop {
            let rows = self.0.store.orphans(after, PAGE).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.task);
            for row in &rows {
                match self.recover(row).await {
                    Ok(()) => count += 1,
                    Err(error) => self.not_recovered(row.id, &error),
                }
            }
        }
        if count > 0 {
            tracing::info!(tasks = count, "recovered tasks that were under way when the server stopped");
        }
        Ok(())
    }

    /// Tries again later, unless it is in vain.
    fn not_recovered(&self, id: Uuid, error: &EngineError) {
        if *error == EngineError::NotFound {
            return tracing::warn!(task = %id, "a task was under way, and its agent is not served any more");
        }
        match error {
            EngineError::Busy(_) => tracing::debug!(task = %id, "a task waits for a place to be recovered"),
            _ => tracing::error!(%error, task = %id, "a task could not be recovered yet"),
        }
        self.recover_later(id);
    }

    /// Has a task recovered, as soon as the store and the limits allow it.
    pub(super) fn recover_later(&self, id: Uuid) {
        self.0.to_recover.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.0.recovery_due.notify_one();
    }

    async fn recover(&self, row: &TaskRow) -> Result<(), EngineError> {
        let load = || async { self.load_cell(row).await.map(Some) };
        let cell = self.0.cells.get_or_load(row.id, load).await?.ok_or(EngineError::NotFound)?;
        let Unfinished { unanswered, attempts } = self.unfinished(row).await?;
        let attempt = attempts + 1;
        let permit = (cell.spec.on_restart == OnRestart::Resume && attempt <= MOST_ATTEMPTS)
            .then(|| self.0.limits.run().ok_or(RUNS))
            .transpose()?;
        let run = cell.change(|inner| {
            let head = inner.head?;
            // Whoever came first has taken the task up.
            if inner.run.is_some() {
                return None;
            }
            let waits = lifecycle::is_interrupted(head.state)
                && (!row.live || (head.state == TaskState::InputRequired && !unanswered));
            if lifecycle::is_terminal(head.state) || waits {
                // At most the end of its run was not written.
                cell.touch_row(inner);
                return None;
            }
            let resumed = permit.and_then(|permit| run_again(&cell, inner, attempt, permit));
            if resumed.is_none() {
                let text = "The server stopped while the task was under way.";
                let message = agent_message(&cell, vec![text_part(text)]);
                if let Err(error) = cell.append(inner, Event::status(TaskState::Failed, Some(message))) {
                    tracing::error!(%error, task = %cell.ids.task, "the end of a task was refused");
                }
            }
            resumed
        });
        if let Some(run) = run {
            run::spawn(run);
        }
        Ok(())
    }

    /// What the log says of the last run. Of the whole log: a checkpoint holds the task, and not how it came to be.
    async fn unfinished(&self, row: &TaskRow) -> Result<Unfinished, EngineError> {
        let (mut found, mut at) = (Unfinished { unanswered: false, attempts: 1 }, 0);
        loop {
            let Tail::Records(batches) = self.0.store.log_since(row.task, at).await? else { return Ok(found) };
            let before = at;
            for record in batches.into_iter().flat_map(|batch| batch.records) {
                at = record.seq;
                match record.event {
                    Some(Event::Message(_)) => found = Unfinished { unanswered: true, attempts: 1 },
                    Some(Event::Resumed(resumed)) => found.attempts = resumed.attempt,
                    Some(Event::Status(_)) => found.unanswered = false,
                    Some(Event::Created(_) | Event::Artifact(_)) | None => {}
                }
            }
            if at == before {
                return Ok(found);
            }
        }
    }
}

/// What is known of a run that was cut off.
struct Unfinished {
    /// The last of the client's messages stands behind the last status.
    unanswered: bool,
    /// Tries of the run.
    attempts: u32,
}

/// Begins a run with the task's last message. Returns `None` if there is none, or the task has reached its limits.
pub(super) fn run_again(cell: &Arc<TaskCell>, inner: &mut Inner, attempt: u32, permit: Permit) -> Option<RunTask> {
    let task = inner.committed.task.task();
    let message = task.history.iter().rev().find(|message| message.role() == Role::User).cloned()?;
    let start = RunStart {
        message: Arc::new(message),
        attempt,
        begins_task: task.history.len() == 1,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        metadata: task.metadata.clone(),
    };
    cell.append(inner, Event::Resumed(Resumed { attempt })).ok()?;
    Some(run::begin(cell, inner, start, permit))
}

/// How long a task that could not be recovered is left alone.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Recovers the tasks that were lost: with a failed commit, when the store answers again; or because there was no place
/// for them, when there is.
pub(super) async fn after_failures(engine: Engine) {
    let mut health = engine.0.health.clone();
    loop {
        engine.0.recovery_due.notified().await;
        tokio::time::sleep(TRY_AGAIN).await;
        if health.wait_for(|health| matches!(health, Health::Ok)).await.is_err() {
            return;
        }
        let lost = std::mem::take(&mut *engine.0.to_recover.lock().unwrap_or_else(PoisonError::into_inner));
        for id in lost {
            let recovered = match engine.0.store.find_any(id).await {
                // Never committed: nobody was told of it.
                Ok(None) => Ok(()),
                Ok(Some(row)) => engine.recover(&row).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = recovered {
                engine.not_recovered(id, &error);
            }
        }
    }
}
