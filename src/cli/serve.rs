//! `tricord serve`: runs the server.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};

use super::exit::{self, Exit, Failure};
use crate::agents::KINDS;
use crate::config::{Config, Sources};
use crate::protocol::CARD_PATH;
use crate::store::StoreUrl;
use crate::telemetry;
use crate::{Launch, Running, shutdown_signal};

/// Serve agents
///
/// Without a file one agent is served, which echoes its messages. Every key of the file except agents can also be set in
/// the environment: TRICORD_SERVER__LISTEN is `listen` of `[server]`. Flags override the environment, which overrides the
/// file.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

/// The flags for a configuration, also used by `check-config`.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    /// The configuration file
    #[arg(short, long, env = "TRICORD_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,

    /// The address to listen on, such as 0.0.0.0:8080
    #[arg(short, long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,

    /// Serve one agent that runs this command, such as 'python3 agent.py'
    #[arg(short, long, value_name = "COMMAND", conflicts_with = "agent_kind")]
    exec: Option<String>,

    /// Serve one agent of this kind
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    agent_kind: Option<String>,

    #[arg(short, long, value_name = "URL", help = &**STORE_HELP)]
    store: Option<String>,

    /// The URL that cards advertise
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// The log level: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// The log format: text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl ConfigArgs {
    /// Returns the path of the file, for messages.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }

    /// Reads and checks the configuration.
    pub(super) fn load(&self) -> Result<Config, Failure> {
        let mut sources = Sources::default().process_environment();
        if let Some(path) = &self.config {
            sources = sources.file(path)?;
        }
        let flags: [(_, &[&str], _); 5] = [
            ("--listen", &["server", "listen"], &self.listen),
            ("--store", &["store", "url"], &self.store),
            ("--public-url", &["server", "public_url"], &self.public_url),
            ("--log-level", &["log", "level"], &self.log_level),
            ("--log-format", &["log", "format"], &self.log_format),
        ];
        for (flag, path, value) in flags {
            if let Some(value) = value {
                sources = sources.flag(flag, path, value);
            }
        }
        if let Some(line) = &self.exec {
            let words = shell_words::split(line)
                .map_err(|error| Failure::usage(format!("cannot split --exec {line:?} into words: {error}")))?;
            sources = sources.agent("--exec", "exec", Some(words));
        }
        if let Some(kind) = &self.agent_kind {
            sources = sources.agent("--agent-kind", kind, None);
        }
        Ok(sources.load()?)
    }
}

/// The help text of `--store`.
static STORE_HELP: LazyLock<String> = LazyLock::new(|| format!("The store for tasks: {}", StoreUrl::forms()));

/// Every kind of agent that can be configured.
fn kinds() -> PossibleValuesParser {
    KINDS.iter().map(|kind| PossibleValue::new(kind.name).help(kind.card.description)).into()
}

pub(super) fn run(args: Args) -> ExitCode {
    let started = args.config.load().and_then(|config| {
        let log = telemetry::start(&config.log).map_err(Failure::usage)?;
        Ok((config, log))
    });
    match started {
        Ok((config, _log)) => {
            for warning in config.warnings() {
                tracing::warn!("{warning}");
            }
            serve(config)
        }
        Err(failure) => exit::code(Err(failure)),
    }
}

/// Serves until SIGTERM, SIGINT or SIGHUP. A second signal exits at once.
fn serve(config: Config) -> ExitCode {
    let started = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match started {
        Ok(runtime) => runtime,
        Err(error) => return exit::code(Err(error.into())),
    };
    let ended = runtime.block_on(async {
        let first = shutdown_signal();
        let running = Launch::from_config(config).bind().await?;
        // The server runs even if nobody reads its standard output.
        let _ = print_banner(&running);
        let stop = async {
            first.await;
            let second = shutdown_signal();
            tokio::spawn(async {
                second.await;
                std::process::exit(130);
            });
        };
        running.serve(stop).await;
        Ok(Exit::Done)
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit::code(ended)
}

/// Prints the server's addresses and commands to try.
fn print_banner(running: &Running) -> io::Result<()> {
    let config = running.config();
    let url = format!("{}{}", running.public_url(), config.server.base_path);
    let names: Vec<_> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
    let program = std::env::args().next().unwrap_or_else(|| "tricord".to_owned());
    let message = r#"{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello there"}]}}"#;
    let headers = "-H 'A2A-Version: 1.0' -H 'Content-Type: application/json'";
    let mut out = io::stdout().lock();
    writeln!(out, "tricord {} serves {} from {}", env!("CARGO_PKG_VERSION"), names.join(", "), config.store.url)?;
    writeln!(out, "  listen {}", running.address())?;
    writeln!(out, "  card   {url}{CARD_PATH}")?;
    if let Some(admin) = running.admin_address() {
        writeln!(out, "  admin  http://{admin}")?;
    }
    writeln!(out, "\nTry it over HTTP+JSON, JSON-RPC and gRPC:")?;
    writeln!(out, "  curl {url}/message:send {headers} -d '{message}'")?;
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{message}}}"#);
    writeln!(out, "  curl {url}/ {headers} -d '{call}'")?;
    writeln!(out, "  {program} send --url {url} --binding grpc 'hello there'\n")?;
    out.flush()
}
