//! `tricord card lint`: reports problems of a card.

use std::io::Write as _;

use serde_json::json;

use super::source::Source;
use crate::card::{Level, lint};
use crate::cli::exit::{Exit, Failure};
use crate::cli::print::Printer;
use crate::cli::terminal;

/// Report the problems of any agent's card
///
/// Errors violate the protocol; warnings are likely mistakes or cause trouble with some clients. The exit code is 1 if
/// there are errors.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) source: Source,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let found = args.source.read().await?;
    let findings = lint(&found.json);
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    if args.source.connect.json {
        let mut printer = Printer::new(true);
        for finding in &findings {
            let level = if finding.level == Level::Error { "error" } else { "warning" };
            printer.json(&json!({"level": level, "path": finding.path, "text": finding.text}))?;
        }
    } else {
        let mut out = terminal::stdout();
        for finding in &findings {
            writeln!(out, "{finding}")?;
        }
        match findings.len() {
            0 => writeln!(out, "{}: no problems", found.name)?,
            all => writeln!(out, "{}: {}, {}", found.name, count(errors, "error"), count(all - errors, "warning"))?,
        }
        out.flush()?;
    }
    Ok(if errors == 0 { Exit::Done } else { Exit::Failed })
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
