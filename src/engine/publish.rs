//! The publisher: the one task that takes finished commits from the writer and hands them to the cells.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tricord_bindings::offload::run_now;

use crate::store::Commit;

use super::cell::TaskCell;
use super::recovery::Recovery;

/// Takes commits in order until the writer is gone. Tasks whose records were not written go to recovery.
pub(super) async fn publish(recovery: Arc<Recovery>, mut commits: UnboundedReceiver<Commit<TaskCell>>) {
    while let Some(commit) = commits.recv().await {
        match commit {
            Commit::Done(appends) => {
                for (cell, result) in appends {
                    match result {
                        Ok(last) => run_now(cell.uncommitted(), || cell.publish(last)),
                        Err(error) => {
                            let task = &cell.ids().task;
                            tracing::error!(%error, %task, "the store refused the records of a task; its run is aborted");
                            abandon(&recovery, &cell);
                        }
                    }
                }
            }
            Commit::Failed(cells, error) => {
                tracing::error!(%error, tasks = cells.len(), "a commit failed; the runs in it are aborted");
                for cell in cells {
                    abandon(&recovery, &cell);
                }
            }
        }
    }
}

fn abandon(recovery: &Recovery, cell: &TaskCell) {
    cell.abandon();
    recovery.later(cell.id());
}
