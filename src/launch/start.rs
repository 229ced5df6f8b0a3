//! From a configuration to a running engine and server, without the public port.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tricord_bindings::BindingSettings;
use tricord_bindings::body::BodyLimits;
use tricord_bindings::budget::Budget;
use tricord_bindings::server::{ConnectionLimits, Drain, open_files};

use super::{Launch, LaunchError};
use crate::agents::{BoxAgent, BuiltAgent, TestHooks};
use crate::card::{self, Document, Signer};
use crate::config::Config;
use crate::engine::{AgentSpec, Engine};
use crate::protocol;
use crate::server::admin::{self, Admin};
use crate::server::metrics::Metrics;
use crate::server::{Additional, Anonymous, BuildError, Cards, Hosts, Server, is_served};
use crate::service::{AgentProfile, Service};
use crate::store::{Health, Options, Store};

/// How long connections have to close once all runs and streams have ended.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// A configuration whose agents are made.
pub(super) struct Prepared {
    pub(super) config: Config,
    agents: Agents,
    additional: Additional,
}

/// An engine and a server that run, with the admin port if there is one.
pub(super) struct Started {
    pub(super) config: Config,
    pub(super) server: Server<Service>,
    engine: Engine,
    pub(super) public_url: String,
    pub(super) admin_address: Option<SocketAddr>,
    admin: Option<RunningAdmin>,
}

/// The admin port that runs.
struct RunningAdmin {
    drain: Drain,
    _accepting: AbortOnDropHandle<()>,
}

impl Launch {
    /// Checks the agents and makes them.
    pub(super) fn prepare(self) -> Result<Prepared, LaunchError> {
        let Self { mut config, rust, wrong, additional } = self;
        if let Some(problem) = wrong {
            return Err(LaunchError::Agent(problem));
        }
        let Some(first) = config.agents.first() else {
            return Err(LaunchError::Agent("no agent was given: add at least one".to_owned()));
        };
        if config.default_agent.is_empty() {
            config.default_agent.clone_from(&first.name);
        }
        if let Some(twice) = twice(&config) {
            return Err(LaunchError::Agent(format!("{twice}: two agents have this name: choose another")));
        }
        if !config.agents.iter().any(|agent| agent.name == config.default_agent) {
            return Err(LaunchError::Agent(format!("{}: the default agent is not served", config.default_agent)));
        }
        // Before anything runs: a start that fails must not have recovered tasks.
        additional.check_names(&config.server.base_path, &names(&config))?;
        let agents = Agents::build(&config, &rust)?;
        Ok(Prepared { config, agents, additional })
    }
}

impl Prepared {
    /// Opens the store and starts the engine and the admin port. `bound` is the address of the server's public port; `None`
    /// where the port is not the server's own.
    pub(super) async fn start(self, bound: Option<SocketAddr>) -> Result<Started, LaunchError> {
        let Self { config, agents, additional } = self;
        let admin_listener = match config.admin.listen {
            Some(address) => Some(listen("admin.listen", address).await?),
            None => None,
        };
        let public_url = config.public_url(bound.unwrap_or(config.server.listen));
        let signer = signer(&config, &public_url)?;
        let (profiles, cards) = profiles(&config, &public_url, &signer)?;
        let options = Options { url: config.store.url.clone(), keep_finished: config.store.keep_finished };
        let store = tokio::task::spawn_blocking(move || Store::open(&options)).await;
        let store = store.map_err(|panic| LaunchError::Store(panic.into()))??;
        let engine = Engine::start(store, agents.specs, config.limits.engine.clone()).await?;
        let service = Service::new(engine.clone(), profiles, &config.default_agent);
        let server = Server::builder(Arc::new(service))
            .protocol(if config.protocol.assume_version.is_some() {
                &protocol::PROTOCOL_ASSUMING_CURRENT
            } else {
                &protocol::PROTOCOL
            })
            .settings(settings(&config))
            .connections(connection_limits(&config))
            .base_path(config.server.base_path.clone())
            .cors(&config.server.cors_origins, config.server.cors_credentials)
            .public_url(config.server.public_url.as_deref())
            .advertised_url(&public_url)
            .hosts(bound.map_or_else(Hosts::any, |address| hosts(&config, address)))
            .trusted_proxies(config.server.trusted_proxies.clone())
            .cards(cards)
            .keys(signer.public())
            .max_age(config.server.card_max_age)
            .ready(readiness(&engine))
            .agents(names(&config))
            .additional(additional)
            .build(Anonymous);
        let server = match server {
            Ok(server) => server,
            Err(error) => {
                engine.close().await;
                return Err(match error {
                    BuildError::Reflection(error) => LaunchError::Reflection(error.to_string()),
                    BuildError::Conflict(conflict) => LaunchError::Conflict(conflict),
                });
            }
        };
        let admin_address = admin_listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let admin = admin_listener.zip(admin_address).map(|(listener, address)| {
            let metrics = Metrics::new(server.clone(), engine.clone());
            let hosts = hosts(&config, address);
            let admin = Admin { engine: engine.clone(), test_hooks: agents.test_hooks, metrics, hosts };
            let drain = Drain::new();
            let accepting = tokio::spawn(admin::serve(listener, admin, connection_limits(&config), drain.clone()));
            RunningAdmin { drain, _accepting: AbortOnDropHandle::new(accepting) }
        });
        Ok(Started { config, server, engine, public_url, admin_address, admin })
    }
}

