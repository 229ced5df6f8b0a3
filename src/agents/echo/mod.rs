//! The demo agent: says back what it was told, a word at a time.

use super::{Agent, AgentError, TaskContext};

/// Says back what it was told, a word at a time, as one artifact.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

impl Agent for Echo {
    async fn run(&self, task: TaskContext) -> Result<(), AgentError> {
        task.working("").await?;
        let mut answer = task.artifact("answer");
        for word in task.text().split_inclusive(' ') {
            answer.text(word).await?;
        }
        answer.finish().await
    }

    fn may_reply(&self) -> bool {
        false
    }
}
