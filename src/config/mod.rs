//! The configuration of a server: one plain value, read from a file, the environment and flags.
//!
//! Everything in [`Config`] is checked: addresses parse, names are unique, files exist. Problems come back as
//! [`Problems`], all at once, each with file, line and key. Each section of the file has one module here, which holds
//! its type, its defaults and its reader.

mod agents;
mod card;
mod limits;
mod log;
mod server;
mod sources;
mod store;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

pub use crate::agents::{AgentKind, OnRestart};
pub use crate::limits::EngineLimits;
pub use crate::memory::MemoryLimits;
pub use crate::settings::{Network, Problem, Problems, Secret};
pub use crate::store::StoreUrl;
pub use agents::AgentConfig;
pub use card::{CardConfig, ExtensionConfig, ProviderConfig, SkillConfig};
pub use limits::LimitsConfig;
pub use log::{LogConfig, LogFormat, ProtocolOptions};
pub use server::{AdminConfig, CardKey, ServerConfig, TlsConfig};
pub use sources::Sources;
pub use store::StoreConfig;

pub(crate) use server::CARD_MAX_AGE;

use crate::settings::read::text;
use crate::settings::{Section, value};

/// Reads a duration as the file has it: a whole number and ms, s, m, h or d.
///
/// # Errors
/// A message that says what is wrong.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    value::duration(text)
}

/// Reads a store's URL as the file has it.
///
/// # Errors
/// A message that says what is wrong.
pub fn parse_store_url(text: &str) -> Result<StoreUrl, String> {
    store::url(text)
}

/// The whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`: the public port.
    pub server: ServerConfig,
    /// `[admin]`: the port for operators.
    pub admin: AdminConfig,
    /// `[limits]`: how much work is accepted.
    pub limits: LimitsConfig,
    /// `[store]`: where tasks are kept.
    pub store: StoreConfig,
    /// `[protocol]`: how requests are interpreted.
    pub protocol: ProtocolOptions,
    /// `[log]`: what is written to stderr.
    pub log: LogConfig,
    /// `[[agents]]`: at least one, with unique names.
    pub agents: Vec<AgentConfig>,
    /// `server.default_agent`: the agent of a request without a tenant; the name of one of [`Config::agents`].
    pub default_agent: String,
}

impl Config {
    /// Returns the defaults: one `echo` agent on 127.0.0.1:8080.
    ///
    /// # Panics
    /// Never: a test checks that the defaults are valid.
    pub fn defaults() -> Self {
        Sources::default().load().expect("the defaults are valid")
    }

    /// Returns the URL that cards advertise, without `base_path` and without a trailing slash: `server.public_url`, or
    /// else the bound address, with 127.0.0.1 in place of an unspecified address.
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

    /// Returns warnings about settings that are allowed but likely a mistake.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.server.listen.ip().is_unspecified() && self.server.public_url.is_none() {
            warnings.push(
                "server.public_url is not set: cards advertise 127.0.0.1, which other machines cannot reach".to_owned(),
            );
        }
        if let Some(url) = &self.server.public_url
            && !self.server.base_path.is_empty()
            && url.ends_with(&self.server.base_path)
        {
            warnings.push(format!(
                "server.public_url ends with server.base_path: cards advertise {url}{}, with the path twice",
                self.server.base_path
            ));
        }
        if !self.store.url.is_durable() {
            warnings.push(format!("store.url is \"{}\": tasks are lost when the server stops", self.store.url));
        }
        warnings
    }

    fn read(mut root: Section<'_>) -> Self {
        let mut section = root.section("server");
        let default_agent = section.get("default_agent", text);
        let server = server::read(&mut section);
        let admin = server::read_admin(root.section("admin"));
        let limits = limits::read(root.section("limits"));
        let store = store::read(root.section("store"));
        let protocol = log::read_protocol(root.section("protocol"));
        let log = log::read(root.section("log"));
        let agents = agents::read(&mut root);
        // Where no agent could be read, that is reported already.
        if let Some(name) = &default_agent
            && !agents.is_empty()
            && !agents.iter().any(|agent| agent.name == *name)
        {
            let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
            section.problem("default_agent", format!("no agent is named {name:?}: use one of {}", names.join(", ")));
        }
        let default_agent = default_agent.or_else(|| Some(agents.first()?.name.clone())).unwrap_or_default();
        section.finish();
        root.finish();
        Self { server, admin, limits, store, protocol, log, agents, default_agent }
    }
}
