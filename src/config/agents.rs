//! `[[agents]]`: names, kinds and the settings that all kinds share.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use tricord_bindings::Binding;

use super::card::{self, CardConfig};
use super::server::bindings;
use crate::agents::{AgentKind, Kind, OnRestart};
use crate::protocol::SERVER_PATHS;
use crate::schema::http_json::WORDS;
use crate::settings::located::{Located, Table, Value};
use crate::settings::problem::Origin;
use crate::settings::read::{boolean, choice, parsed};
use crate::settings::value::duration;
use crate::settings::{Diagnostics, Section};

/// The kind of the agent that is served where none is configured.
const DEFAULT_KIND: &str = "echo";

/// `[[agents]]`: one agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// `name`: the agent's tenant on the wire and its segment in paths.
    pub name: String,
    /// `kind`: what does the work, with the settings of that kind.
    pub kind: AgentKind,
    /// `on_restart`: what happens to a run that a crash or a restart interrupted.
    pub on_restart: OnRestart,
    /// `cancel_grace`: how long a cancelled run may take to end.
    pub cancel_grace: Duration,
    /// `dedupe_message_id`: whether a message with an id that was seen before is a retry.
    pub dedupe_message_id: bool,
    /// `streaming`: whether the operations that stream are offered.
    pub streaming: bool,
    /// `advertise`: the bindings that the card lists, if they are not those of `server.advertise`.
    pub advertise: Option<Vec<Binding>>,
    /// `card`: what the card says.
    pub card: CardConfig,
}

impl AgentConfig {
    /// Describes an agent that the program brings, with all defaults.
    ///
    /// # Errors
    /// When the name is not 1 to 64 letters, digits, `_`, `.` or `-`, or is part of the server's own paths.
    pub fn rust(name: &str) -> Result<Self, String> {
        let name = agent_name(name)?;
        let diagnostics = Diagnostics::default();
        let section = Section::root(&diagnostics, &|_| None, Table::new());
        Ok(shared(section, name, AgentKind::RUST))
    }
}

/// Reads all agents. Without any there is one of kind `echo`.
pub(super) fn read(root: &mut Section<'_>) -> Vec<AgentConfig> {
    let configured = root.has("agents");
    let mut sections = root.sections("agents");
    if !configured {
        let kind = Located { origin: Origin::Nowhere, value: Value::Text(DEFAULT_KIND.to_owned()) };
        sections = Some(vec![root.inline("agents[0]", Table::from([("kind".to_owned(), kind)]))]);
    } else if sections.as_ref().is_some_and(Vec::is_empty) {
        root.problem("agents", "is empty: configure at least one agent, or remove the key");
    }
    let mut names = BTreeSet::new();
    sections.unwrap_or_default().into_iter().filter_map(|section| agent(section, &mut names)).collect()
}

fn agent(mut section: Section<'_>, names: &mut BTreeSet<String>) -> Option<AgentConfig> {
    if !section.has("kind") {
        section.problem("kind", format!("is missing: use one of {}", Kind::names()));
    }
    let kind = section.get("kind", parsed(kind));
    let name = section.get("name", parsed(agent_name)).or_else(|| Some(kind?.name.to_owned()));
    if let Some(name) = &name
        && !names.insert(name.clone())
    {
        section.problem("name", format!("another agent is already named {name:?}: choose another name"));
    }
    // The kind decides which keys are known, so without it nothing more can be checked.
    let kind = kind?;
    let settings = (kind.read)(&mut section);
    let is_complete = name.is_some() && settings.is_some();
    // The other keys are read in any case, so that their problems are reported too.
    let kind = settings.map_or(AgentKind::RUST, |settings| AgentKind::configured(kind, settings));
    let agent = shared(section, name.unwrap_or_default(), kind);
    is_complete.then_some(agent)
}

/// Reads the settings that all kinds share, and finishes the section.
fn shared(mut section: Section<'_>, name: String, kind: AgentKind) -> AgentConfig {
    let restarts = [("fail", OnRestart::Fail), ("resume", OnRestart::Resume)];
    let agent = AgentConfig {
        on_restart: section.get("on_restart", choice(&restarts)).unwrap_or_default(),
        cancel_grace: section.get("cancel_grace", parsed(duration)).unwrap_or(Duration::from_secs(1)),
        dedupe_message_id: section.get("dedupe_message_id", boolean).unwrap_or(false),
        streaming: section.get("streaming", boolean).unwrap_or(true),
        advertise: section.get("advertise", bindings),
        card: card::read(section.section("card"), &name, &kind),
        name,
        kind,
    };
    section.finish();
    agent
}

fn kind(name: &str) -> Result<&'static Kind, String> {
    Kind::find(name).ok_or_else(|| format!("unknown kind of agent {name:?}: use one of {}", Kind::names()))
}

/// The first segments of the paths that the server answers itself. An agent of such a name could not be reached.
static RESERVED_NAMES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let own = SERVER_PATHS.iter().filter_map(|path| path.split('/').nth(1));
    WORDS.iter().copied().chain(own).chain([".", ".."]).collect()
});

fn agent_name(name: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
        return Err(format!("{name:?} is not a name for an agent: use 1 to 64 letters, digits, _ . or -"));
    }
    if RESERVED_NAMES.contains(name) {
        return Err(format!("{name:?} is a path of the server itself: choose another name"));
    }
    Ok(name.to_owned())
}
