//! Recovery: what becomes of tasks whose run was under way when the process, or the store, stopped.

use std::sync::PoisonError;

use crate::agents::text_part;
use crate::schema::{Role, TaskState};
use crate::store::{Health, TaskRow};
use crate::task::event::Draft;
use crate::task::lifecycle;
use std::sync::Arc;

use super::cell::state_of;
use super::run::{self, RunStart, agent_message};
use super::{Engine, EngineError, OnRestart};

/// How often a run is tried, the first time included, before its task fails.
const MOST_ATTEMPTS: u32 = 3;
/// Tasks read at once.
const PAGE: u32 = 256;

impl Engine {
    /// Takes up, or fails, every task that an earlier process left under way. Nothing is left WORKING.
    pub(super) fn recover_orphans(&self) -> Result<(), EngineError> {
        let (mut after, mut count) = (0, 0);
        loop {
            let rows = self.0.store.orphans(after, PAGE)?;
            let Some(last) = rows.last() else { break };
            after = last.pk;
            for row in &rows {
                match self.recover(row) {
                    Ok(()) => count += 1,
                    Err(error) => tracing::error!(%error, task = %row.id, "a task could not be recovered"),
                }
            }
        }
        if count > 0 {
            tracing::info!(tasks = count, "recovered tasks that were under way when the server stopped");
        }
        Ok(())
    }

    fn recover(&self, row: &TaskRow) -> Result<(), EngineError> {
        if lifecycle::is_terminal(row.state) {
            // It ended; only the end of its run was not written. Nothing to do: the row is not live in this epoch.
            return Ok(());
        }
        let folded = self.fold(row)?;
        let state = state_of(&folded.task);
        if state == TaskState::InputRequired && !folded.unanswered {
            return Ok(());
        }
        let cell = self.0.cells.get_or_load(row.id, || self.load_cell(row).map(Some))?.ok_or(EngineError::NotFound)?;
        let attempt = folded.attempts + 1;
        let message = folded.task.history.iter().rev().find(|message| message.role() == Role::User).cloned();
        match message {
            Some(message) if cell.spec.on_restart == OnRestart::Resume && attempt <= MOST_ATTEMPTS => {
                let permit = self.0.limits.run().ok_or(EngineError::Busy("tasks running at the same time"))?;
                let start = RunStart {
                    message: Arc::new(message),
                    attempt,
                    begins_task: folded.task.history.len() == 1,
                    extensions: Vec::new(),
                    accepted_output_modes: Vec::new(),
                    metadata: folded.task.metadata.clone(),
                };
                let run = cell.change(|inner| {
                    cell.admit(inner, Draft::Resumed(attempt))?;
                    Ok::<_, EngineError>(run::begin(&cell, inner, start, permit))
                })?;
                run::spawn(run);
            }
            _ => {
                let text = "The server stopped while the task was under way.";
                let message = agent_message(&cell, vec![text_part(text)]);
                cell.change(|inner| cell.admit(inner, Draft::status(TaskState::Failed, Some(message))))?;
            }
        }
        Ok(())
    }
}

/// Recovers the tasks that were lost with a failed commit, each time that the store answers again.
pub(super) async fn after_failures(engine: Engine) {
    let mut health = engine.0.health.clone();
    while health.changed().await.is_ok() {
        if !matches!(*health.borrow_and_update(), Health::Ok) {
            continue;
        }
        let lost = std::mem::take(&mut *engine.0.lost.lock().unwrap_or_else(PoisonError::into_inner));
        for id in lost {
            let recovered = match engine.0.store.find_any(id) {
                // Never committed: nobody was told of it.
                Ok(None) => Ok(()),
                Ok(Some(row)) => engine.recover(&row),
                Err(error) => Err(error.into()),
            };
            if let Err(error) = recovered {
                tracing::error!(%error, task = %id, "a task could not be recovered");
            }
        }
    }
}