impl Started {
    /// Shuts down: accepts nothing more, gives runs the configured grace while streams stay open, ends the streams, and
    /// leaves runs that have not ended to the next start.
    pub(super) async fn shut_down(self) {
        let Self { config, server, engine, admin, .. } = self;
        let runs = engine.load().runs;
        tracing::info!(runs, grace = ?config.server.grace, "stopping; waiting for runs to end");
        server.begin_stop();
        engine.drain(config.server.grace).await;
        let runs = engine.load().runs;
        if runs > 0 {
            tracing::warn!(runs, "aborting runs that did not end in time; the next start recovers their tasks");
        }
        // Before the streams end, so that they still carry the last events of runs.
        engine.close().await;
        server.end_streams();
        server.stopped(CLOSE_PATIENCE).await;
        if let Some(admin) = admin {
            admin.stop().await;
        }
    }
}

impl RunningAdmin {
    /// Closes the port and its connections.
    async fn stop(self) {
        self.drain.cut();
        self.drain.finished().await;
    }
}

impl Drop for RunningAdmin {
    fn drop(&mut self) {
        self.drain.cut();
    }
}

/// The agents, made from their settings.
pub(super) struct Agents {
    specs: Vec<AgentSpec>,
    test_hooks: Vec<Arc<dyn TestHooks>>,
}

impl Agents {
    pub(super) fn build(config: &Config, rust: &HashMap<String, BoxAgent>) -> Result<Self, LaunchError> {
        let mut agents = Self { specs: Vec::new(), test_hooks: Vec::new() };
        for agent in &config.agents {
            let wrong = |text: String| LaunchError::Agent(format!("{}: {text}", agent.name));
            let BuiltAgent { agent: built, test_hooks } = match agent.kind.settings() {
                Some(settings) => settings.build(agent.cancel_grace).map_err(wrong)?,
                None => {
                    let given = rust.get(&agent.name).cloned();
                    given.ok_or_else(|| wrong("the program gave no agent of this name".to_owned()))?.into()
                }
            };
            agents.test_hooks.extend(test_hooks);
            agents.specs.push(AgentSpec {
                name: agent.name.as_str().into(),
                agent: built,
                on_restart: agent.on_restart,
                cancel_grace: agent.cancel_grace,
            });
        }
        Ok(agents)
    }
}

/// Returns the names of the agents.
fn names(config: &Config) -> Vec<String> {
    config.agents.iter().map(|agent| agent.name.clone()).collect()
}

/// Returns a name that two agents have.
fn twice(config: &Config) -> Option<&str> {
    let mut seen = std::collections::HashSet::new();
    config.agents.iter().map(|agent| agent.name.as_str()).find(|name| !seen.insert(*name))
}

/// Makes the signer of cards. Signatures name the URL of the keys if `public_url` is configured.
pub(super) fn signer(config: &Config, public_url: &str) -> Result<Signer, LaunchError> {
    let published = || format!("{public_url}{}{}", config.server.base_path, protocol::KEYS_PATH);
    let jku = config.server.public_url.is_some().then(published);
    Signer::from_config(&config.server.card_keys, jku).map_err(|(at, source)| LaunchError::CardKey { at, source })
}

fn profiles(config: &Config, public_url: &str, signer: &Signer) -> Result<(Vec<AgentProfile>, Cards), LaunchError> {
    let now = SystemTime::now();
    let mut documents = HashMap::new();
    let mut profiles = Vec::new();
    for agent in &config.agents {
        let mut card = card::card(config, agent, public_url);
        let mut interfaces = card.supported_interfaces.iter();
        if let Some(lost) = interfaces.find(|at| !is_served(at, public_url, &config.server.base_path)) {
            return Err(LaunchError::NotServed { agent: agent.name.clone(), url: lost.url.clone() });
        }
        signer.sign(&mut card).map_err(|source| LaunchError::CardKey { at: 0, source })?;
        documents.insert(agent.name.clone(), Arc::new(Document::new(&card, now)));
        let dedupe_message_id = agent.dedupe_message_id;
        profiles.push(AgentProfile { name: agent.name.as_str().into(), card, dedupe_message_id });
    }
    let default = config.default_agent.clone();
    let cards: Cards = Arc::new(move |agent| documents.get(agent.unwrap_or(&default)).cloned());
    Ok((profiles, cards))
}

/// Binds a port.
pub(super) async fn listen(key: &'static str, address: SocketAddr) -> Result<TcpListener, LaunchError> {
    TcpListener::bind(address).await.map_err(|source| LaunchError::Listen { key, address, source })
}

/// Returns the host names that a port with this address answers to.
fn hosts(config: &Config, address: SocketAddr) -> Hosts {
    Hosts::of(address, &config.server.hosts, config.server.public_url.as_deref())
}

fn connection_limits(config: &Config) -> ConnectionLimits {
    ConnectionLimits {
        keep_alive: config.server.keep_alive,
        write: config.server.write_timeout,
        streams: config.server.streams_per_connection,
        ..ConnectionLimits::default()
    }
    .within(open_files())
}

fn settings(config: &Config) -> BindingSettings {
    let body = BodyLimits {
        bytes: config.limits.body,
        values: config.limits.request_values,
        budget: Budget::new("requests", config.limits.memory.requests),
        ..BodyLimits::default()
    };
    let answers = Budget::new("answers", config.limits.memory.answers);
    BindingSettings { body, ping: config.server.ping_interval, answers, ..BindingSettings::default() }
}

/// Watches whether the store accepts work, for `/readyz`.
fn readiness(engine: &Engine) -> watch::Receiver<bool> {
    let mut health = engine.store().health();
    let (sender, receiver) = watch::channel(matches!(*health.borrow_and_update(), Health::Ok));
    tokio::spawn(async move {
        while health.changed().await.is_ok() {
            sender.send_replace(matches!(*health.borrow_and_update(), Health::Ok));
        }
    });
    receiver
}
