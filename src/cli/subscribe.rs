//! `tricord subscribe`: prints the events of a running task as they arrive.

use super::connect::Connect;
use super::exit::{Exit, Failure};
use super::print::Printer;
use super::stream;

/// Follow a task to its end
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The task's id
    #[arg(value_name = "TASK")]
    task: String,

    /// Start after the event with this id
    #[arg(long, value_name = "ID")]
    last_event_id: Option<String>,

    #[command(flatten)]
    pub(super) connect: Connect,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let client = args.connect.client().await?;
    let events = client.follow(&args.task, args.last_event_id.as_deref()).await?;
    stream::show(events, Printer::new(args.connect.json)).await
}
