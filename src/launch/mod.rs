//! Starts a server from a configuration and agents: opens the store, starts the engine and binds the ports.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tricord_bindings::BindingSettings;
use tricord_bindings::body::{BodyLimits, Budget};
use tricord_bindings::server::{ConnectionLimits, acceptor, raise_open_files};

use crate::agents::{Agent, BoxAgent, BuiltAgent, TestHooks};
use crate::card::{self, Document, Signer};
use crate::config::{self, Config};
use crate::engine::{AgentSpec, Engine};
use crate::protocol;
use crate::server::admin::{self, Admin};
use crate::server::metrics::Metrics;
use crate::server::{Anonymous, Cards, Server, is_served};
use crate::service::{AgentProfile, Service};
use crate::store::{Health, Options, Store, StoreUrl};

mod error;
mod signal;

pub use error::LaunchError;
pub use signal::shutdown_signal;

/// How long connections have to close once all runs and streams have ended.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// A server that is not started yet: its configuration and its agents.
///
/// ```no_run
/// use tricord::Launch;
/// use tricord::agents::{TaskContext, from_fn};
///
/// # async fn example() -> Result<(), tricord::LaunchError> {
/// let shout = from_fn(|task: TaskContext| async move { task.reply(task.text().to_uppercase()).await });
/// Launch::new().agent("shout", shout).run().await
/// # }
/// ```
#[derive(Debug)]
pub struct Launch {
    config: Config,
    rust: HashMap<String, BoxAgent>,
    wrong: Option<String>,
}

impl Default for Launch {
    fn default() -> Self {
        Self::new()
    }
}

impl Launch {
    /// Creates a server with all defaults and no agents: 127.0.0.1:8080, tasks in `./tricord.db`.
    pub fn new() -> Self {
        let mut config = Config::defaults();
        config.agents.clear();
        config.default_agent.clear();
        Self::from_config(config)
    }

    /// Creates a server from a configuration.
    pub fn from_config(config: Config) -> Self {
        Self { config, rust: HashMap::new(), wrong: None }
    }

    /// Adds an agent. The first one is the default agent, which needs no tenant.
    #[must_use]
    pub fn agent(self, name: &str, agent: impl Agent) -> Self {
        self.agent_with(name, agent, |_| {})
    }

    /// Adds an agent and changes its settings, such as its card or what happens after a restart.
    #[must_use]
    pub fn agent_with(mut self, name: &str, agent: impl Agent, edit: impl FnOnce(&mut config::AgentConfig)) -> Self {
        match config::AgentConfig::rust(name) {
            Ok(mut config) => {
                edit(&mut config);
                self.config.agents.push(config);
                self.rust.insert(name.to_owned(), BoxAgent::new(agent));
            }
            Err(problem) => self.wrong = Some(problem),
        }
        self
    }

