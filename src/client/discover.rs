//! Finds an agent by its URL: reads the card and checks which host may get the caller's credentials.

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName, Uri};
use std::time::Duration;

use tricord_bindings::client::{CallOptions, ClientError, HttpClient};
use tricord_bindings::proto_json;

use super::Binding;
use super::choose::Choice;
use crate::protocol::CARD_PATH;
use crate::schema::AgentCard;

/// How long reading a card may take if the caller sets no limit.
const CARD_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of a client.
#[derive(Debug, Clone, Default)]
pub struct ClientSettings {
    /// The binding to use; otherwise the first usable one in the card.
    pub binding: Option<Binding>,
    /// Headers for reading the card and for every call, such as `Authorization`.
    pub headers: HeaderMap,
    /// Hosts, besides the card's own, that may get the headers if the card names them.
    pub trusted_hosts: Vec<String>,
    /// The tenant to send instead of the interface's own.
    pub tenant: Option<String>,
    /// Options of every call. [`ClientSettings::with_headers`] adds the headers to them.
    pub options: CallOptions,
}

impl ClientSettings {
    /// Sets the headers for reading the card and for every call.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        for (name, value) in &headers {
            self.options = self.options.header(name.clone(), value.clone());
        }
        self.headers.extend(headers);
        self
    }
}

/// The reason why an agent cannot be called.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// The card could not be read, or the interface's URL is invalid.
    #[error(transparent)]
    Call(#[from] ClientError),
    /// The document at the card's URL is not a card.
    #[error("{url} is not an agent card: {why}")]
    NotACard {
        /// The card's URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The card has only interfaces of other versions or bindings.
    #[error("the card offers no interface of version 1 over {wanted}; it offers: {offered}")]
    NoInterface {
        /// The bindings that the client accepts.
        wanted: String,
        /// The interfaces of the card.
        offered: String,
    },
    /// The card names another host, which would get the caller's credentials.
    #[error(
        "the card of {card} names the host {host}, which would get your {header} header; trust {host} explicitly to allow this"
    )]
    Untrusted {
        /// The card's host.
        card: String,
        /// The interface's host.
        host: String,
        /// A header that holds credentials.
        header: String,
    },
}

/// Reads a card and returns it with the URL that it was read from.
///
/// # Errors
/// When the document cannot be read or is not a card.
pub async fn read_card(
    http: &HttpClient,
    url: &str,
    settings: &ClientSettings,
) -> Result<(AgentCard, String), ConnectError> {
    let (json, address) = fetch_card(http, url, settings).await?;
    let not_a_card = |why: String| ConnectError::NotACard { url: address.clone(), why };
    let card: AgentCard = proto_json::decode(&json).map_err(|error| not_a_card(error.to_string()))?;
    if card.name.is_empty() && card.supported_interfaces.is_empty() {
        return Err(not_a_card("it has neither a name nor interfaces".to_owned()));
    }
    Ok((card, address))
}

/// Reads the document at a card's URL without checking it, and returns it with the URL that it was read from.
///
/// # Errors
/// When the document cannot be read.
pub async fn fetch_card(
    http: &HttpClient,
    url: &str,
    settings: &ClientSettings,
) -> Result<(Bytes, String), ClientError> {
    let address = card_address(url);
    let wait = settings.options.wait().unwrap_or(CARD_TIMEOUT);
    let json = http.get(&address, settings.headers.clone(), Some(wait)).await?;
    Ok((json, address))
}

/// Returns the URL of the card. A URL that ends like a document is the card's own; any other is the agent's.
fn card_address(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    if path.ends_with(".json") {
        return url.to_owned();
    }
    format!("{}{CARD_PATH}", path.trim_end_matches('/'))
}

/// Checks that credentials only go to the host that the caller named, or to hosts that the caller trusts.
pub(super) fn check_trust(address: &str, choice: &Choice, settings: &ClientSettings) -> Result<(), ConnectError> {
    let Some(header) = settings.headers.keys().find(|name| holds_credentials(name)) else { return Ok(()) };
    let place = |url: &str| {
        let uri: Uri = url.parse().unwrap_or_default();
        (uri.host().unwrap_or_default().to_ascii_lowercase(), uri.scheme_str() == Some("https"))
    };
    let (card, card_secure) = place(address);
    let (host, secure) = place(&choice.url);
    let same = card == host || (is_loopback(&card) && is_loopback(&host));
    let trusted = settings.trusted_hosts.iter().any(|trusted| trusted.eq_ignore_ascii_case(&host));
    if (same && (secure || !card_secure)) || trusted {
        return Ok(());
    }
    let host = if secure { host } else { format!("{host} (without TLS)") };
    Err(ConnectError::Untrusted { card, host, header: header.to_string() })
}

fn holds_credentials(name: &HeaderName) -> bool {
    let text = name.as_str();
    *name == AUTHORIZATION
        || *name == COOKIE
        || ["key", "token", "secret", "auth"].iter().any(|word| text.contains(word))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_url_names_the_agent_or_the_card_itself() {
        let behind = "http://a/x/.well-known/agent-card.json";
        assert_eq!(card_address("http://a/x"), behind);
        assert_eq!(card_address("http://a/x/"), behind);
        assert_eq!(card_address(behind), behind);
        assert_eq!(card_address("http://a/cards/b.json?v=1"), "http://a/cards/b.json?v=1");
    }

    #[test]
    fn credentials_only_go_to_the_host_that_the_caller_named_or_trusts() {
        let choice = |url: &str| Choice { binding: Binding::JsonRpc, url: url.into(), tenant: String::new() };
        let card = "https://a.example/.well-known/agent-card.json";
        let open = ClientSettings::default();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer x"))]);
        let secret = ClientSettings::default().with_headers(headers);
        assert_eq!(check_trust(card, &choice("https://b.example"), &open), Ok(()));
        assert_eq!(check_trust(card, &choice("https://A.example:444/x"), &secret), Ok(()));
        for elsewhere in ["https://b.example", "http://a.example"] {
            assert!(matches!(check_trust(card, &choice(elsewhere), &secret), Err(ConnectError::Untrusted { .. })));
        }
        let trusting = ClientSettings { trusted_hosts: vec!["b.example".into()], ..secret.clone() };
        assert_eq!(check_trust(card, &choice("https://b.example"), &trusting), Ok(()));
        assert_eq!(check_trust("http://localhost/c.json", &choice("http://127.0.0.1:9"), &secret), Ok(()));
    }
}
