//! Agent cards: builds and signs the cards of this server's agents, and verifies and checks the cards of others.

mod canonical;
mod document;
mod jwk;
mod lint;
mod sign;
mod verify;

pub use canonical::{Form, canonicalize};
#[doc(hidden)]
pub use document::Document;
pub use jwk::{ALGORITHMS, Jwk, JwkSet, KeyError};
pub use lint::{Finding, Level, lint};
pub use sign::SigningError;
#[doc(hidden)]
pub use sign::{Signer, SigningKey};
pub use verify::{Coverage, Header, SignedCard, VerifyError};

use tricord_bindings::Binding;

use crate::config::{self, Config};
use crate::protocol::{VERSION, binding_name};
use crate::schema::{AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentProvider, AgentSkill};

/// Builds the card of one agent. `public_url` is what [`Config::public_url`] returns for the bound address.
///
/// The interfaces of the default agent name no tenant. Another agent has URLs of its own over HTTP and names no tenant
/// either, because some clients drop it and would reach the default agent. gRPC has no such URLs, so that its interface
/// names the agent.
pub(crate) fn card(config: &Config, agent: &config::AgentConfig, public_url: &str) -> AgentCard {
    let card = &agent.card;
    AgentCard {
        name: card.name.clone(),
        description: card.description.clone(),
        supported_interfaces: interfaces(config, agent, public_url),
        provider: card
            .provider
            .as_ref()
            .map(|p| AgentProvider { url: p.url.clone(), organization: p.organization.clone() }),
        version: card.version.clone(),
        documentation_url: card.documentation_url.clone(),
        capabilities: Some(AgentCapabilities {
            streaming: Some(agent.streaming),
            push_notifications: Some(false),
            extensions: card.extensions.iter().map(extension).collect(),
            extended_agent_card: None,
        }),
        default_input_modes: card.input_modes.clone(),
        default_output_modes: card.output_modes.clone(),
        skills: card.skills.iter().map(skill).collect(),
        icon_url: card.icon_url.clone(),
        ..AgentCard::default()
    }
}

fn interfaces(config: &Config, agent: &config::AgentConfig, public_url: &str) -> Vec<AgentInterface> {
    let (tenant, path) = match agent.name == config.default_agent {
        true => ("", String::new()),
        false => (agent.name.as_str(), format!("/{}", agent.name)),
    };
    let interface = |binding: Binding| {
        let (url, tenant) = match binding {
            Binding::Grpc => (grpc_target(public_url), tenant),
            Binding::JsonRpc | Binding::HttpJson => (format!("{public_url}{}{path}", config.server.base_path), ""),
        };
        AgentInterface {
            url,
            protocol_binding: binding_name(binding).to_owned(),
            tenant: tenant.to_owned(),
            protocol_version: VERSION.to_owned(),
        }
    };
    let advertised = agent.advertise.as_ref().unwrap_or(&config.server.advertise);
    advertised.iter().copied().map(interface).collect()
}

/// Returns the `host:port` of a URL.
fn grpc_target(url: &str) -> String {
    let uri: http::Uri = url.parse().unwrap_or_default();
    let port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(port))
}

fn extension(extension: &config::ExtensionConfig) -> AgentExtension {
    AgentExtension {
        uri: extension.uri.clone(),
        description: extension.description.clone(),
        required: extension.required,
        params: None,
    }
}

fn skill(skill: &config::SkillConfig) -> AgentSkill {
    AgentSkill {
        id: skill.id.clone(),
        name: skill.name.clone(),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
        examples: skill.examples.clone(),
        input_modes: skill.input_modes.clone(),
        output_modes: skill.output_modes.clone(),
        security_requirements: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::config::Sources;

    fn cards(text: &str) -> Vec<AgentCard> {
        let config = Sources::default().text("t.toml", text).load().unwrap();
        let url = config.public_url(([127, 0, 0, 1], 8080).into());
        config.agents.iter().map(|agent| card(&config, agent, &url)).collect()
    }

    fn lines(card: &AgentCard) -> Vec<String> {
        let line = |i: &AgentInterface| format!("{} {} {}", i.protocol_binding, i.url, i.tenant);
        card.supported_interfaces.iter().map(line).collect()
    }

    #[test]
    fn other_agents_have_urls_of_their_own_and_a_tenant_over_grpc() {
        let cards = cards(
            "[server]\npublic_url = 'https://a.example/x/'\nbase_path = '/v1'\n[[agents]]\nkind = 'echo'\n[[agents]]\nname = 'kit'\nkind = 'conformance'",
        );
        let web = "https://a.example/x/v1";
        let lines_of = |web: &str, tenant: &str| {
            [format!("JSONRPC {web} "), format!("HTTP+JSON {web} "), format!("GRPC a.example:443 {tenant}")]
        };
        assert_eq!(lines(&cards[0]), lines_of(web, ""));
        assert_eq!(lines(&cards[1]), lines_of(&format!("{web}/kit"), "kit"));
    }

    #[test]
    fn the_configuration_chooses_the_bindings_that_cards_list() {
        let cards = cards(
            "[server]\nadvertise = ['HTTP+JSON', 'JSONRPC']\n[[agents]]\nkind = 'echo'\n[[agents]]\nname = 'kit'\nkind = 'conformance'\nadvertise = ['GRPC']",
        );
        assert_eq!(lines(&cards[0]), ["HTTP+JSON http://127.0.0.1:8080 ", "JSONRPC http://127.0.0.1:8080 "]);
        assert_eq!(lines(&cards[1]), ["GRPC 127.0.0.1:8080 kit"]);
    }

    #[test]
    fn a_list_of_bindings_that_cards_cannot_have_is_refused() {
        for (list, problem) in [
            ("['HTTP']", "\"HTTP\" is not a binding: list some of \"JSONRPC\", \"HTTP+JSON\" and \"GRPC\""),
            ("['GRPC', 'GRPC']", "lists GRPC twice"),
            ("[]", "is empty: a card lists at least one binding"),
        ] {
            let text = format!("[server]\nadvertise = {list}");
            let problems = Sources::default().text("t.toml", &text).load().unwrap_err().to_string();
            assert!(problems.contains(problem), "{problems}");
        }
    }

    #[test]
    fn the_bound_address_is_advertised_where_none_is_configured() {
        let cards = cards("");
        assert_eq!(lines(&cards[0])[2], "GRPC 127.0.0.1:8080 ");
        assert_eq!(cards[0].supported_interfaces[0].url, "http://127.0.0.1:8080");
        assert_eq!(cards[0].supported_interfaces[0].protocol_version, "1.0");
    }

    #[test]
    fn the_document_has_every_required_key_and_a_tag_of_its_content() {
        let cards = cards("");
        let document = Document::new(&cards[0], SystemTime::UNIX_EPOCH);
        let json: serde_json::Value = serde_json::from_slice(&document.json).unwrap();
        for key in [
            "name",
            "description",
            "supportedInterfaces",
            "version",
            "capabilities",
            "defaultInputModes",
            "defaultOutputModes",
            "skills",
        ] {
            assert!(!json[key].is_null(), "{key} in {json}");
        }
        assert_eq!(json["capabilities"], serde_json::json!({"streaming": true, "pushNotifications": false}));
        assert_eq!(document.etag.len(), 34);
        assert_eq!(document.etag, Document::new(&cards[0], SystemTime::now()).etag);
        let other = AgentCard { name: "other".into(), ..cards[0].clone() };
        assert_ne!(document.etag, Document::new(&other, SystemTime::now()).etag);
    }
}
