//! How tasks ended, counted by agent and terminal state.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::schema::TaskState;

/// The terminal states, in the order of the counters.
const STATES: [TaskState; 4] = [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];

/// Counters of ended tasks. Agents are known from the start, so that a count takes no lock.
#[derive(Debug)]
pub(super) struct Outcomes(HashMap<Arc<str>, [AtomicU64; STATES.len()]>);

/// How many tasks of one agent ended in one state since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOutcome {
    /// The agent.
    pub agent: Arc<str>,
    /// The terminal state.
    pub state: TaskState,
    /// The number of tasks.
    pub count: u64,
}

impl Outcomes {
    pub(super) fn new<'a>(agents: impl Iterator<Item = &'a Arc<str>>) -> Self {
        Self(agents.map(|agent| (Arc::clone(agent), Default::default())).collect())
    }

    /// Counts a task whose terminal state was committed.
    pub(super) fn count(&self, agent: &str, state: TaskState) {
        let counters = self.0.get(agent).zip(STATES.iter().position(|known| *known == state));
        if let Some((counters, at)) = counters {
            counters[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts so far, zeros included, by agent.
    pub(super) fn read(&self) -> Vec<TaskOutcome> {
        let mut outcomes: Vec<_> = self
            .0
            .iter()
            .flat_map(|(agent, counters)| {
                STATES.iter().zip(counters).map(|(state, count)| TaskOutcome {
                    agent: Arc::clone(agent),
                    state: *state,
                    count: count.load(Ordering::Relaxed),
                })
            })
            .collect();
        outcomes.sort_by(|a, b| a.agent.cmp(&b.agent));
        outcomes
    }
}
