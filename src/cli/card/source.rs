//! Reads the card to check: from a URL, a file or standard input.

use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use tricord_bindings::client::HttpClient;

use crate::cli::connect::Connect;
use crate::cli::exit::Failure;
use crate::client;

#[derive(Debug, clap::Args)]
pub(super) struct Source {
    /// The address of the agent or of its card, a file, or - for standard input [default: --url]
    #[arg(value_name = "ADDRESS|FILE")]
    from: Option<String>,

    #[command(flatten)]
    pub(super) connect: Connect,
}

/// A card as it was read.
pub(super) struct LoadedCard {
    pub(super) json: Bytes,
    /// Its name in messages.
    pub(super) name: String,
    /// Scheme, host and port, if it was read from a URL.
    pub(super) origin: Option<String>,
}

impl Source {
    pub(super) fn limit(&self) -> Option<Duration> {
        self.connect.limit()
    }

    pub(super) async fn read(&self) -> Result<LoadedCard, Failure> {
        let from = self.from.as_deref().unwrap_or(&self.connect.url);
        if is_address(from) {
            let (json, name) = client::fetch_card(&HttpClient::new(), from, &self.connect.settings()?).await?;
            let origin = origin(&name);
            return Ok(LoadedCard { json, name, origin });
        }
        Ok(LoadedCard { json: read_file(from)?, name: from.to_owned(), origin: None })
    }
}

/// Returns whether the text is a URL. Otherwise it is the path of a file.
pub(super) fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

pub(super) fn read_file(path: &str) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    let read = match path {
        "-" => std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        path => std::fs::read(path),
    };
    let cannot = |error| format!("cannot read {path}: {error}\n  an address starts with http:// or https://");
    read.map(Bytes::from).map_err(|error| Failure::usage(cannot(error)))
}

/// Returns scheme, host and port of a URL.
pub(super) fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some(format!("{scheme}://{}:{port}", uri.host()?.to_ascii_lowercase()))
}

/// Returns whether the host of a URL is this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    let uri: Uri = url.parse().unwrap_or_default();
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
