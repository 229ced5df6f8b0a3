//! Reading `[[agents]]`: names, kinds and what their cards say.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::located::{Table, Value};
use super::problem::Origin;
use super::section::{Diagnostics, Section, boolean, choice, count, parsed, size, text, texts};
use super::value::{Secret, duration, link};
use super::{AgentConfig, AgentKind, CardConfig, ExecConfig, ExtensionConfig, OnRestart, ProviderConfig, SkillConfig};

/// First segments of paths that the server itself answers; an agent of that name could not be reached.
const ROUTE_WORDS: [&str; 16] = [
    ".",
    "..",
    ".well-known",
    "admin",
    "extendedAgentCard",
    "grpc",
    "healthz",
    "livez",
    "message",
    "metrics",
    "openapi.json",
    "openrpc.json",
    "readyz",
    "rpc",
    "tasks",
    "v1",
];

/// Kinds that exist, but not in this binary.
const NOT_BUILT_IN: [&str; 3] = ["http", "openai", "a2a"];

/// Reads all agents; without any there is one of kind `echo`.
pub(super) fn read(root: &mut Section<'_>, env: &dyn Fn(&str) -> Option<String>) -> Vec<AgentConfig> {
    let named = root.has("agents");
    let mut sections = root.sections("agents");
    if !named {
        let kind = super::located::Located { origin: Origin::Nowhere, value: Value::Text("echo".to_owned()) };
        sections = Some(vec![root.inline("agents[0]", Table::from([("kind".to_owned(), kind)]))]);
    } else if sections.as_ref().is_some_and(Vec::is_empty) {
        root.problem("agents", "is empty: a server without agents serves nothing");
    }
    let mut names = BTreeSet::new();
    let mut agents = Vec::new();
    for section in sections.unwrap_or_default() {
        agents.extend(agent(section, &mut names, env));
    }
    agents
}

