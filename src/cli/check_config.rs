//! `tricord check-config`: checks a configuration without serving.

use std::io::Write as _;

use super::exit::{Exit, Failure};
use super::serve::ConfigArgs;
use super::terminal;
use crate::Launch;

/// Check a configuration and report all of its problems
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn run(args: Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    Launch::from_config(config.clone()).check()?;
    let name = args.config.file().map_or_else(|| "the configuration".to_owned(), |path| path.display().to_string());
    let mut out = terminal::stdout();
    writeln!(out, "{name} is valid")?;
    writeln!(out, "listen  {}", config.server.listen)?;
    writeln!(out, "store   {}", config.store.url)?;
    for agent in &config.agents {
        let default = if agent.name == config.default_agent { ", the default" } else { "" };
        writeln!(out, "agent   {} ({}{default})", agent.name, agent.kind.name())?;
    }
    out.flush()?;
    for warning in config.warnings() {
        let _ = writeln!(terminal::stderr(), "warning: {warning}");
    }
    Ok(Exit::Done)
}
