//! `tricord list`: lists tasks, latest first.

use std::io::{self, Write as _};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use tricord_bindings::wkt::Timestamp;

use super::connect::Connect;
use super::exit::{Exit, Failure};
use super::parts;
use super::print::Printer;
use super::terminal;
use crate::schema::{ListTasksRequest, ListTasksResponse, TaskState};

const STATES: [&str; 8] =
    ["submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required"];

/// List tasks, latest first
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only tasks in this state
    #[arg(short, long, value_name = "STATE", value_parser = PossibleValuesParser::new(STATES).map(state))]
    state: Option<TaskState>,

    /// Only tasks of this context
    #[arg(short, long, value_name = "ID")]
    context: Option<String>,

    /// Only tasks whose state changed at this time or later, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = |text: &str| text.parse::<Timestamp>())]
    after: Option<Timestamp>,

    /// Tasks per page, 1 to 100 [default: 50]
    #[arg(short = 'n', long, value_name = "N")]
    page_size: Option<i32>,

    /// The token of the page to show, as printed with the page before
    #[arg(long, value_name = "TOKEN", conflicts_with = "all")]
    page_token: Option<String>,

    /// Show all pages
    #[arg(short, long)]
    all: bool,

    /// Include artifacts; only shown with --json
    #[arg(long)]
    artifacts: bool,

    /// How many of the newest messages of each task to include; only shown with --json [default: none, all with --json]
    #[arg(long, value_name = "N")]
    history_length: Option<i32>,

    #[command(flatten)]
    pub(super) connect: Connect,
}

fn state(word: String) -> TaskState {
    let name = format!("TASK_STATE_{}", word.to_ascii_uppercase().replace('-', "_"));
    TaskState::from_str_name(&name).unwrap_or_default()
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let json = args.connect.json;
    let client = args.connect.client().await?;
    let mut request = ListTasksRequest {
        context_id: args.context.unwrap_or_default(),
        status: args.state.unwrap_or_default().into(),
        page_size: args.page_size,
        page_token: args.page_token.unwrap_or_default(),
        history_length: args.history_length.or(if json { None } else { Some(0) }),
        status_timestamp_after: args.after,
        include_artifacts: args.artifacts.then_some(true),
        ..ListTasksRequest::default()
    };
    loop {
        let page = client.list_tasks(request.clone()).await?;
        match json {
            true => Printer::new(true).json(&page)?,
            false => show(&page)?,
        }
        if page.next_page_token.is_empty() {
            return Ok(Exit::Done);
        }
        if !args.all {
            if !json {
                let _ = writeln!(
                    terminal::stderr(),
                    "{} of {} tasks; next page: --page-token {}",
                    page.tasks.len(),
                    page.total_size,
                    page.next_page_token
                );
            }
            return Ok(Exit::Done);
        }
        request.page_token = page.next_page_token;
    }
}

fn show(page: &ListTasksResponse) -> io::Result<()> {
    let mut out = terminal::stdout();
    for task in &page.tasks {
        let status = task.status.as_ref();
        let state = parts::state_name(status.map(|status| status.state()).unwrap_or_default());
        let time = status.and_then(|status| status.timestamp).map(|time| time.to_string()).unwrap_or_default();
        writeln!(out, "{}  {state:14}  {time}  {}", task.id, task.context_id)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_name() {
        for word in STATES {
            assert_ne!(state(word.to_owned()), TaskState::Unspecified, "{word}");
            assert_eq!(parts::state_name(state(word.to_owned())), word);
        }
    }
}
