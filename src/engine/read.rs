//! Reading tasks: from the live cell, from those that ended lately, or from the store.

use std::collections::VecDeque;
use std::sync::Arc;

use tricord_bindings::Encoded;
use uuid::Uuid;

use crate::schema::Task;
use crate::store::{Tail, TaskRow};
use crate::task::event::{Ids, LogEvent, micros};
use crate::task::{fold, lifecycle};

use super::cell::{CellSeed, Fold, state_of};
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

/// A task folded from its log.
pub(super) struct Folded {
    pub(super) task: Box<Task>,
    pub(super) seq: u64,
    pub(super) time_us: i64,
    pub(super) bytes: usize,
}

impl Engine {
    /// Reads a task as it stands.
    ///
    /// # Errors
    /// When there is no such task for this agent and owner, or the store cannot be read.
    pub fn read(&self, agent: &str, owner: &str, id: Uuid) -> Result<Snapshot, EngineError> {
        if let Some(ended) = self.0.finished.get(agent, owner, id) {
            return Ok(Snapshot::Shared(ended.task));
        }
        if let Some(cell) = self.0.cells.get(id) {
            if *cell.spec.name != *agent || *cell.owner != *owner {
                return Err(EngineError::NotFound);
            }
            let inner = cell.lock();
            if !inner.poisoned {
                return match &inner.committed.task {
                    _ if inner.committed.seq == 0 => Err(EngineError::NotFound),
                    Fold::Open(task) => Ok(Snapshot::Owned(task.clone())),
                    Fold::Ended(task) => Ok(Snapshot::Shared(Arc::clone(task))),
                };
            }
        }
        let row = self.0.store.find(agent, owner, id)?.ok_or(EngineError::NotFound)?;
        self.read_row(&row)
    }

    /// Reads the task of a row that a list found.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read_row(&self, row: &TaskRow) -> Result<Snapshot, EngineError> {
        if let Some(ended) = self.0.finished.get(&row.agent, &row.owner, row.id) {
            return Ok(Snapshot::Shared(ended.task));
        }
        let folded = self.fold(row)?;
        if lifecycle::is_terminal(state_of(&folded.task)) {
            let task = Arc::new(Encoded::new(*folded.task));
            self.0.finished.put(row.id, &row.agent, &row.owner, &task);
            return Ok(Snapshot::Shared(task));
        }
        Ok(Snapshot::Owned(folded.task))
    }

    /// The live cell of a task, or a new one with what the store has.
    pub(super) fn cell(&self, agent: &str, owner: &str, id: Uuid) -> Result<Arc<TaskCell>, EngineError> {
        let cell = self.0.cells.get_or_load(id, || {
            let Some(row) = self.0.store.find(agent, owner, id)? else { return Ok(None) };
            self.load_cell(&row).map(Some)
        })?;
        match cell {
            Some(cell) if *cell.spec.name == *agent && *cell.owner == *owner && !cell.lock().poisoned => Ok(cell),
            Some(cell) if *cell.spec.name == *agent && *cell.owner == *owner => Err(EngineError::StoreUnavailable),
            _ => Err(EngineError::NotFound),
        }
    }

    pub(super) fn load_cell(&self, row: &TaskRow) -> Result<Arc<TaskCell>, EngineError> {
        let spec = self.0.agents.get(&row.agent).ok_or(EngineError::NotFound)?;
        let Folded { task, seq, time_us, bytes, .. } = self.fold(row)?;
        let seed = CellSeed::Stored { task, seq, time_us, status_us: row.status_us, bytes };
        let owner = Arc::clone(&row.owner);
        Ok(TaskCell::new(Arc::clone(&self.0), row.id, ids(row), row.pk, Arc::clone(spec), owner, seed))
    }

    /// Folds a task's log, from its checkpoint on.
    pub(super) fn fold(&self, row: &TaskRow) -> Result<Folded, EngineError> {
        let ids = ids(row);
        let log = self.0.store.log(row.pk, 0)?;
        let mut folded = Folded { task: Box::new(fold::empty(&ids)), seq: 0, time_us: row.created_us, bytes: 0 };
        if let Some(checkpoint) = log.checkpoint {
            folded.seq = checkpoint.seq;
            if let Some(task) = checkpoint.task {
                folded.bytes = prost::Message::encoded_len(&task);
                let since = task.status.as_ref().and_then(|status| status.timestamp.as_ref()).map(micros);
                folded.time_us = folded.time_us.max(since.unwrap_or_default());
                *folded.task = task;
            }
        }
        for record in log.batches.into_iter().flat_map(|batch| batch.records) {
            folded.time_us = record.time_us;
            let Some(event) = LogEvent::from_record(&ids, record) else { continue };
            fold::apply(&mut folded.task, &event);
            folded.seq = event.seq;
            folded.bytes += event.size;
        }
        Ok(folded)
    }

    /// The next committed events behind `after`, read from the store.
    pub(super) fn events_after(&self, cell: &TaskCell, after: u64) -> Result<VecDeque<Arc<LogEvent>>, EngineError> {
        match self.0.store.log_since(cell.pk, after)? {
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

fn ids(row: &TaskRow) -> Ids {
    Ids { task: row.id.to_string().into(), context: Arc::clone(&row.context) }
}