fn agent(
    mut section: Section<'_>,
    names: &mut BTreeSet<String>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<AgentConfig> {
    if !section.has("kind") {
        section.problem("kind", "is missing: echo, exec or conformance");
    }
    let kind = section.get("kind", parsed(known_kind));
    let name = section.get("name", parsed(agent_name)).or_else(|| kind.as_deref().map(str::to_owned));
    if let Some(name) = &name
        && !names.insert(name.clone())
    {
        section.problem("name", format!("another agent is named {name:?} already"));
    }
    // Which keys there are depends on the kind.
    let known = kind.is_some();
    let kind = kind.and_then(|kind| match kind.as_str() {
        "echo" => Some(AgentKind::Echo),
        "conformance" => Some(AgentKind::Conformance),
        _ => exec(&mut section, env).map(AgentKind::Exec),
    });
    let restarts = [("fail", OnRestart::Fail), ("resume", OnRestart::Resume)];
    let on_restart = section.get("on_restart", choice(&restarts)).unwrap_or(OnRestart::Fail);
    let cancel_grace = section.get("cancel_grace", parsed(duration)).unwrap_or(Duration::from_secs(1));
    let dedupe_message_id = section.get("dedupe_message_id", boolean).unwrap_or(false);
    let streaming = section.get("streaming", boolean).unwrap_or(true);
    let card =
        card(section.section("card"), name.as_deref().unwrap_or_default(), kind.as_ref().unwrap_or(&AgentKind::Echo));
    if known {
        section.finish();
    }
    Some(AgentConfig { name: name?, kind: kind?, on_restart, cancel_grace, dedupe_message_id, streaming, card })
}

impl AgentConfig {
    /// A Rust type of the program's own, with a card that says little; see [`Agent::card`] for saying more.
    ///
    /// # Errors
    /// When the name is none: 1 to 64 letters, digits, `_`, `.` or `-`, and no path of the server itself.
    pub fn rust(name: &str) -> Result<Self, String> {
        let name = agent_name(name)?;
        let diagnostics = Diagnostics::default();
        let card = Section::new(&diagnostics, String::new(), Origin::Nowhere, Table::new());
        let card = self::card(card, &name, &AgentKind::Rust);
        Ok(Self {
            name,
            kind: AgentKind::Rust,
            on_restart: OnRestart::Fail,
            cancel_grace: Duration::from_secs(1),
            dedupe_message_id: false,
            streaming: true,
            card,
        })
    }
}

fn known_kind(kind: &str) -> Result<String, String> {
    match kind {
        "echo" | "exec" | "conformance" => Ok(kind.to_owned()),
        _ if NOT_BUILT_IN.contains(&kind) => {
            Err(format!("{kind:?} is not built into this binary; built in are: echo, exec, conformance"))
        }
        _ => Err(format!("{kind:?} is no kind of agent: echo, exec or conformance")),
    }
}

fn agent_name(name: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if name.len() > 64 || !name.bytes().all(plain) {
        return Err(format!("{name:?} is no name: 1 to 64 letters, digits, _ . or -"));
    }
    if ROUTE_WORDS.contains(&name) {
        return Err(format!("{name:?} is a path of the server itself; choose another name"));
    }
    Ok(name.to_owned())
}

fn exec(section: &mut Section<'_>, env: &dyn Fn(&str) -> Option<String>) -> Option<ExecConfig> {
    if !section.has("command") {
        section.problem("command", "is missing: an exec agent needs one, such as [\"python3\", \"agent.py\"]");
    }
    let command = |value: &Value| match value {
        Value::Text(line) => Err(format!("takes a list, not a string: write [\"program\", \"argument\"] for {line:?}")),
        value => match texts(value)? {
            words if words.is_empty() => Err("is empty: name a program".to_owned()),
            words if words.iter().any(|word| word.contains('\0')) => {
                Err("holds a NUL, which no command gets".to_owned())
            }
            words => Ok(words),
        },
    };
    let secret = |value: &Value| match value {
        Value::Text(text) => match Secret::resolve(text, env).unwrap_or_else(|| Ok(Secret::new(text)))? {
            secret if secret.reveal().contains('\0') => Err("holds a NUL, which no variable can".to_owned()),
            secret => Ok(secret),
        },
        other => Err(format!("takes a string, not {}", other.kind())),
    };
    let variable = |name: &str| match name.is_empty() || name.contains(['=', '\0']) {
        true => Err(format!("{name:?} is no name of a variable")),
        false => Ok(()),
    };
    let directory = |path: &str| {
        let path = PathBuf::from(path);
        if path.is_dir() { Ok(path) } else { Err(format!("{} is no directory", path.display())) }
    };
    let command = section.get("command", command);
    let directory = section.get("directory", parsed(directory));
    let environment = section.entries("environment", variable, secret);
    let concurrency = section.get("concurrency", count).unwrap_or(64);
    let max_line = section.get("max_line", size).unwrap_or(1 << 20);
    let max_output = section.get("max_output", size).unwrap_or(16 << 20);
    Some(ExecConfig { command: command?, directory, environment, concurrency, max_line, max_output })
}

fn card(mut section: Section<'_>, agent: &str, kind: &AgentKind) -> CardConfig {
    let (description, modes): (&str, (&[&str], &[&str])) = match kind {
        AgentKind::Echo => ("Sends back what it is sent", (&["text/plain"], &["text/plain"])),
        AgentKind::Rust => ("Answers messages", (&["text/plain"], &["text/plain"])),
        AgentKind::Exec(_) => ("Runs a command", (&["text/plain", "application/json"], &["text/plain"])),
        AgentKind::Conformance => (
            "Does what conformance tests tell it to",
            (
                &["text/plain", "application/json", "application/octet-stream"],
                &["text/plain", "application/json", "application/octet-stream"],
            ),
        ),
    };
    let owned = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect();
    let at_least_one = |value: &Value| match media_types(value)? {
        modes if modes.is_empty() => Err("is empty: a card needs at least one".to_owned()),
        modes => Ok(modes),
    };
    let name = section.get("name", text).unwrap_or_else(|| agent.to_owned());
    let description = section.get("description", text).unwrap_or_else(|| description.to_owned());
    let version = section.get("version", text).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    let documentation_url = section.get("documentation_url", parsed(link));
    let icon_url = section.get("icon_url", parsed(link));
    let provider = section.has("provider").then(|| provider(section.section("provider"))).flatten();
    let input_modes = section.get("input_modes", at_least_one).unwrap_or_else(|| owned(modes.0));
    let output_modes = section.get("output_modes", at_least_one).unwrap_or_else(|| owned(modes.1));
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
    let url = section.required("url", parsed(link));
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
        card.problem("skills", "is empty: a card needs at least one skill; leave the key out for the kind's own");
    }
    let mut ids = BTreeSet::new();
    sections.unwrap_or_default().into_iter().filter_map(|section| skill(section, &mut ids)).collect()
}

fn skill(mut section: Section<'_>, ids: &mut BTreeSet<String>) -> Option<SkillConfig> {
    let id = section.required("id", text);
    if let Some(id) = &id
        && !ids.insert(id.clone())
    {
        section.problem("id", format!("another skill has the id {id:?} already"));
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

fn media_types(value: &Value) -> Result<Vec<String>, String> {
    let modes = texts(value)?;
    for mode in &modes {
        let token =
            |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+*".contains(&b));
        let essence = mode.split(';').next().unwrap_or(mode).trim();
        if !essence.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub)) {
            return Err(format!("{mode:?} is no media type: write it like \"text/plain\""));
        }
    }
    Ok(modes)
}
