//! Where tasks are found: in a live cell, among those that ended lately, or in the store.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use tricord_bindings::Encoded;
use tricord_bindings::budget::BudgetPermit;
use tricord_bindings::offload::LARGE;
use uuid::Uuid;

use crate::schema::Task;
use crate::store::{LogRead, Store, Tail, TaskRow};
use crate::task::event::{Ids, LogEvent, micros};
use crate::task::{fold, lifecycle};

use super::cell::{CellHandles, Identity, TaskCell};
use super::error::EngineError;
use super::folds::OpenFold;
use super::live::LiveTasks;
use super::spec::AgentSpec;

/// The tasks of an engine.
pub(super) struct Tasks {
    pub(super) store: Store,
    pub(super) agents: HashMap<Arc<str>, Arc<AgentSpec>>,
    pub(super) handles: Arc<CellHandles>,
    /// Large tasks that have ended and are being read.
    pub(super) large: LiveTasks<Encoded<Task>>,
}

impl Tasks {
    /// Reads a task as it is committed.
    pub(super) async fn read(&self, agent: &str, owner: &str, id: Uuid) -> Result<Arc<Encoded<Task>>, EngineError> {
        if let Some(ended) = self.handles.finished.get(agent, owner, id) {
            return Ok(ended);
        }
        if let Some(task) = self.read_live(agent, owner, id)? {
            return Ok(task);
        }
        let row = self.store.find(agent, owner, id).await?.ok_or(EngineError::NotFound)?;
        self.read_row(&row).await
    }

    /// Reads a task that has no live cell.
    async fn read_row(&self, row: &TaskRow) -> Result<Arc<Encoded<Task>>, EngineError> {
        if let Some(known) = self.handles.folds.get(row.id) {
            let log = self.store.log(row.task, known.seq).await?;
            return self.checked(row, self.fold_row(row, Some(known), log)).await;
        }
        let size = self.store.log_size(row.task).await?;
        if size < LARGE {
            let log = self.store.log(row.task, 0).await?;
            return self.checked(row, self.fold_row(row, None, log)).await;
        }
        let read = || async { self.read_large(row, size).await.map(Some) };
        if lifecycle::is_terminal(row.state) {
            // It does not change any more: all who read it at the same time share it.
            self.large.purge();
            return self.large.get_or_load(row.id, read).await?.ok_or(EngineError::NotFound);
        }
        read().await?.ok_or(EngineError::NotFound)
    }

    /// Reads a task whose log is large, in turn and away from the runtime's workers.
    async fn read_large(&self, row: &TaskRow, size: usize) -> Result<Arc<Encoded<Task>>, EngineError> {
        let limits = &self.handles.limits;
        let permit = limits.task(size).await?;
        let log = self.store.large_log(row.task, 0).await?;
        let fold = limits.offload.run(size, || fold_log(row, None, log)).await;
        let mut task = self.checked(row, fold).await?.task;
        Encoded::charge(&mut task, permit);
        if lifecycle::is_terminal(fold::state(task.value())) {
            self.handles.finished.put(row.id, &row.agent, &row.owner, &task);
        }
        Ok(task)
    }

