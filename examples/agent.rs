//! An agent in Rust, served on all three bindings: `cargo run --release --example agent`.

use tricord::Launch;
use tricord::agents::{Agent, AgentError, TaskContext};

struct Shout;

impl Agent for Shout {
    async fn run(&self, task: TaskContext) -> Result<(), AgentError> {
        let mut answer = task.artifact("answer");
        for word in task.text().split_inclusive(' ') {
            answer.text(word.to_uppercase()).await?;
        }
        answer.finish().await
    }
}

#[tokio::main]
async fn main() -> Result<(), tricord::LaunchError> {
    Launch::new().agent("shout", Shout).run().await
}