    /// Sets the address to listen on. Port 0 takes a free port.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.config.server.listen = address;
        self
    }

    /// Sets the store.
    #[must_use]
    pub fn store(mut self, url: StoreUrl) -> Self {
        self.config.store.url = url;
        self
    }

    /// Changes any other setting.
    #[must_use]
    pub fn configure(mut self, edit: impl FnOnce(&mut Config)) -> Self {
        edit(&mut self.config);
        self
    }

    /// Checks what can be checked without opening a store or a port: agents, TLS files and card keys.
    ///
    /// # Errors
    /// The first problem that would prevent a start.
    pub fn check(&self) -> Result<(), LaunchError> {
        self.config.server.tls.as_ref().map(tls).transpose()?;
        signer(&self.config, "")?;
        Agents::build(&self.config, &self.rust).map(drop)
    }

    /// Opens the store, recovers tasks that an earlier process left unfinished, and binds the ports.
    ///
    /// # Errors
    /// The reason why the server cannot start. No port or store stays open.
    pub async fn bind(self) -> Result<Running, LaunchError> {
        let Self { mut config, rust, wrong } = self;
        if let Some(problem) = wrong {
            return Err(LaunchError::Agent(problem));
        }
        let Some(first) = config.agents.first() else {
            return Err(LaunchError::Agent("no agent was given: add at least one".to_owned()));
        };
        if config.default_agent.is_empty() {
            config.default_agent.clone_from(&first.name);
        }
        raise_open_files();
        let tls = config.server.tls.as_ref().map(tls).transpose()?;
        let agents = Agents::build(&config, &rust)?;
        let listener = listen("server.listen", config.server.listen).await?;
        let admin_listener = match config.admin.listen {
            Some(address) => Some(listen("admin.listen", address).await?),
            None => None,
        };
        let bound = |listener: &TcpListener| listener.local_addr();
        let address = bound(&listener).map_err(|source| LaunchError::Listen {
            key: "server.listen",
            address: config.server.listen,
            source,
        })?;
        let public_url = config.public_url(address);
        let signer = signer(&config, &public_url)?;
        let (profiles, cards) = profiles(&config, &public_url, &signer)?;
        let options = Options { url: config.store.url.clone(), keep_finished: config.store.keep_finished };
        let store = tokio::task::spawn_blocking(move || Store::open(&options)).await;
        let store = store.map_err(|e| LaunchError::Agent(e.to_string()))??;
        let engine = Engine::start(store, agents.specs, config.limits.engine.clone()).await?;
        let service = Service::new(engine.clone(), profiles, &config.default_agent);
        let server = Server::builder(Arc::new(service))
            .protocol(if config.protocol.assume_version.is_some() {
                &protocol::PROTOCOL_ASSUMING_CURRENT
            } else {
                &protocol::PROTOCOL
            })
            .settings(settings(&config))
            .connections(ConnectionLimits { keep_alive: config.server.keep_alive, ..ConnectionLimits::default() })
            .base_path(config.server.base_path.clone())
            .cors(&config.server.cors_origins, config.server.cors_credentials)
            .trusted_proxies(config.server.trusted_proxies.clone())
            .cards(cards)
            .keys(signer.public())
            .max_age(config.server.card_max_age)
            .ready(readiness(&engine))
            .build(Anonymous)
            .map_err(|error| LaunchError::Reflection(error.to_string()))?;
        let admin_address = admin_listener.as_ref().and_then(|listener| bound(listener).ok());
        let admin = admin_listener.map(|listener| {
            let server = server.clone();
            let metrics = Metrics::new(server, engine.clone());
            let admin = Admin { engine: engine.clone(), test_hooks: agents.test_hooks, metrics };
            tokio::spawn(admin::serve(listener, admin))
        });
        Ok(Running { config, server, engine, listener, tls, address, public_url, admin_address, admin })
    }

    /// Serves until the process gets SIGTERM or SIGINT, then shuts down gracefully.
    ///
    /// # Errors
    /// The reason why the server cannot start.
    pub async fn run(self) -> Result<(), LaunchError> {
        let stop = shutdown_signal();
        let running = self.bind().await?;
        tracing::info!(url = running.public_url(), "serving");
        running.serve(stop).await;
        Ok(())
    }
}

/// A server whose ports are bound. [`serve`](Running::serve) runs it.
pub struct Running {
    config: Config,
    server: Server<Service>,
    engine: Engine,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    address: SocketAddr,
    public_url: String,
    admin_address: Option<SocketAddr>,
    admin: Option<tokio::task::JoinHandle<()>>,
}

impl Running {
    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the address of the public port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the admin port, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Returns the URL that cards advertise, without the base path.
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Serves until `stop` resolves, then shuts down: accepts nothing more, gives runs the configured grace while streams
    /// stay open, ends the streams, and leaves runs that have not ended to the next start.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { config, server, engine, listener, tls, admin, .. } = self;
        let accepting = {
            let server = server.clone();
            tokio::spawn(async move { server.serve(listener, tls).await })
        };
        stop.await;
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
            admin.abort();
            // Its handle on the engine is dropped by then.
            let _ = admin.await;
        }
        let _ = accepting.await;
        tracing::info!("stopped");
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The agents, made from their settings.
struct Agents {
    specs: Vec<AgentSpec>,
    test_hooks: Vec<Arc<dyn TestHooks>>,
}

impl Agents {
    fn build(config: &Config, rust: &HashMap<String, BoxAgent>) -> Result<Self, LaunchError> {
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

/// Makes the signer of cards. Signatures name the URL of the keys if `public_url` is configured.
fn signer(config: &Config, public_url: &str) -> Result<Signer, LaunchError> {
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

async fn listen(key: &'static str, address: SocketAddr) -> Result<TcpListener, LaunchError> {
    TcpListener::bind(address).await.map_err(|source| LaunchError::Listen { key, address, source })
}

fn tls(files: &config::TlsConfig) -> Result<TlsAcceptor, LaunchError> {
    let read = |key, path: &PathBuf| {
        std::fs::read(path).map_err(|source| LaunchError::File { key, path: path.clone(), source })
    };
    let certificates = read("server.tls.cert", &files.cert)?;
    let key = read("server.tls.key", &files.key)?;
    Ok(acceptor(&certificates, &key)?)
}

fn settings(config: &Config) -> BindingSettings {
    let body = BodyLimits {
        bytes: config.limits.body,
        budget: Budget::new(config.limits.bodies_in_flight),
        ..BodyLimits::default()
    };
    BindingSettings { body, ping: config.server.ping_interval }
}

/// Watches whether the store accepts work, for `/readyz`.
fn readiness(engine: &Engine) -> watch::Receiver<bool> {
    let mut health = engine.store().health();
    let (sender, receiver) = watch::channel(true);
    tokio::spawn(async move {
        while health.changed().await.is_ok() {
            sender.send_replace(matches!(*health.borrow_and_update(), Health::Ok));
        }
    });
    receiver
}
