//! The command line: one file per command, and what commands share.

mod cancel;
mod card;
mod check_config;
mod completions;
mod connect;
mod exit;
mod get;
mod list;
mod message;
mod parts;
mod print;
mod send;
mod serve;
mod store;
mod stream;
mod subscribe;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::{Exit, Failure};

/// Serve agents over A2A, and call them.
#[derive(Debug, Parser)]
#[command(
    name = "tricord",
    version,
    max_term_width = 100,
    after_help = "\
Exit codes: 0 success; 1 the task failed, was rejected or canceled, or a check failed; 2 wrong usage or configuration; 3 the \
server returned an error; 4 the server could not be reached; 5 the task needs input or authorisation."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Send(send::Args),
    Stream(stream::Args),
    Get(get::Args),
    List(list::Args),
    Cancel(cancel::Args),
    Subscribe(subscribe::Args),
    Card(card::Args),
    CheckConfig(check_config::Args),
    Store(store::Args),
    Completions(completions::Args),
}

/// Runs the command that the arguments name and returns the exit code.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => return serve::run(args),
        Command::Send(args) => wait(args.connect.limit(), send::run(args)),
        Command::Stream(args) => wait(args.connect.limit(), stream::run(args)),
        Command::Get(args) => wait(args.connect.limit(), get::run(args)),
        Command::List(args) => wait(args.connect.limit(), list::run(args)),
        Command::Cancel(args) => wait(args.connect.limit(), cancel::run(args)),
        Command::Subscribe(args) => wait(args.connect.limit(), subscribe::run(args)),
        Command::Card(args) => wait(args.limit(), card::run(args)),
        Command::CheckConfig(args) => check_config::run(args),
        Command::Store(args) => store::run(args),
        Command::Completions(args) => completions::run(args),
    };
    exit::code(result)
}

/// Runs a command that calls a server, for at most `limit`.
fn wait(
    limit: Option<std::time::Duration>,
    command: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let Some(limit) = limit else { return command.await };
        // Single calls have the limit as their deadline; this is for commands that make several.
        let late = |_| Failure::new(Exit::Unreachable, format!("no answer within {limit:?}"));
        tokio::time::timeout(limit, command).await.map_err(late)?
    });
    // Does not wait for a thread that may still read standard input.
    runtime.shutdown_background();
    result
}
