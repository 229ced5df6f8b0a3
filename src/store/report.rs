//! What an operator is told about a store: the result of a check, and its statistics.

use crate::schema::TaskState;
use std::collections::BTreeMap;

/// The problems that a report describes. Further ones are only counted.
const DESCRIBED: usize = 100;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CheckReport {
    /// The number of tasks that were checked.
    pub tasks: u64,
    /// The number of records that were checked.
    pub records: u64,
    /// Descriptions of the first hundred problems.
    pub problems: Vec<String>,
    /// The number of problems.
    pub problem_count: u64,
}

impl CheckReport {
    /// Returns whether no problem was found.
    pub(crate) fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    /// Adds a problem.
    pub(super) fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < DESCRIBED {
            self.problems.push(text);
        }
    }
}

/// The result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RepairReport {
    /// The number of tasks that were copied.
    pub tasks: u64,
    /// The number of records that were copied.
    pub records: u64,
    /// Descriptions of the first hundred tasks that were left out.
    pub lost: Vec<String>,
    /// The number of tasks that were left out.
    pub lost_count: u64,
}

impl RepairReport {
    /// Adds a task that was left out.
    pub(super) fn lost(&mut self, text: String) {
        self.lost_count += 1;
        if self.lost.len() < DESCRIBED {
            self.lost.push(text);
        }
    }
}

/// The statistics of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// The number of tasks in each state.
    pub tasks: BTreeMap<TaskState, u64>,
    /// The size of the data, in bytes.
    pub file_bytes: u64,
    /// The size of the journal, in bytes: what is committed and not yet part of the data. 0 if the backend has none.
    pub journal_bytes: u64,
    /// The part of `file_bytes` that deleted tasks left and new ones will use.
    pub free_bytes: u64,
    /// The generation, which changes when a backup is restored.
    pub generation: u32,
    /// The number of times that the store was opened.
    pub epoch: u64,
}
