//! The flags that all commands which call an agent share.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use tricord_bindings::client::CallOptions;

use super::exit::Failure;
use crate::client::{Binding, Client, ClientSettings};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connect {
    /// The address of the agent or of its card
    #[arg(
        short,
        long,
        env = "TRICORD_URL",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL",
        hide_env_values = true
    )]
    pub(super) url: String,

    /// The protocol binding to use [default: the card's first]
    #[arg(
        short,
        long,
        value_name = "BINDING",
        value_parser = PossibleValuesParser::new(Binding::ALL.map(Binding::name)).try_map(|name| name.parse::<Binding>())
    )]
    binding: Option<Binding>,

    /// The tenant to call, which selects one of the server's agents [default: the card's]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// A bearer token
    #[arg(long, env = "TRICORD_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// A header for every request, as 'Name: value' (metadata on gRPC); repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,

    /// The URI of a protocol extension to use; repeatable
    #[arg(long = "extension", value_name = "URI")]
    extensions: Vec<String>,

    /// Another host that the card may direct calls to, with credentials; repeatable
    #[arg(long = "trust-host", value_name = "HOST")]
    trusted_hosts: Vec<String>,

    /// How long to wait, such as 30s or 5m [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::parse_duration)]
    timeout: Option<Duration>,

    /// Print JSON, one document per line
    #[arg(long)]
    pub(super) json: bool,
}

impl Connect {
    /// Returns how long the command may take.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the settings of the client.
    pub(super) fn settings(&self) -> Result<ClientSettings, Failure> {
        let mut options = CallOptions::new();
        if let Some(timeout) = self.timeout {
            options = options.timeout(timeout);
        }
        for uri in &self.extensions {
            options = options.extension(uri);
        }
        let settings = ClientSettings {
            binding: self.binding,
            trusted_hosts: self.trusted_hosts.clone(),
            tenant: self.tenant.clone(),
            options,
            ..ClientSettings::default()
        };
        Ok(settings.with_headers(self.headers()?))
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
            let mut value =
                value.map_err(|_| Failure::usage("--token contains characters that are not allowed in a header"))?;
            value.set_sensitive(true);
            headers.insert(http::header::AUTHORIZATION, value);
        }
        for line in &self.headers {
            let wrong = || Failure::usage(format!("--header {line:?} is not a header: write it as 'Name: value'"));
            let (name, value) = line.split_once(':').ok_or_else(wrong)?;
            let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(headers)
    }

    /// Connects to the agent.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        self.client_with(None).await
    }

    /// Connects to the agent and sets the idempotency key of its calls.
    pub(super) async fn client_with(&self, idempotency_key: Option<&str>) -> Result<Client, Failure> {
        let mut settings = self.settings()?;
        if let Some(key) = idempotency_key {
            settings.options = settings.options.idempotency_key(key)?;
        }
        Ok(Client::connect(&self.url, settings).await?)
    }
}
