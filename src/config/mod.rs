//! What `tricord serve` is told: one plain value, read from a file, the environment and the command line.
//!
//! Everything in [`Config`] is checked already: an address is an address, an agent's name is free, a file exists. What
//! is wrong comes back as [`Problems`], all of it at once, each with file, line and key.

mod agents;
mod load;
mod located;
mod problem;
mod section;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use crate::store::StoreUrl;
pub use load::Sources;
pub use problem::{Problem, Problems};
pub use value::{Network, Secret};

/// Reads a duration as the file has it: a whole number and ms, s, m, h or d.
///
/// # Errors
/// With what is wrong, for people.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    value::duration(text)
}

/// Reads a store's address as the file has it.
///
/// # Errors
/// With what is wrong, for people.
pub fn parse_store_url(text: &str) -> Result<StoreUrl, String> {
    load::store_url(text)
}

/// The whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The public port.
    pub server: ServerConfig,
    /// The operators' port.
    pub admin: AdminConfig,
    /// What is refused before it hurts.
    pub limits: LimitsConfig,
    /// Where tasks are kept.
    pub store: StoreConfig,
    /// How the protocol is read.
    pub protocol: ProtocolOptions,
    /// What is written to stderr.
    pub log: LogConfig,
    /// The agents, at least one; names are unique.
    pub agents: Vec<AgentConfig>,
    /// The name of the agent that a request without a tenant means; one of [`Config::agents`].
    pub default_agent: String,
}

/// `[server]`: the public port.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `listen`: where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// `public_url`: what cards advertise, without a trailing slash; see [`Config::public_url`].
    pub public_url: Option<String>,
    /// `base_path`: what every path begins with: empty, or `/segment…` without a trailing slash.
    pub base_path: String,
    /// `tls`: certificate and key, if the port speaks TLS.
    pub tls: Option<TlsConfig>,
    /// `card_max_age`: how long clients and caches may keep a card without asking again.
    pub card_max_age: Duration,
    /// `card_keys`: what cards are signed with; every key signs every card.
    pub card_keys: Vec<CardKey>,
    /// `cors_origins`: web origins whose pages may call, or `*`; none by default.
    pub cors_origins: Vec<String>,
    /// `cors_credentials`: whether pages of these origins may call with the cookies that the browser holds; never with
    /// `*`.
    pub cors_credentials: bool,
    /// `trusted_proxies`: who is believed when it says whose request it passes on (`X-Forwarded-For`). Only logs show it.
    pub trusted_proxies: Vec<Network>,
    /// `ping_interval`: silence on an event stream after which a comment is sent; `None` for never.
    pub ping_interval: Option<Duration>,
    /// `keep_alive`: how often an HTTP/2 peer is asked whether it is there, and how long it has to answer; not 0.
    pub keep_alive: Duration,
    /// `grace`: how long runs may go on after a SIGTERM.
    pub grace: Duration,
}

/// `[[server.card_keys]]`: a key that cards are signed with.
#[derive(Debug, Clone)]
pub struct CardKey {
    /// `key`: the private key, P-256 or Ed25519, as PKCS#8 in PEM.
    pub key: Secret,
    /// `kid`: its name in signatures; its thumbprint (RFC 7638) by default.
    pub kid: Option<String>,
}

/// `[server.tls]`: PEM files.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// `cert`: the certificate chain.
    pub cert: PathBuf,
    /// `key`: its private key.
    pub key: PathBuf,
}

/// `[admin]`: the operators' port.
#[derive(Debug, Clone, Default)]
pub struct AdminConfig {
    /// `listen`: a loopback address; `None` for no such port.
    pub listen: Option<SocketAddr>,
}

/// `[limits]`: what is refused before it hurts. Sizes in bytes.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// `body`: one request body.
    pub body: u64,
    /// `bodies_in_flight`: all request bodies being read or worked on.
    pub bodies_in_flight: u64,
    /// `running_tasks`: runs at one time.
    pub running_tasks: u32,
    /// `streams`: open event streams at one time.
    pub streams: u32,
    /// `uncommitted`: events admitted and not yet stored, of all tasks.
    pub uncommitted: u64,
    /// `uncommitted_per_run`: the same of one run.
    pub uncommitted_per_run: u64,
    /// `task_records`: records of one task.
    pub task_records: u32,
    /// `task_size`: bytes of one task.
    pub task_size: u64,
}

/// `[store]`: where tasks are kept.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `url`: which store.
    pub url: StoreUrl,
    /// `keep_finished`: how long a finished task is kept; `None` for ever.
    pub keep_finished: Option<Duration>,
}

/// `[protocol]`: how the protocol is read.
#[derive(Debug, Clone, Default)]
pub struct ProtocolOptions {
    /// `assume_version`: the version of a request that names none; `None` keeps the protocol's own rule.
    pub assume_version: Option<String>,
}

/// `[log]`: what is written to stderr.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// `format`: how a line looks.
    pub format: LogFormat,
    /// `level`: `error`, `warn`, `info`, `debug`, `trace`, or a list such as `info,tricord::engine=debug`.
    pub level: String,
    /// `access`: a line for every call that got past the door.
    pub access: bool,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object.
    Json,
}

