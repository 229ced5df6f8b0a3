//! `tricord cancel`: cancels a task.

use super::connect::Connect;
use super::exit::{Exit, Failure};
use super::print::Printer;
use crate::schema::CancelTaskRequest;

/// Cancel a task
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The task's id
    #[arg(value_name = "TASK")]
    task: String,

    #[command(flatten)]
    pub(super) connect: Connect,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let client = args.connect.client().await?;
    let task = client.cancel_task(CancelTaskRequest { id: args.task, ..CancelTaskRequest::default() }).await?;
    let mut printer = Printer::new(args.connect.json);
    match args.connect.json {
        true => printer.json(&task)?,
        false => printer.task(&task)?,
    }
    printer.finish()?;
    Ok(Exit::Done)
}
