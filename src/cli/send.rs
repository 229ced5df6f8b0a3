//! `tricord send`: sends a message and prints the answer.

use super::connect::Connect;
use super::exit::{Exit, Failure};
use super::message::MessageArgs;
use super::print::Printer;
use crate::schema::send_message_response::Payload;
use crate::schema::{StreamResponse, stream_response};

/// Send a message and wait for the answer
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    message: MessageArgs,

    /// Do not wait for the task to end
    #[arg(long)]
    return_immediately: bool,

    #[command(flatten)]
    pub(super) connect: Connect,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let request = args.message.request(args.return_immediately)?;
    let client = args.connect.client_with(args.message.idempotency_key.as_deref()).await?;
    let answer = client.send(request).await?;
    let mut printer = Printer::new(args.connect.json);
    // The printer takes events, which hold the same payloads.
    let payload = answer.payload.map(|payload| match payload {
        Payload::Task(task) => stream_response::Payload::Task(task),
        Payload::Message(message) => stream_response::Payload::Message(message),
    });
    printer.event(&StreamResponse { payload })?;
    Ok(printer.finish()?)
}
