//! Recovery: what becomes of tasks whose run was under way when the process, or the store, stopped.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use uuid::Uuid;

use crate::agents::OnRestart;
use crate::store::{Health, TaskRow};

use super::error::EngineError;
use super::last_turn;
use super::load::Tasks;
use super::run;

/// How often a run is tried, the first time included, before its task fails.
const MAX_ATTEMPTS: u32 = 3;
/// How many tasks are listed at once.
const PAGE: u32 = 256;
/// How long a task that could not be recovered waits for the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The tasks that wait for recovery: the store failed under them, or there was no permit for their runs.
pub(super) struct Recovery {
    tasks: Arc<Tasks>,
    waiting: Mutex<Vec<Uuid>>,
    due: Notify,
}

impl Recovery {
    pub(super) fn new(tasks: Arc<Tasks>) -> Self {
        Self { tasks, waiting: Mutex::default(), due: Notify::new() }
    }

    /// Resumes or fails every task that was under way in a process whose lease has ended. No task is left WORKING.
    pub(super) async fn recover_orphans(&self) -> Result<(), EngineError> {
        let (mut after, mut count) = (None, 0);
        loop {
            let rows = self.tasks.store.orphans(after, PAGE).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.task);
            for row in &rows {
                match self.recover(row).await {
                    Ok(()) => count += 1,
                    Err(error) => self.failed(row.id, &error),
                }
            }
        }
        if count > 0 {
            tracing::info!(tasks = count, "recovered tasks that were under way when the server stopped");
        }
        Ok(())
    }

    /// Recovers tasks as they fail, when the store answers again and the limits allow it. Never returns while the store is
    /// open.
    pub(super) async fn recover_failed(self: Arc<Self>) {
        let mut health = self.tasks.store.health();
        loop {
            self.due.notified().await;
            tokio::time::sleep(RETRY_AFTER).await;
            if health.wait_for(|health| matches!(health, Health::Ok)).await.is_err() {
                return;
            }
            let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            for id in waiting {
                let recovered = match self.tasks.store.find_any(id).await {
                    // It was never committed, so nobody was told of it.
                    Ok(None) => Ok(()),
                    Ok(Some(row)) => self.recover(&row).await,
                    Err(error) => Err(error.into()),
                };
                if let Err(error) = recovered {
                    self.failed(id, &error);
                }
            }
        }
    }

    /// Adds a task to those that wait for recovery.
    pub(super) fn later(&self, id: Uuid) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.due.notify_one();
    }

    /// Tries a task again later, unless its agent is gone.
    fn failed(&self, id: Uuid, error: &EngineError) {
        match error {
            EngineError::NotFound => {
                return tracing::warn!(task = %id, "a task was under way, and its agent is no longer served");
            }
            EngineError::Damaged => {
                return tracing::error!(task = %id, "a task was under way, and cannot go on as its data is damaged");
            }
            EngineError::Busy(_) => tracing::debug!(task = %id, "a task waits for a permit to be recovered"),
            _ => tracing::error!(%error, task = %id, "a task could not be recovered yet"),
        }
        self.later(id);
    }

    async fn recover(&self, row: &TaskRow) -> Result<(), EngineError> {
        if row.is_damaged {
            return Err(EngineError::Damaged);
        }
        let spec = self.tasks.agents.get(&row.agent).ok_or(EngineError::NotFound)?;
        // Before anything is read: what finds no permit now is asked for again each second.
        let permit = match spec.on_restart {
            OnRestart::Resume => Some(self.tasks.handles.limits.run()?),
            OnRestart::Fail => None,
        };
        let cell = self.tasks.cell_of_row(row).await?;
        let turn = last_turn::read(&self.tasks, row.task).await?;
        let permit = permit.filter(|_| turn.as_ref().is_some_and(|turn| turn.attempts < MAX_ATTEMPTS));
        let run = cell.recover(row.live, turn, permit.is_some());
        if let (Some(run), Some(permit)) = (run, permit) {
            run::spawn(&cell, run, permit);
        }
        Ok(())
    }
}
