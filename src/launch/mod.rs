//! From a configuration and agents to a running server: opens the store, starts the engine, binds the ports.

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

use crate::agents::{Agent, AgentKind, BoxAgent, BuiltAgent, TestHooks};
use crate::card::{self, Document, Signer};
use crate::config::{self, Config};
use crate::engine::{AgentSpec, Engine};
use crate::protocol;
use crate::server::admin::{self, Admin};
use crate::server::{Anonymous, Cards, Server, is_served};
use crate::service::{AgentProfile, Service};
use crate::store::{Health, Options, Store, StoreUrl};

mod error;

pub use error::LaunchError;

/// How long connections get to close once nothing is under way.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// A server that is being put together.
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
    /// A server with all defaults and no agents yet: 127.0.0.1:8080, tasks in `./tricord.db`.
    pub fn new() -> Self {
        let mut config = Config::defaults();
        config.agents.clear();
        config.default_agent.clear();
        Self::from_config(config)
    }

    /// A server as configured.
    pub fn from_config(config: Config) -> Self {
        Self { config, rust: HashMap::new(), wrong: None }
    }

    /// Adds an agent. The first one is the default: it needs no tenant.
    #[must_use]
    pub fn agent(self, name: &str, agent: impl Agent) -> Self {
        self.agent_with(name, agent, |_| {})
    }

    /// Adds an agent, and says more about it: its card, what becomes of it after a restart.
    #[must_use]
    pub fn agent_with(mut self, name: &str, agent: impl Agent, edit: impl FnOnce(&mut config::AgentConfig)) -> Self {
        match config::AgentConfig::rust(name) {
            Ok(mut described) => {
                edit(&mut described);
                self.config.agents.push(described);
                self.rust.insert(name.to_owned(), BoxAgent::new(agent));
            }
            Err(problem) => self.wrong = Some(problem),
        }
        self
    }

    /// Listens there; port 0 takes a free one.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.config.server.listen = address;
        self
    }

    /// Keeps tasks there.
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

    /// Looks at what a start would need before it opens anything: the programs of agents, the files of TLS.
    ///
    /// # Errors
    /// When something of it is in the way.
    pub fn check(&self) -> Result<(), LaunchError> {
        self.config.server.tls.as_ref().map(tls).transpose()?;
        Agents::build(&self.config, &self.rust).map(drop)
    }

    /// Opens the store, recovers what an earlier process left, and binds the ports.
    ///
    /// # Errors
    /// When something is in the way; then nothing is left behind.
    pub async fn bind(self) -> Result<Running, LaunchError> {
        let Self { mut config, rust, wrong } = self;
        if let Some(problem) = wrong {
            return Err(LaunchError::Agent(problem));
        }
        let Some(first) = config.agents.first() else {
            return Err(LaunchError::Agent("a server needs at least one agent".to_owned()));
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
        let (offers, cards) = offers(&config, &public_url, &signer)?;
        let options = Options { url: config.store.url.clone(), keep_finished: config.store.keep_finished };
        let store = tokio::task::spawn_blocking(move || Store::open(&options)).await;
        let store = store.map_err(|e| LaunchError::Agent(e.to_string()))??;
        let engine = Engine::start(store, agents.specs, config.limits.engine.clone()).await?;
        let service = Service::new(engine.clone(), offers, &config.default_agent);
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
            let calls = Box::new({
                let server = server.clone();
                move || server.call_counts()
            });
            let connections = Box::new(move || server.connections());
            let admin = Admin { engine: engine.clone(), test_hooks: agents.test_hooks, calls, connections };
            tokio::spawn(admin::serve(listener, admin))
        });
        Ok(Running { config, server, engine, listener, tls, address, public_url, admin_address, admin })
    }

    /// Serves until the process is told to stop (SIGTERM or SIGINT), then ends in good order.
    ///
    /// # Errors
    /// When something is in the way of the start.
    pub async fn run(self) -> Result<(), LaunchError> {
        let stop = shutdown_signal();
        let running = self.bind().await?;
        tracing::info!(url = running.public_url(), "serving");
        running.serve(stop).await;
        Ok(())
    }
}

/// Resolves when the process gets SIGTERM or SIGINT. It listens from the call on, not from the first poll, so that a signal
/// that comes while a server starts is not the death of it. Call it inside a tokio runtime.
pub fn shutdown_signal() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| {
        let signals = signal(kind);
        async move {
            match signals {
                Ok(mut signals) => drop(signals.recv().await),
                Err(error) => {
                    tracing::error!(%error, "signals cannot be received; the process can only be killed");
                    std::future::pending().await
                }
            }
        }
    };
    let (terminate, interrupt) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    async move {
        tokio::select! {
            () = terminate => {}
            () = interrupt => {}
        }
    }
}

/// A server whose ports are bound.
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
    /// The configuration that it runs with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The operators' address, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// What cards advertise, without the base path.
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Serves until `stop` resolves, then ends in good order: nothing more is accepted, runs get their grace with streams
    /// open, streams end, what still runs is left to the next start.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { config, server, engine, listener, tls, admin, .. } = self;
        let accepting = {
            let server = server.clone();
            tokio::spawn(async move { server.serve(listener, tls).await })
        };
        stop.await;
        let runs = engine.load().runs;
        tracing::info!(runs, grace = ?config.server.grace, "stopping: runs under way may end");
        server.begin_stop();
        engine.drain(config.server.grace).await;
        let runs = engine.load().runs;
        if runs > 0 {
            tracing::warn!(runs, "runs that did not end are cut off, for the next start to take up or to fail");
        }
        // Before streams are ended, so that whatever came of a run is told on them.
        engine.close().await;
        server.end_streams();
        server.stopped(CLOSE_PATIENCE).await;
        if let Some(admin) = admin {
            admin.abort();
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
            let BuiltAgent { agent: built, test_hooks } = match &agent.kind {
                AgentKind::BuiltIn(_, settings) => settings.build(agent.cancel_grace).map_err(wrong)?,
                AgentKind::Rust => {
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

/// What signs cards. Signatures say where its keys are if the server knows its own address.
fn signer(config: &Config, public_url: &str) -> Result<Signer, LaunchError> {
    let published = || format!("{public_url}{}{}", config.server.base_path, protocol::KEYS_PATH);
    let jku = config.server.public_url.is_some().then(published);
    Signer::from_config(&config.server.card_keys, jku).map_err(|(at, source)| LaunchError::CardKey { at, source })
}

fn offers(config: &Config, public_url: &str, signer: &Signer) -> Result<(Vec<AgentProfile>, Cards), LaunchError> {
    let now = SystemTime::now();
    let mut documents = HashMap::new();
    let mut offers = Vec::new();
    for agent in &config.agents {
        let mut card = card::card(config, agent, public_url);
        let mut interfaces = card.supported_interfaces.iter();
        if let Some(lost) = interfaces.find(|at| !is_served(at, public_url, &config.server.base_path)) {
            return Err(LaunchError::NotServed { agent: agent.name.clone(), url: lost.url.clone() });
        }
        signer.sign(&mut card).map_err(|source| LaunchError::CardKey { at: 0, source })?;
        documents.insert(agent.name.clone(), Arc::new(Document::new(&card, now)));
        let dedupe_message_id = agent.dedupe_message_id;
        offers.push(AgentProfile { name: agent.name.as_str().into(), card, dedupe_message_id });
    }
    let default = config.default_agent.clone();
    let cards: Cards = Arc::new(move |agent| documents.get(agent.unwrap_or(&default)).cloned());
    Ok((offers, cards))
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

/// Whether the store takes work, as `/readyz` says it.
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
