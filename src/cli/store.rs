//! `tricord store`: checks, backs up and describes a store's file.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Subcommand;

use super::exit::{Exit, Failure};
use super::parts;
use super::terminal;
use crate::store::{self, StoreUrl};

/// Check, back up and describe the store
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,

    /// The URL of the store
    #[arg(short, long, env = "TRICORD_STORE__URL", global = true, value_name = "URL", default_value_t, value_parser = crate::config::parse_store_url)]
    store: StoreUrl,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the store for damage; works while the server runs
    Check,
    /// Copy every task that is whole into a new store
    ///
    /// The damaged store stays as it is. Stop the server, repair, and start it on the new store.
    Repair {
        /// The file of the new store
        #[arg(value_name = "PATH")]
        to: PathBuf,
    },
    /// Copy the store into a new file; works while the server runs
    Backup {
        /// The file to write
        #[arg(value_name = "PATH")]
        to: PathBuf,
    },
    /// Mark the store as restored from a backup, before the server starts
    ///
    /// Otherwise a client that saw events after the backup would take new events for those.
    Restored,
    /// Show the number of tasks and the size of the store
    Stats {
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(args: Args) -> Result<Exit, Failure> {
    let mut out = terminal::stdout();
    let exit = match args.command {
        Command::Check => check(&mut out, &args.store)?,
        Command::Repair { to } => {
            let report = store::repair(&args.store, &to)?;
            for lost in &report.lost {
                writeln!(out, "left out: {lost}")?;
            }
            let (tasks, records, lost) = (report.tasks, report.records, report.lost_count);
            writeln!(out, "{tasks} tasks and {records} records copied to {}, {lost} left out", to.display())?;
            Exit::Done
        }
        Command::Backup { to } => {
            store::backup(&args.store, &to)?;
            writeln!(out, "{} is a copy of {}", to.display(), args.store)?;
            Exit::Done
        }
        Command::Restored => {
            let generation = store::restored(&args.store)?;
            writeln!(out, "{} now has generation {generation}", args.store)?;
            Exit::Done
        }
        Command::Stats { json } => {
            stats(&mut out, &args.store, json)?;
            Exit::Done
        }
    };
    out.flush()?;
    Ok(exit)
}

fn check(out: &mut impl io::Write, url: &StoreUrl) -> Result<Exit, Failure> {
    let report = store::check(url)?;
    for problem in &report.problems {
        writeln!(out, "{problem}")?;
    }
    writeln!(out, "{} tasks, {} records, {} problems", report.tasks, report.records, report.problem_count)?;
    Ok(if report.is_sound() { Exit::Done } else { Exit::Failed })
}

fn stats(out: &mut impl io::Write, url: &StoreUrl, json: bool) -> Result<(), Failure> {
    let stats = store::stats(url)?;
    let tasks: Vec<_> = stats.tasks.iter().map(|(state, count)| (parts::state_name(*state), *count)).collect();
    if json {
        let document = serde_json::json!({
            "tasks": tasks.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "fileBytes": stats.file_bytes,
            "journalBytes": stats.journal_bytes,
            "freeBytes": stats.free_bytes,
            "generation": stats.generation,
            "epoch": stats.epoch,
        });
        writeln!(out, "{document}")?;
        return Ok(());
    }
    for (state, count) in &tasks {
        writeln!(out, "{state:14}  {count}")?;
    }
    writeln!(out, "file            {} bytes, {} of them free", stats.file_bytes, stats.free_bytes)?;
    writeln!(out, "journal         {} bytes", stats.journal_bytes)?;
    writeln!(out, "generation      {}", stats.generation)?;
    Ok(())
}
