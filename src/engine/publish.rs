//! From a commit to its readers: the one task that tells cells what has become durable.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::store::{AppendError, Commit};

use super::{Engine, TaskCell};

/// Takes what the writer hands over, in order, until the writer is gone.
pub(super) async fn publish(engine: Engine, mut commits: UnboundedReceiver<Commit<TaskCell>>) {
    while let Some(commit) = commits.recv().await {
        match commit {
            Commit::Done(appends) => {
                for (cell, result) in appends {
                    match result {
                        Ok(last) => cell.publish(last),
                        Err(error) => refused(&engine, &cell, &error),
                    }
                }
            }
            Commit::Failed(items, error) => {
                tracing::error!(%error, tasks = items.len(), "a commit failed; its runs are cut off");
                for cell in items {
                    abandon(&engine, &cell);
                }
            }
        }
    }
}

/// One task's append was refused while the others of its batch stand: only that task is lost.
fn refused(engine: &Engine, cell: &Arc<TaskCell>, error: &AppendError) {
    tracing::error!(%error, task = %cell.ids.task, "the store refused a task's records; its run is cut off");
    abandon(engine, cell);
}

fn abandon(engine: &Engine, cell: &Arc<TaskCell>) {
    cell.abandon();
    engine.recover_later(cell.id);
}
