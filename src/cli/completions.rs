//! `tricord completions`: prints a completion script for a shell.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;
use super::exit::{Exit, Failure};

/// Print a completion script for a shell
///
/// For bash: tricord completions bash > ~/.local/share/bash-completion/completions/tricord
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tricord", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Done)
}
