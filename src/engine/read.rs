//! Reading tasks: from the live cell, from those that ended lately, or from the store.

use std::collections::VecDeque;
use std::sync::Arc;

use tricord_bindings::Encoded;
use uuid::Uuid;

use crate::schema::Task;
use crate::store::{LogRead, Tail, TaskRow};
use crate::task::event::{Ids, LogEvent, micros};
use crate::task::{fold, lifecycle};

use super::cell::{CellSeed, Fold, state_of};
use super::folds::OpenFold;
use super::{Engine, EngineError, TaskCell};

/// A task as it stands.
#[derive(Debug)]
pub enum Snapshot {
    /// For this reader alone.
    Owned(Box<Task>),
    /// Ended, and shared with everybody who reads it.
    Shared(Arc<Encoded<Task>>),
}

impl Snapshot {
    /// The task.
    pub fn task(&self) -> &Task {
        match self {
            Snapshot::Owned(task) => task,
            Snapshot::Shared(task) => task.value(),
        }
    }

    /// The task for this reader alone.
    pub fn into_task(self) -> Task {
        match self {
            Snapshot::Owned(task) => *task,
            Snapshot::Shared(task) => task.value().clone(),
        }
    }
}

impl Engine {
    /// Reads a task as it stands.
    ///
    /// # Errors
    /// When there is no such task for this agent and owner, or the store cannot be read.
    pub async fn read(&self, agent: &str, owner: &str, id: Uuid) -> Result<Snapshot, EngineError> {
        if let Some(ended) = self.0.finished.get(agent, owner, id) {
            return Ok(Snapshot::Shared(ended.task));
        }
        if let Some(snapshot) = self.read_live(agent, owner, id)? {
            return Ok(snapshot);
        }
        let row = self.0.store.find(agent, owner, id).await?.ok_or(EngineError::NotFound)?;
        self.read_row(&row).await
    }

    /// Reads a task that has no live cell.
    async fn read_row(&self, row: &TaskRow) -> Result<Snapshot, EngineError> {
        let known = self.0.folds.get(row.id);
        let log = self.0.store.log(row.task, known.as_ref().map_or(0, |fold| fold.seq)).await?;
        Ok(self.snapshot(row, known, log))
    }

    /// The task as its live cell has it.
    fn read_live(&self, agent: &str, owner: &str, id: Uuid) -> Result<Option<Snapshot>, EngineError> {
        let Some(cell) = self.0.cells.get(id) else { return Ok(None) };
        if *cell.spec.name != *agent || *cell.owner != *owner {
            return Err(EngineError::NotFound);
        }
        let inner = cell.lock();
        if inner.poisoned {
            return Ok(None);
        }
        match &inner.committed.task {
            _ if inner.committed.seq == 0 => Err(EngineError::NotFound),
            Fold::Open(task) => Ok(Some(Snapshot::Owned(task.clone()))),
            Fold::Ended(task) => Ok(Some(Snapshot::Shared(Arc::clone(task)))),
        }
    }