/// `[[agents]]`: one agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// `name`: its tenant on the wire, its segment in paths.
    pub name: String,
    /// `kind`: what does the work.
    pub kind: AgentKind,
    /// `on_restart`: what becomes of a run that a crash or restart cut off.
    pub on_restart: OnRestart,
    /// `cancel_grace`: how long a cancelled run may tidy up.
    pub cancel_grace: Duration,
    /// `dedupe_message_id`: a message id names one message only, so that a repeated one is a retry.
    pub dedupe_message_id: bool,
    /// `streaming`: events can be followed as they come; without it the two operations that stream are refused.
    pub streaming: bool,
    /// `card`: what the card says.
    pub card: CardConfig,
}

/// What does the work.
#[derive(Debug, Clone)]
pub enum AgentKind {
    /// Sends back what it is sent.
    Echo,
    /// Runs a command for every turn.
    Exec(ExecConfig),
    /// The scripted agent that conformance tests talk to.
    Conformance,
    /// A Rust type that the program brings; no file can name it.
    Rust,
}

impl AgentKind {
    /// The value of `kind` in the file.
    pub fn name(&self) -> &'static str {
        match self {
            AgentKind::Echo => "echo",
            AgentKind::Exec(_) => "exec",
            AgentKind::Conformance => "conformance",
            AgentKind::Rust => "rust",
        }
    }
}

/// What an `exec` agent runs.
#[derive(Debug, Clone)]
pub struct ExecConfig {
    /// `command`: the program and its arguments; at least the program.
    pub command: Vec<String>,
    /// `directory`: where it runs; the server's own directory by default.
    pub directory: Option<PathBuf>,
    /// `environment`: variables set beside the few of the server's own that are passed on; values may be secrets.
    pub environment: BTreeMap<String, Secret>,
    /// `concurrency`: how many run at once; further tasks wait.
    pub concurrency: u32,
    /// `max_line`: the longest line of output, in bytes; a longer one fails the task.
    pub max_line: u64,
    /// `max_output`: the most output of a turn, in bytes; more fails the task.
    pub max_output: u64,
}

/// What becomes of a run that a crash or restart cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRestart {
    /// The task fails, with a message that says why.
    Fail,
    /// The run starts again.
    Resume,
}

/// `[agents.card]`: what an agent's card says beside what the server knows itself.
#[derive(Debug, Clone)]
pub struct CardConfig {
    /// `name`: for people; the agent's name by default.
    pub name: String,
    /// `description`: for people.
    pub description: String,
    /// `version`: of the agent.
    pub version: String,
    /// `documentation_url`.
    pub documentation_url: Option<String>,
    /// `icon_url`.
    pub icon_url: Option<String>,
    /// `provider`: who runs it.
    pub provider: Option<ProviderConfig>,
    /// `input_modes`: media types read, at least one.
    pub input_modes: Vec<String>,
    /// `output_modes`: media types written, at least one.
    pub output_modes: Vec<String>,
    /// `extensions`: extensions of the protocol that the agent knows.
    pub extensions: Vec<ExtensionConfig>,
    /// `skills`: at least one; ids are unique.
    pub skills: Vec<SkillConfig>,
}

/// `[agents.card.provider]`: who runs an agent.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// `organization`.
    pub organization: String,
    /// `url`.
    pub url: String,
}

/// `[[agents.card.extensions]]`: an extension of the protocol.
#[derive(Debug, Clone)]
pub struct ExtensionConfig {
    /// `uri`: its name.
    pub uri: String,
    /// `description`.
    pub description: String,
    /// `required`: a caller who does not name it is refused.
    pub required: bool,
}

/// `[[agents.card.skills]]`: something that an agent can be asked for.
#[derive(Debug, Clone)]
pub struct SkillConfig {
    /// `id`.
    pub id: String,
    /// `name`.
    pub name: String,
    /// `description`.
    pub description: String,
    /// `tags`, at least one.
    pub tags: Vec<String>,
    /// `examples`.
    pub examples: Vec<String>,
    /// `input_modes`: empty for the card's.
    pub input_modes: Vec<String>,
    /// `output_modes`: empty for the card's.
    pub output_modes: Vec<String>,
}

impl Config {
    /// The configuration of a server that is told nothing: one `echo` agent, all defaults.
    ///
    /// # Panics
    /// Never: the defaults are valid, which a test holds.
    pub fn defaults() -> Self {
        Sources::default().load().expect("the defaults are valid")
    }

    /// What cards advertise, without `base_path` and without a trailing slash: `server.public_url`, or else the address
    /// that was really bound, with 127.0.0.1 in place of "every address".
    pub fn public_url(&self, bound: SocketAddr) -> String {
        if let Some(url) = &self.server.public_url {
            return url.clone();
        }
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        if bound.ip().is_unspecified() {
            return format!("{scheme}://127.0.0.1:{}", bound.port());
        }
        format!("{scheme}://{bound}")
    }

    /// What is allowed and still likely a mistake, for people.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.server.listen.ip().is_unspecified() && self.server.public_url.is_none() {
            warnings.push(
                "server.public_url is not set: cards advertise 127.0.0.1, which no other machine can reach".to_owned(),
            );
        }
        if let Some(url) = &self.server.public_url
            && !self.server.base_path.is_empty()
            && url.ends_with(&self.server.base_path)
        {
            warnings.push(format!(
                "server.public_url ends with server.base_path: cards advertise {url}{}, the path twice",
                self.server.base_path
            ));
        }
        if self.store.url == StoreUrl::Memory {
            warnings.push("store.url is memory: tasks are gone when the server stops".to_owned());
        }
        warnings
    }
}
