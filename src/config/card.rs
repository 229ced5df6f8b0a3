//! `[agents.card]`: what an agent's card says in addition to what the server knows itself.

use std::collections::BTreeSet;

use crate::agents::AgentKind;
use crate::settings::Section;
use crate::settings::located::Value;
use crate::settings::read::{boolean, media_types, parsed, text, texts};
use crate::settings::value::url;

/// `[agents.card]`: what an agent's card says in addition to what the server knows itself.
#[derive(Debug, Clone)]
pub struct CardConfig {
    /// `name`: the name for people; the agent's name by default.
    pub name: String,
    /// `description`: what the agent does, for people.
    pub description: String,
    /// `version`: the version of the agent.
    pub version: String,
    /// `documentation_url`: a page about the agent.
    pub documentation_url: Option<String>,
    /// `icon_url`: an image.
    pub icon_url: Option<String>,
    /// `provider`: the organisation that runs the agent.
    pub provider: Option<ProviderConfig>,
    /// `input_modes`: the media types that the agent reads, at least one.
    pub input_modes: Vec<String>,
    /// `output_modes`: the media types that the agent writes, at least one.
    pub output_modes: Vec<String>,
    /// `extensions`: the extensions of the protocol that the agent supports.
    pub extensions: Vec<ExtensionConfig>,
    /// `skills`: at least one, with unique ids.
    pub skills: Vec<SkillConfig>,
}

/// `[agents.card.provider]`: the organisation that runs an agent.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// `organization`: its name.
    pub organization: String,
    /// `url`: its web site.
    pub url: String,
}

/// `[[agents.card.extensions]]`: an extension of the protocol.
#[derive(Debug, Clone)]
pub struct ExtensionConfig {
    /// `uri`: the extension's identifier.
    pub uri: String,
    /// `description`: how the agent uses it.
    pub description: String,
    /// `required`: whether callers that do not use it are refused.
    pub required: bool,
}

/// `[[agents.card.skills]]`: something that an agent can do.
#[derive(Debug, Clone)]
pub struct SkillConfig {
    /// `id`: unique in the card.
    pub id: String,
    /// `name`: the name for people.
    pub name: String,
    /// `description`: what the skill does.
    pub description: String,
    /// `tags`: keywords, at least one.
    pub tags: Vec<String>,
    /// `examples`: messages that use the skill.
    pub examples: Vec<String>,
    /// `input_modes`: media types; empty for the card's.
    pub input_modes: Vec<String>,
    /// `output_modes`: media types; empty for the card's.
    pub output_modes: Vec<String>,
}

/// Reads `[agents.card]` of the agent of this name and kind.
pub(super) fn read(mut section: Section<'_>, agent: &str, kind: &AgentKind) -> CardConfig {
    let default = kind.card_defaults();
    let owned = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect();
    let at_least_one = |value: &Value| match media_types(value)? {
        modes if modes.is_empty() => Err("is empty: list at least one media type".to_owned()),
        modes => Ok(modes),
    };
    let name = section.get("name", text).unwrap_or_else(|| agent.to_owned());
    let description = section.get("description", text).unwrap_or_else(|| default.description.to_owned());
    let version = section.get("version", text).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    let documentation_url = section.get("documentation_url", parsed(url));
    let icon_url = section.get("icon_url", parsed(url));
    let provider = section.has("provider").then(|| provider(section.section("provider"))).flatten();
    let input_modes = section.get("input_modes", at_least_one).unwrap_or_else(|| owned(default.input_modes));
    let output_modes = section.get("output_modes", at_least_one).unwrap_or_else(|| owned(default.output_modes));
    let extensions = section.sections("extensions").unwrap_or_default().into_iter().filter_map(extension).collect();
    let skills = if section.has("skills") {
        skills(&mut section)
    } else {
        let skill = SkillConfig {
            id: kind.name().to_owned(),
            name: name.clone(),
            description: description.clone(),
            tags: vec![kind.name().to_owned()],
            examples: Vec::new(),
            input_modes: Vec::new(),
            output_modes: Vec::new(),
        };
        vec![skill]
    };
    section.know(&["provider", "skills"]);
    section.finish();
    CardConfig {
        name,
        description,
        version,
        documentation_url,
        icon_url,
        provider,
        input_modes,
        output_modes,
        extensions,
        skills,
    }
}

fn provider(mut section: Section<'_>) -> Option<ProviderConfig> {
    let organization = section.required("organization", text);
    let url = section.required("url", parsed(url));
    section.finish();
    Some(ProviderConfig { organization: organization?, url: url? })
}

fn extension(mut section: Section<'_>) -> Option<ExtensionConfig> {
    let uri = section.required("uri", text);
    let description = section.get("description", text).unwrap_or_default();
    let required = section.get("required", boolean).unwrap_or(false);
    section.finish();
    Some(ExtensionConfig { uri: uri?, description, required })
}

fn skills(card: &mut Section<'_>) -> Vec<SkillConfig> {
    let sections = card.sections("skills");
    if sections.as_ref().is_some_and(Vec::is_empty) {
        card.problem("skills", "is empty: list at least one skill, or remove the key for a default one");
    }
    let mut ids = BTreeSet::new();
    sections.unwrap_or_default().into_iter().filter_map(|section| skill(section, &mut ids)).collect()
}

fn skill(mut section: Section<'_>, ids: &mut BTreeSet<String>) -> Option<SkillConfig> {
    let id = section.required("id", text);
    if let Some(id) = &id
        && !ids.insert(id.clone())
    {
        section.problem("id", format!("another skill already has the id {id:?}: choose another id"));
    }
    let name = section.get("name", text).or_else(|| id.clone());
    let description = section.get("description", text).or_else(|| name.clone());
    let tags = section.get("tags", texts).filter(|tags| !tags.is_empty()).or_else(|| Some(vec![id.clone()?]));
    let examples = section.get("examples", texts).unwrap_or_default();
    let input_modes = section.get("input_modes", media_types).unwrap_or_default();
    let output_modes = section.get("output_modes", media_types).unwrap_or_default();
    section.finish();
    Some(SkillConfig {
        id: id?,
        name: name?,
        description: description?,
        tags: tags?,
        examples,
        input_modes,
        output_modes,
    })
}
