//! Resuming tasks that wait for an authorisation, on an operator's word (§7.6).

use uuid::Uuid;

use crate::schema::TaskState;

use super::recovery::run_again;
use super::send::RUNS;
use super::{Engine, EngineError, run};

/// What an attempt to resume a task found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// The task waited in AUTH_REQUIRED and goes on.
    Resumed,
    /// The task is in this state and does not wait for an authorisation.
    NotWaiting(TaskState),
}

impl Engine {
    /// Resumes a task that waits in AUTH_REQUIRED, whoever owns it. A run that waits in
    /// [`TaskContext::require_auth`](crate::agents::TaskContext::require_auth) goes on. Where no run waits any more,
    /// because the agent ended it or the server was restarted, the last message of the client is run again.
    ///
    /// # Errors
    /// When there is no such task, too many tasks run, or the store is not available.
    pub async fn resume(&self, id: Uuid) -> Result<Resumption, EngineError> {
        self.refuse_if_unready()?;
        let load = || async {
            let Some(row) = self.0.store.find_any(id).await? else { return Ok::<_, EngineError>(None) };
            self.load_cell(&row).await.map(Some)
        };
        let cell = self.0.cells.get_or_load(id, load).await?.ok_or(EngineError::NotFound)?;
        let (resumption, again) = cell.change(|inner| {
            if inner.poisoned {
                return Err(EngineError::StoreUnavailable);
            }
            let state = inner.head.ok_or(EngineError::NotFound)?.state;
            if state != TaskState::AuthRequired {
                return Ok((Resumption::NotWaiting(state), None));
            }
            if let Some(run) = &mut inner.run {
                run.resumed = true;
                return Ok((Resumption::Resumed, None));
            }
            let permit = self.0.limits.run().ok_or(RUNS)?;
            let again = run_again(&cell, inner, 1, permit).ok_or(EngineError::TooLarge("records of one task"))?;
            Ok((Resumption::Resumed, Some(again)))
        })?;
        match again {
            Some(again) => run::spawn(again),
            None => cell.wake_agent(),
        }
        Ok(resumption)
    }
}
