//! `tricord card`: shows, verifies and checks agent cards.

mod lint;
mod source;
mod verify;

use std::io::{self, Write as _};
use std::time::Duration;

use tricord_bindings::client::HttpClient;

use super::connect::Connect;
use super::exit::{Exit, Failure};
use super::print::Printer;
use super::terminal;
use crate::client;
use crate::schema::AgentCard;

/// Show an agent's card
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// The address of the agent or of its card [default: --url]
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,

    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Verify(verify::Args),
    Lint(lint::Args),
}

impl Args {
    /// Returns how long the command may take.
    pub(super) fn limit(&self) -> Option<Duration> {
        match &self.command {
            Some(Command::Verify(args)) => args.source.limit(),
            Some(Command::Lint(args)) => args.source.limit(),
            None => self.connect.limit(),
        }
    }
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Some(Command::Verify(args)) => return verify::run(args).await,
        Some(Command::Lint(args)) => return lint::run(args).await,
        None => {}
    }
    let url = args.address.as_deref().unwrap_or(&args.connect.url);
    let (card, _) = client::read_card(&HttpClient::new(), url, &args.connect.settings()?).await?;
    match args.connect.json {
        true => Printer::new(true).json(&card)?,
        false => show(&card)?,
    }
    Ok(Exit::Done)
}

fn show(card: &AgentCard) -> io::Result<()> {
    let mut out = terminal::stdout();
    writeln!(out, "{} {}", card.name, card.version)?;
    writeln!(out, "  {}", card.description)?;
    if let Some(provider) = &card.provider {
        writeln!(out, "  by {} ({})", provider.organization, provider.url)?;
    }
    if let Some(url) = &card.documentation_url {
        writeln!(out, "  documentation: {url}")?;
    }
    writeln!(out, "\ninterfaces")?;
    for interface in &card.supported_interfaces {
        let tenant = if interface.tenant.is_empty() { String::new() } else { format!(", tenant {}", interface.tenant) };
        writeln!(
            out,
            "  {:10}  {} (version {}{tenant})",
            interface.protocol_binding, interface.url, interface.protocol_version
        )?;
    }
    writeln!(out, "\nreads   {}", card.default_input_modes.join(", "))?;
    writeln!(out, "writes  {}", card.default_output_modes.join(", "))?;
    if let Some(capabilities) = &card.capabilities {
        let offered = [
            ("streaming", capabilities.streaming),
            ("push notifications", capabilities.push_notifications),
            ("extended card", capabilities.extended_agent_card),
        ];
        let offered: Vec<_> = offered.iter().filter(|(_, on)| *on == Some(true)).map(|(name, _)| *name).collect();
        writeln!(out, "offers  {}", if offered.is_empty() { "nothing more".to_owned() } else { offered.join(", ") })?;
        for extension in &capabilities.extensions {
            let need = if extension.required { "required" } else { "optional" };
            writeln!(out, "extension {} ({need})", extension.uri)?;
        }
    }
    if !card.security_schemes.is_empty() {
        let names: Vec<_> = card.security_schemes.keys().map(String::as_str).collect();
        writeln!(out, "asks for  {}", names.join(" or "))?;
    }
    writeln!(out, "\nskills")?;
    for skill in &card.skills {
        writeln!(out, "  {} ({}): {}", skill.name, skill.id, skill.description)?;
        for example in &skill.examples {
            writeln!(out, "    {example:?}")?;
        }
    }
    out.flush()
}
