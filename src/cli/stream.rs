//! `tricord stream`: sends a message and prints events as they arrive.

use super::connect::Connect;
use super::exit::{Exit, Failure};
use super::message::MessageArgs;
use super::print::Printer;
use crate::client::Follow;

/// Send a message and show the answer as it grows
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    message: MessageArgs,

    #[command(flatten)]
    pub(super) connect: Connect,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let request = args.message.request(false)?;
    let client = args.connect.client_with(args.message.idempotency_key.as_deref()).await?;
    let printer = match args.message.task {
        Some(_) => Printer::of_follow_up(args.connect.json),
        None => Printer::new(args.connect.json),
    };
    show(client.stream(request).await?, printer).await
}

/// Shows events to the end.
pub(super) async fn show(mut events: Follow, mut printer: Printer) -> Result<Exit, Failure> {
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => printer.event(&event)?,
            Err(error) => {
                // Ends the current line before the error is printed.
                printer.finish()?;
                return Err(error.into());
            }
        }
    }
    Ok(printer.finish()?)
}
