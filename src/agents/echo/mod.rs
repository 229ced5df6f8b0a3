//! Agents of kind `echo`: answer with the text they receive, for demonstrations and first steps.

use std::sync::Arc;
use std::time::Duration;

use super::kind::{BuiltAgent, CardDefaults, Kind, KindSettings};
use super::{Agent, AgentError, BoxAgent, TaskContext};

/// The kind `echo`.
pub(super) static KIND: Kind = Kind {
    name: "echo",
    card: CardDefaults {
        description: "Sends back what it is sent",
        input_modes: &["text/plain"],
        output_modes: &["text/plain"],
    },
    read: |_| Some(Arc::new(Echo)),
};

/// An agent that answers with the text of the message as one artifact, word by word.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

impl KindSettings for Echo {
    fn build(&self, _: Duration) -> Result<BuiltAgent, String> {
        Ok(BoxAgent::new(Echo).into())
    }
}

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
