//! A backend for tests: another backend, with faults that a test sets.

use super::super::backend::{Answer, Backend, Batch, Committed, Identity, later, now};
use super::super::lock::lock;
use super::super::{
    AppendError, ListQuery, LogRead, OpenError, Options, StoreError, Tail, TaskHandle, TaskRow, registry,
};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// A backend with faults. With none set it is the one that it wraps.
pub(crate) struct Faulty {
    inner: Arc<dyn Backend>,
    faults: Arc<Faults>,
}

/// The faults of a [`Faulty`] backend, and what it has been asked so far.
#[derive(Default)]
pub(crate) struct Faults {
    state: Mutex<State>,
    asked: Condvar,
    commits_held: watch::Sender<bool>,
    logs_held: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    commits_fail: Option<StoreError>,
    reads_fail: Option<StoreError>,
    refused: HashMap<TaskHandle, AppendError>,
    commits: usize,
    logs: usize,
    probes: usize,
}

/// Holds commits or reads back until it is dropped.
pub(crate) struct Hold {
    faults: Arc<Faults>,
    held: fn(&Faults) -> &watch::Sender<bool>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        (self.held)(&self.faults).send_replace(false);
    }
}

impl Faults {
    /// Has every commit and probe fail, or work again.
    pub(crate) fn fail_commits(&self, why: Option<StoreError>) {
        lock(&self.state).commits_fail = why;
    }

    /// Has every read fail, or work again.
    pub(crate) fn fail_reads(&self, why: Option<StoreError>) {
        lock(&self.state).reads_fail = why;
    }

    /// Has the appends of one task refused.
    pub(crate) fn refuse(&self, task: TaskHandle, why: AppendError) {
        lock(&self.state).refused.insert(task, why);
    }

    /// Has commits wait before they are written.
    pub(crate) fn hold_commits(self: &Arc<Self>) -> Hold {
        self.hold(|faults| &faults.commits_held)
    }

    /// Has reads of logs wait before they are answered.
    pub(crate) fn hold_logs(self: &Arc<Self>) -> Hold {
        self.hold(|faults| &faults.logs_held)
    }

    fn hold(self: &Arc<Self>, held: fn(&Faults) -> &watch::Sender<bool>) -> Hold {
        held(self).send_replace(true);
        Hold { faults: Arc::clone(self), held }
    }

    /// Returns how many logs were asked for.
    pub(crate) fn logs(&self) -> usize {
        lock(&self.state).logs
    }

    /// Returns how many commits were asked for.
    pub(crate) fn commits(&self) -> usize {
        lock(&self.state).commits
    }

    /// Returns how many probes were asked for.
    pub(crate) fn probes(&self) -> usize {
        lock(&self.state).probes
    }

    /// Waits until so many commits were asked for.
    pub(crate) fn wait_for_commits(&self, count: usize) {
        self.wait(|state| state.commits >= count);
    }

    /// Waits until so many probes were asked for.
    pub(crate) fn wait_for_probes(&self, count: usize) {
        self.wait(|state| state.probes >= count);
    }

    fn wait(&self, reached: impl Fn(&State) -> bool) {
        let waited = self.asked.wait_timeout_while(lock(&self.state), Duration::from_secs(20), |state| !reached(state));
        assert!(!waited.unwrap().1.timed_out(), "the backend is never asked");
    }

    fn read<'a, T>(&self, answer: impl FnOnce() -> Answer<'a, T>) -> Answer<'a, T> {
        match lock(&self.state).reads_fail.clone() {
            Some(why) => now(Err(why)),
            None => answer(),
        }
    }
}

impl Faulty {
    /// Opens the store of an address, for faults to come.
    pub(crate) fn open(options: &Options) -> Result<Arc<Faulty>, OpenError> {
        Ok(Arc::new(Faulty { inner: registry::open(options)?, faults: Arc::default() }))
    }

    /// Returns the faults, to be set.
    pub(crate) fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.faults)
    }

    /// Commits what is not refused, and puts the refusals back in their places.
    async fn commit(&self, batch: &mut Batch) -> Result<Committed, StoreError> {
        let mut held = self.faults.commits_held.subscribe();
        let _ = held.wait_for(|held| !held).await;
        let refused = {
            let state = lock(&self.faults.state);
            if let Some(why) = &state.commits_fail {
                return Err(why.clone());
            }
            state.refused.clone()
        };
        let all = std::mem::take(&mut batch.appends);
        let results: Vec<_> = all.iter().map(|append| refused.get(&append.task).cloned()).collect();
        let kept = all.iter().filter(|append| !refused.contains_key(&append.task)).cloned().collect();
        batch.appends = kept;
        let committed = self.inner.commit(batch).await;
        batch.appends = all;
        let mut committed = committed?.into_iter();
        Ok(results
            .into_iter()
            .map(|refused| refused.map_or_else(|| committed.next().expect("an answer for each append"), Err))
            .collect())
    }
}

impl Backend for Faulty {
    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    fn new_task(&self, id: Uuid) -> TaskHandle {
        self.inner.new_task(id)
    }

    fn find<'a>(&'a self, agent: &'a str, owner: &'a str, id: Uuid) -> Answer<'a, Option<TaskRow>> {
        self.faults.read(|| self.inner.find(agent, owner, id))
    }

    fn find_any(&self, id: Uuid) -> Answer<'_, Option<TaskRow>> {
        self.faults.read(|| self.inner.find_any(id))
    }

    fn log(&self, task: TaskHandle, after: u64) -> Answer<'_, LogRead> {
        lock(&self.faults.state).logs += 1;
        later(async move {
            let mut held = self.faults.logs_held.subscribe();
            let _ = held.wait_for(|held| !held).await;
            self.faults.read(|| self.inner.log(task, after)).await
        })
    }

    fn log_size(&self, task: TaskHandle) -> Answer<'_, usize> {
        self.faults.read(|| self.inner.log_size(task))
    }

    fn large_log(&self, task: TaskHandle, after: u64) -> Answer<'_, LogRead> {
        lock(&self.faults.state).logs += 1;
        self.faults.read(|| self.inner.large_log(task, after))
    }

    fn logs(&self, tasks: Vec<TaskHandle>) -> Answer<'_, Vec<Result<LogRead, StoreError>>> {
        self.faults.read(|| self.inner.logs(tasks))
    }

    fn tail(&self, task: TaskHandle, after: u64) -> Answer<'_, Tail> {
        self.faults.read(|| self.inner.tail(task, after))
    }

    fn list(&self, query: &ListQuery) -> Answer<'_, Vec<TaskRow>> {
        self.faults.read(|| self.inner.list(query))
    }

    fn total(&self, query: &ListQuery) -> Answer<'_, u64> {
        self.faults.read(|| self.inner.total(query))
    }

    fn orphans(&self, after: Option<TaskHandle>, limit: u32) -> Answer<'_, Vec<TaskRow>> {
        self.faults.read(|| self.inner.orphans(after, limit))
    }

    fn commit<'a>(&'a self, batch: &'a mut Batch) -> Answer<'a, Committed> {
        lock(&self.faults.state).commits += 1;
        self.faults.asked.notify_all();
        later(self.commit(batch))
    }

    fn probe(&self) -> Answer<'_, ()> {
        let failing = {
            let mut state = lock(&self.faults.state);
            state.probes += 1;
            state.commits_fail.clone()
        };
        self.faults.asked.notify_all();
        failing.map_or_else(|| self.inner.probe(), |why| now(Err(why)))
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
