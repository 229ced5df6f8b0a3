//! Starts a server from a configuration and agents: opens the store, starts the engine and binds the ports.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;
use tricord_bindings::server::{acceptor, raise_open_files};

use crate::agents::{Agent, BoxAgent};
use crate::config::{self, Config};
use crate::server::Additional;
use crate::store::StoreUrl;
use start::{Agents, Started, listen, signer};

mod embed;
mod error;
mod signal;
mod start;

pub use crate::server::Conflict;
pub use embed::Embedded;
pub use error::LaunchError;
pub use signal::shutdown_signal;

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
    additional: Additional,
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
        Self { config, rust: HashMap::new(), wrong: None, additional: Additional::default() }
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
        raise_open_files();
        let tls = self.config.server.tls.as_ref().map(tls).transpose()?;
        let prepared = self.prepare()?;
        let configured = prepared.config.server.listen;
        let listener = listen("server.listen", configured).await?;
        let address = listener.local_addr();
        let address =
            address.map_err(|source| LaunchError::Listen { key: "server.listen", address: configured, source })?;
        Ok(Running { started: prepared.start(Some(address)).await?, listener, tls, address })
    }

    /// Serves until the process gets SIGTERM, SIGINT or SIGHUP, then shuts down gracefully.
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
    started: Started,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    address: SocketAddr,
}

impl Running {
    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.started.config
    }

    /// Returns the address of the public port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the admin port, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.started.admin_address
    }

    /// Returns the URL that cards advertise, without the base path.
    pub fn public_url(&self) -> &str {
        &self.started.public_url
    }

    /// Serves until `stop` resolves, then shuts down: accepts nothing more, gives runs the configured grace while streams
    /// stay open, ends the streams, and leaves runs that have not ended to the next start.
    ///
    /// If the future is dropped, nothing more is accepted, and open connections are left to end.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { started, listener, tls, .. } = self;
        let accepting = {
            let server = started.server.clone();
            // Dropped with this future, so that nothing is accepted any more.
            AbortOnDropHandle::new(tokio::spawn(async move { server.serve(listener, tls).await }))
        };
        stop.await;
        started.shut_down().await;
        let _ = accepting.await;
        tracing::info!("stopped");
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

fn tls(files: &config::TlsConfig) -> Result<TlsAcceptor, LaunchError> {
    let read = |key, path: &PathBuf| {
        std::fs::read(path).map_err(|source| LaunchError::File { key, path: path.clone(), source })
    };
    let certificates = read("server.tls.cert", &files.cert)?;
    let key = read("server.tls.key", &files.key)?;
    Ok(acceptor(&certificates, &key)?)
}
