//! Resuming tasks that wait for an authorisation, on an operator's word (§7.6).

use uuid::Uuid;

use super::cell::Resumption;
use super::error::EngineError;
use super::load::Tasks;
use super::run;

/// Resumes a task, whoever owns it.
pub(super) async fn resume(tasks: &Tasks, id: Uuid) -> Result<Resumption, EngineError> {
    let cell = tasks.any_cell(id).await?;
    let (resumption, run) = cell.resume(|| tasks.handles.limits.run())?;
    if let Some((run, permit)) = run {
        run::spawn(&cell, run, permit);
    }
    Ok(resumption)
}
