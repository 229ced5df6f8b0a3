//! `tricord get`: shows the current state of a task.

use std::io::{self, Write as _};

use super::connect::Connect;
use super::exit::{Exit, Failure};
use super::parts;
use super::print::Printer;
use super::terminal;
use crate::schema::{GetTaskRequest, Message, Role, Task};

/// Show the current state of a task
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The task's id
    #[arg(value_name = "TASK")]
    task: String,

    /// How many of the newest messages to show [default: all]
    #[arg(long, value_name = "N")]
    history_length: Option<i32>,

    #[command(flatten)]
    pub(super) connect: Connect,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let client = args.connect.client().await?;
    let request = GetTaskRequest { id: args.task, history_length: args.history_length, ..GetTaskRequest::default() };
    let task = client.get_task(request).await?;
    match args.connect.json {
        true => Printer::new(true).json(&task)?,
        false => show(&task)?,
    }
    Ok(Exit::Done)
}

/// Writes everything that a task contains.
pub(super) fn show(task: &Task) -> io::Result<()> {
    let mut out = terminal::stdout();
    writeln!(out, "task     {}", task.id)?;
    writeln!(out, "context  {}", task.context_id)?;
    if let Some(status) = &task.status {
        let since = status.timestamp.map(|time| format!(" since {time}")).unwrap_or_default();
        writeln!(out, "state    {}{since}", parts::state_name(status.state()))?;
        if let Some(message) = &status.message {
            indented(&mut out, &parts::text(&message.parts))?;
        }
    }
    for artifact in &task.artifacts {
        let name = if artifact.name.is_empty() { &artifact.artifact_id } else { &artifact.name };
        writeln!(out, "\nartifact {name}")?;
        indented(&mut out, &parts::text(&artifact.parts))?;
    }
    if !task.history.is_empty() {
        writeln!(out, "\nhistory")?;
    }
    for message in &task.history {
        writeln!(out, "  {}:", speaker(message))?;
        indented(&mut out, &parts::text(&message.parts))?;
    }
    out.flush()
}

fn speaker(message: &Message) -> &'static str {
    match message.role() {
        Role::User => "user",
        Role::Agent => "agent",
        Role::Unspecified => "unknown",
    }
}

fn indented(out: &mut impl io::Write, text: &str) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "    {line}"))
}