    /// Reads the tasks of the rows that a list found, in their order, and hands each to `take`: a page of large tasks
    /// is never in memory as a whole.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn read_rows(&self, rows: &[TaskRow], mut take: impl FnMut(Snapshot)) -> Result<(), EngineError> {
        let mut rest = rows;
        while let Some((first, behind)) = rest.split_first() {
            if let Some(ended) = self.0.finished.get(&first.agent, &first.owner, first.id) {
                take(Snapshot::Shared(ended.task));
                rest = behind;
                continue;
            }
            if self.0.folds.get(first.id).is_some() {
                take(self.read_row(first).await?);
                rest = behind;
                continue;
            }
            let is_known = |row: &TaskRow| {
                self.0.folds.get(row.id).is_some() || self.0.finished.get(&row.agent, &row.owner, row.id).is_some()
            };
            let unknown = rest.iter().skip(1).take_while(|row| !is_known(row)).count() + 1;
            let logs = self.0.store.logs(rest[..unknown].iter().map(|row| row.task).collect()).await?;
            let (read, unread) = rest.split_at(logs.len());
            for (row, log) in read.iter().zip(logs) {
                take(self.snapshot(row, None, log));
            }
            rest = unread;
            // Folding is work, and other tasks of this thread wait meanwhile.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The task of a log, which is kept for the next reader.
    fn snapshot(&self, row: &TaskRow, known: Option<OpenFold>, log: LogRead) -> Snapshot {
        let fold = fold_log(row, known, log);
        let task = Arc::clone(&fold.task);
        if lifecycle::is_terminal(state_of(task.value())) {
            self.0.finished.put(row.id, &row.agent, &row.owner, &task);
        } else {
            self.0.folds.put(row.id, fold);
        }
        Snapshot::Shared(task)
    }

    /// The live cell of a task, or a new one with what the store has.
    pub(super) async fn cell(&self, agent: &str, owner: &str, id: Uuid) -> Result<Arc<TaskCell>, EngineError> {
        let load = || async {
            match self.0.store.find(agent, owner, id).await? {
                Some(row) => self.load_cell(&row).await.map(Some),
                None => Ok::<_, EngineError>(None),
            }
        };
        match self.0.cells.get_or_load(id, load).await? {
            Some(cell) if *cell.spec.name == *agent && *cell.owner == *owner && !cell.lock().poisoned => Ok(cell),
            Some(cell) if *cell.spec.name == *agent && *cell.owner == *owner => Err(EngineError::StoreUnavailable),
            _ => Err(EngineError::NotFound),
        }
    }

    pub(super) async fn load_cell(&self, row: &TaskRow) -> Result<Arc<TaskCell>, EngineError> {
        let spec = self.0.agents.get(&row.agent).ok_or(EngineError::NotFound)?;
        let known = self.0.folds.take(row.id);
        let log = self.0.store.log(row.task, known.as_ref().map_or(0, |fold| fold.seq)).await?;
        let seed = CellSeed::Stored { fold: fold_log(row, known, log), status_us: row.status_us };
        let owner = Arc::clone(&row.owner);
        Ok(TaskCell::new(Arc::clone(&self.0), row.id, ids(row), row.task, Arc::clone(spec), owner, seed))
    }

    /// The next committed events behind `after`, read from the store.
    pub(super) async fn events_after(
        &self,
        cell: &TaskCell,
        after: u64,
    ) -> Result<VecDeque<Arc<LogEvent>>, EngineError> {
        match self.0.store.log_since(cell.handle, after).await? {
            Tail::Records(batches) => Ok(batches
                .into_iter()
                .flat_map(|batch| batch.records)
                .filter_map(|record| LogEvent::from_record(&cell.ids, record).map(Arc::new))
                .collect()),
            // The tail is kept for an hour after the end: only a reader that stopped that long sees this.
            Tail::Gone => Err(EngineError::StoreUnavailable),
        }
    }
}

/// Brings a fold up to date with what the log holds behind it. Without one, folds the log from its checkpoint on.
fn fold_log(row: &TaskRow, known: Option<OpenFold>, log: LogRead) -> OpenFold {
    let ids = ids(row);
    // A checkpoint comes beside a fold only where records behind the fold were deleted: it replaces the fold.
    let mut fold = known.filter(|_| log.checkpoint.is_none()).unwrap_or_else(|| OpenFold {
        task: Arc::new(Encoded::new(fold::empty(&ids))),
        seq: 0,
        time_us: row.created_us,
        bytes: 0,
        tail_bytes: 0,
        checkpoint_bytes: 0,
    });
    if let Some(checkpoint) = log.checkpoint {
        fold.seq = checkpoint.seq;
        if let Some(task) = checkpoint.task {
            fold.bytes = prost::Message::encoded_len(&task);
            fold.checkpoint_bytes = fold.bytes;
            let since = task.status.as_ref().and_then(|status| status.timestamp.as_ref()).map(micros);
            fold.time_us = fold.time_us.max(since.unwrap_or_default());
            fold.task = Arc::new(Encoded::new(task));
        }
    }
    let mut records = log.batches.into_iter().flat_map(|batch| batch.records).peekable();
    if records.peek().is_none() {
        return fold;
    }
    let task = Encoded::make_mut(&mut fold.task);
    for record in records {
        fold.time_us = record.time_us;
        let Some(event) = LogEvent::from_record(&ids, record) else { continue };
        fold::apply(task, &event);
        fold.seq = event.seq;
        fold.bytes += event.size;
        fold.tail_bytes += event.size;
    }
    fold
}

fn ids(row: &TaskRow) -> Ids {
    Ids { task: row.id.to_string().into(), context: Arc::clone(&row.context) }
}
