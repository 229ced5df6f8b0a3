//! Chooses the interface of a card to call.

use tricord_bindings::Binding;
use tricord_bindings::client::{AnyTransport, ClientError, Grpc, HttpClient, HttpJson, JsonRpc};

use super::ConnectError;
use crate::protocol::{BINDING_NAMES, PROTOCOL, binding_name, binding_of};
use crate::schema::{AgentCard, AgentInterface};

/// The chosen interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its binding.
    pub binding: Binding,
    /// The URL, with a scheme for every binding.
    pub url: String,
    /// The tenant to send.
    pub tenant: String,
}

/// Chooses the first interface of the card that has version 1 and a binding of this client, and the wanted one if any.
pub(super) fn choose(card: &AgentCard, address: &str, wanted: Option<Binding>) -> Result<Choice, ConnectError> {
    for interface in &card.supported_interfaces {
        let Some(binding) = binding_of(&interface.protocol_binding) else { continue };
        let version_1 = interface.protocol_version.split('.').next() == Some("1");
        if !version_1 || wanted.is_some_and(|wanted| wanted != binding) {
            continue;
        }
        let url = match binding {
            // A gRPC interface is `host:port`. It uses TLS if the card was read over TLS.
            Binding::Grpc if !interface.url.contains("://") => {
                let scheme = if address.starts_with("https:") { "https" } else { "http" };
                format!("{scheme}://{}", interface.url)
            }
            _ => interface.url.clone(),
        };
        return Ok(Choice { binding, url, tenant: interface.tenant.clone() });
    }
    let line = |i: &AgentInterface| format!("{} (version {})", i.protocol_binding, i.protocol_version);
    let offered: Vec<_> = card.supported_interfaces.iter().map(line).collect();
    Err(ConnectError::NoInterface {
        wanted: wanted.map_or(BINDING_NAMES, binding_name).to_owned(),
        offered: if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") },
    })
}

pub(super) fn transport(http: HttpClient, choice: &Choice) -> Result<AnyTransport, ClientError> {
    Ok(match choice.binding {
        Binding::Grpc => AnyTransport::Grpc(Grpc::new(&choice.url, &PROTOCOL)?),
        Binding::JsonRpc => AnyTransport::JsonRpc(JsonRpc::new(http, &choice.url, &PROTOCOL)?),
        Binding::HttpJson => AnyTransport::HttpJson(HttpJson::new(http, &choice.url, &PROTOCOL)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(interfaces: &[(&str, &str, &str, &str)]) -> AgentCard {
        let interface = |(binding, url, tenant, version): &(&str, &str, &str, &str)| AgentInterface {
            url: (*url).to_owned(),
            protocol_binding: (*binding).to_owned(),
            tenant: (*tenant).to_owned(),
            protocol_version: (*version).to_owned(),
        };
        AgentCard { supported_interfaces: interfaces.iter().map(interface).collect(), ..AgentCard::default() }
    }

    #[test]
    fn the_first_usable_interface_is_chosen() {
        let card = card(&[
            ("urn:other", "x", "", "1.0"),
            ("JSONRPC", "http://a/old", "", "0.3"),
            ("GRPC", "a:443", "t", "1.0"),
            ("HTTP+JSON", "https://a", "", "1.1"),
        ]);
        let chosen = choose(&card, "https://a/.well-known/agent-card.json", None).unwrap();
        assert_eq!(chosen, Choice { binding: Binding::Grpc, url: "https://a:443".into(), tenant: "t".into() });
        let chosen = choose(&card, "http://a/card.json", Some(Binding::HttpJson)).unwrap();
        assert_eq!(chosen.url, "https://a");
    }

    #[test]
    fn the_error_for_a_card_without_a_usable_interface_lists_its_interfaces() {
        let error = choose(&card(&[("JSONRPC", "http://a", "", "0.3")]), "http://a", None).unwrap_err();
        let text = "the card offers no interface of version 1 over GRPC, JSONRPC or HTTP+JSON; it offers: JSONRPC (version 0.3)";
        assert_eq!(error.to_string(), text);
        let error = choose(&card(&[]), "http://a", Some(Binding::Grpc)).unwrap_err();
        assert_eq!(error.to_string(), "the card offers no interface of version 1 over GRPC; it offers: nothing");
    }
}
