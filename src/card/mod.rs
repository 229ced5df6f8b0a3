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
/// The interfaces of the default agent name no tenant, so that clients without support for tenants reach it. Those of
/// other agents name the agent.
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
    let tenant = if agent.name == config.default_agent { "" } else { &agent.name };
    let web = format!("{public_url}{}", config.server.base_path);
    let interface = |url: String, binding: Binding| AgentInterface {
        url,
        protocol_binding: binding_name(binding).to_owned(),
        tenant: tenant.to_owned(),
        protocol_version: VERSION.to_owned(),
    };
    vec![
        interface(web.clone(), Binding::JsonRpc),
        interface(grpc_target(public_url), Binding::Grpc),
        interface(web, Binding::HttpJson),
    ]
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
    fn only_agents_that_are_not_the_default_name_a_tenant() {
        let cards = cards(
            "[server]\npublic_url = 'https://a.example/x/'\nbase_path = '/v1'\n[[agents]]\nkind = 'echo'\n[[agents]]\nname = 'kit'\nkind = 'conformance'",
        );
        let first = ["JSONRPC https://a.example/x/v1 ", "GRPC a.example:443 ", "HTTP+JSON https://a.example/x/v1 "];
        assert_eq!(lines(&cards[0]), first);
        assert_eq!(lines(&cards[1]), first.map(|line| format!("{line}kit")));
    }

    #[test]
    fn the_bound_address_is_advertised_where_none_is_configured() {
        let cards = cards("");
        assert_eq!(lines(&cards[0])[1], "GRPC 127.0.0.1:8080 ");
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
