//! Resuming tasks that wait for an authorisation, on an operator's word (§7.6).

use uuid::Uuid;

use super::cell::Resumption;
use super::error::EngineError;
use super::last_turn;
use super::load::Tasks;
use super::run;

/// Resumes a task, whoever owns it.
pub(super) async fn resume(tasks: &Tasks, id: Uuid) -> Result<Resumption, EngineError> {
    let cell = tasks.any_cell(id).await?;
    let (resumption, told) = cell.resume()?;
    if told {
        return Ok(resumption);
    }
    let permit = tasks.handles.limits.run()?;
    let turn = last_turn::read(tasks, cell.handle()).await?.ok_or(EngineError::NotFound)?;
    match cell.rerun(turn) {
        Some(run) => run::spawn(&cell, run, permit),
        None => {
            return match cell.resume()? {
                // It went on meanwhile.
                (resumption, true) => Ok(resumption),
                (_, false) => Err(EngineError::TooLarge("records of one task")),
            };
        }
    }
    Ok(resumption)
}
