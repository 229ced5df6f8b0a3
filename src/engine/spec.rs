//! An agent as the engine knows it.

use std::sync::Arc;
use std::time::Duration;

use crate::agents::{BoxAgent, OnRestart};

/// An agent as the engine knows it.
#[derive(Debug)]
pub struct AgentSpec {
    /// The agent's name, which is its tenant in calls.
    pub name: Arc<str>,
    /// The implementation.
    pub agent: BoxAgent,
    /// What happens to its tasks after a restart.
    pub on_restart: OnRestart,
    /// How long a run may take to end after a cancel before it is aborted.
    pub cancel_grace: Duration,
}