    /// Returns a fold of a task, or the reason why there is none: the task may have been deleted since its row was read.
    async fn checked<T>(&self, row: &TaskRow, fold: Result<T, EngineError>) -> Result<T, EngineError> {
        let Err(error) = fold else { return fold };
        match self.store.find_any(row.id).await {
            Ok(None) => Err(EngineError::NotFound),
            Ok(Some(_)) => {
                tracing::error!(task = %row.id, "stored data is damaged: the last records of the task are missing");
                Err(error)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a task from its live cell.
    fn read_live(&self, agent: &str, owner: &str, id: Uuid) -> Result<Option<Arc<Encoded<Task>>>, EngineError> {
        let Some(cell) = self.handles.live.get(id) else { return Ok(None) };
        if !cell.belongs_to(agent, owner) {
            return Err(EngineError::NotFound);
        }
        cell.look(|view| match view.seq() {
            _ if view.is_poisoned() => Ok(None),
            0 => Err(EngineError::NotFound),
            _ => Ok(Some(view.task())),
        })
    }

    /// Reads the tasks of the rows that a list found, in their order, and hands each to `take` until that breaks: a page of
    /// large tasks is never in memory as a whole. Returns how many were taken.
    pub(super) async fn read_rows(
        &self,
        rows: &[TaskRow],
        mut take: impl FnMut(Arc<Encoded<Task>>) -> ControlFlow<()>,
    ) -> Result<usize, EngineError> {
        let taken = |rest: &[TaskRow]| rows.len() - rest.len();
        let mut rest = rows;
        while let Some((first, behind)) = rest.split_first() {
            if first.is_damaged {
                // The store has logged it.
                rest = behind;
                continue;
            }
            if let Some(ended) = self.handles.finished.get(&first.agent, &first.owner, first.id) {
                rest = behind;
                if take(ended).is_break() {
                    return Ok(taken(rest));
                }
                continue;
            }
            if self.handles.folds.get(first.id).is_some() {
                rest = behind;
                if listed(first, self.read_row(first).await)?.is_some_and(|task| take(task).is_break()) {
                    return Ok(taken(rest));
                }
                continue;
            }
            let is_known = |row: &TaskRow| {
                let CellHandles { folds, finished, .. } = &*self.handles;
                row.is_damaged || folds.get(row.id).is_some() || finished.get(&row.agent, &row.owner, row.id).is_some()
            };
            let unknown = rest.iter().skip(1).take_while(|row| !is_known(row)).count() + 1;
            let logs = self.store.logs(rest[..unknown].iter().map(|row| row.task).collect()).await?;
            for log in logs {
                let Some((row, behind)) = rest.split_first() else { break };
                rest = behind;
                let Some(log) = listed(row, log.map_err(EngineError::from))? else { continue };
                let size = log.batches.iter().map(prost::Message::encoded_len).sum();
                let task = self.handles.limits.offload.run(size, || self.fold_row(row, None, log)).await;
                if listed(row, task)?.is_some_and(|task| take(task).is_break()) {
                    return Ok(taken(rest));
                }
            }
            // Folding is work, and other tasks of this thread wait meanwhile.
            tokio::task::yield_now().await;
        }
        Ok(rows.len())
    }

    /// Folds a log, and keeps the task for the next reader.
    fn fold_row(
        &self,
        row: &TaskRow,
        known: Option<OpenFold>,
        log: LogRead,
    ) -> Result<Arc<Encoded<Task>>, EngineError> {
        let fold = fold_log(row, known, log)?;
        let task = Arc::clone(&fold.task);
        if lifecycle::is_terminal(fold::state(task.value())) {
            self.handles.finished.put(row.id, &row.agent, &row.owner, &task);
        } else {
            self.handles.folds.put(row.id, fold);
        }
        Ok(task)
    }

    /// Returns the live cell of a task, loaded from the store if there is none.
    pub(super) async fn cell(&self, agent: &str, owner: &str, id: Uuid) -> Result<Arc<TaskCell>, EngineError> {
        let load = || async {
            match self.store.find(agent, owner, id).await? {
                Some(row) => self.load(&row).await.map(Some),
                None => Ok::<_, EngineError>(None),
            }
        };
        match self.handles.live.get_or_load(id, load).await? {
            Some(cell) if !cell.belongs_to(agent, owner) => Err(EngineError::NotFound),
            Some(cell) if cell.is_poisoned() => Err(EngineError::StoreUnavailable),
            Some(cell) => Ok(cell),
            None => Err(EngineError::NotFound),
        }
    }

    /// Returns the live cell of a task, whoever owns it, loaded from the store if there is none.
    pub(super) async fn any_cell(&self, id: Uuid) -> Result<Arc<TaskCell>, EngineError> {
        let load = || async {
            match self.store.find_any(id).await? {
                Some(row) => self.load(&row).await.map(Some),
                None => Ok::<_, EngineError>(None),
            }
        };
        self.handles.live.get_or_load(id, load).await?.ok_or(EngineError::NotFound)
    }

    /// Returns the live cell of a task whose row was read, loaded from the store if there is none.
    pub(super) async fn cell_of_row(&self, row: &TaskRow) -> Result<Arc<TaskCell>, EngineError> {
        let load = || async { self.load(row).await.map(Some) };
        self.handles.live.get_or_load(row.id, load).await?.ok_or(EngineError::NotFound)
    }

    async fn load(&self, row: &TaskRow) -> Result<Arc<TaskCell>, EngineError> {
        let spec = self.agents.get(&row.agent).ok_or(EngineError::NotFound)?;
        let limits = &self.handles.limits;
        let (fold, memory) = match self.handles.folds.take(row.id) {
            Some(known) => {
                let log = self.store.log(row.task, known.seq).await?;
                let fold = self.checked(row, fold_log(row, Some(known), log)).await?;
                let memory = limits.tasks.charge(2 * fold.bytes);
                (fold, memory)
            }
            None => {
                let size = self.store.log_size(row.task).await?;
                let memory = limits.task(size).await?;
                let log = match size {
                    ..LARGE => self.store.log(row.task, 0).await?,
                    _ => self.store.large_log(row.task, 0).await?,
                };
                let fold = limits.offload.run(size, || fold_log(row, None, log)).await;
                (self.checked(row, fold).await?, memory)
            }
        };
        let (spec, owner) = (Arc::clone(spec), Arc::clone(&row.owner));
        let identity = Identity { id: row.id, ids: ids(row), handle: row.task, spec, owner };
        Ok(TaskCell::of_stored(Arc::clone(&self.handles), identity, fold, row.status_us, row.live, memory))
    }

    /// Reads the next committed events after a seq from the store.
    pub(super) async fn events_after(
        &self,
        cell: &TaskCell,
        after: u64,
    ) -> Result<(VecDeque<Arc<LogEvent>>, BudgetPermit), EngineError> {
        let permit = self.handles.limits.replay().await?;
        let events = self.read_events(cell, after).await?;
        Ok((events, permit))
    }

    async fn read_events(&self, cell: &TaskCell, after: u64) -> Result<VecDeque<Arc<LogEvent>>, EngineError> {
        match self.store.log_since(cell.handle(), after).await? {
            Tail::Records(batches) => Ok(batches
                .into_iter()
                .flat_map(|batch| batch.records)
                .filter_map(|record| LogEvent::from_record(cell.ids(), record).map(Arc::new))
                .collect()),
            // The tail is kept for an hour after the end: only a reader that stopped for that long sees this.
            Tail::Gone => Err(EngineError::StoreUnavailable),
        }
    }

    /// Folds a task up to a seq. Returns `None` if its log does not reach back that far.
    pub(super) async fn task_at(&self, cell: &TaskCell, seq: u64) -> Result<Option<Arc<Encoded<Task>>>, EngineError> {
        let permit = self.handles.limits.task(cell.log_bytes()).await?;
        let (mut task, mut at) = (fold::empty(cell.ids()), 0);
        while at < seq {
            let Tail::Records(batches) = self.store.log_since(cell.handle(), at).await? else { return Ok(None) };
            let before = at;
            let records = batches.into_iter().flat_map(|batch| batch.records);
            for record in records.take_while(|record| record.seq <= seq) {
                at = record.seq;
                if let Some(event) = LogEvent::from_record(cell.ids(), record) {
                    fold::apply(&mut task, &event);
                }
            }
            if at == before {
                return Ok(None);
            }
        }
        let mut task = Arc::new(Encoded::new(task));
        Encoded::charge(&mut task, permit);
        Ok(Some(task))
    }
}

/// Returns what was read of a task for a list, or `None` if it is damaged or was deleted since its row was read. Any other
/// error is one of the whole list.
fn listed<T>(row: &TaskRow, read: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match read {
        Err(EngineError::Damaged) => {
            tracing::warn!(task = %row.id, "a damaged task is left out of a list");
            Ok(None)
        }
        Err(EngineError::NotFound) => Ok(None),
        read => read.map(Some),
    }
}

/// Brings a fold up to date with what the log holds behind it. Without one, folds the log from its checkpoint on.
fn fold_log(row: &TaskRow, known: Option<OpenFold>, log: LogRead) -> Result<OpenFold, EngineError> {
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
        return complete(row, fold);
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
    complete(row, fold)
}

/// Checks that a fold is not older than the row, which was read before the log.
///
/// # Errors
/// [`EngineError::Damaged`] if the log ends before the state of the row.
fn complete(row: &TaskRow, fold: OpenFold) -> Result<OpenFold, EngineError> {
    let entered = fold.task.value().status.as_ref().and_then(|status| status.timestamp.as_ref()).map(micros);
    // Timestamps are as precise as milliseconds at least.
    if entered.is_some_and(|entered| entered.div_euclid(1000) >= row.status_us.div_euclid(1000)) {
        return Ok(fold);
    }
    Err(EngineError::Damaged)
}

fn ids(row: &TaskRow) -> Ids {
    Ids { task: row.id.to_string().into(), context: Arc::clone(&row.context) }
}
