//! The servers under load: ours is the real binary, the bare ones are another process of this executable.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::http1;
use crate::machine::Cores;

/// The argument that turns this executable into a bare server.
pub const BARE: &str = "serve-bare";

const CONFIG: &str = r#"[store]
url = "sqlite:tasks.db"

[[agents]]
name = "kit"
kind = "conformance"
"#;

/// The kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Tricord, with a store on disk.
    Ours,
    /// axum and tonic with the same types and no task engine.
    Bare,
}

/// A running server. Killed when dropped.
pub struct Server {
    child: Child,
    /// The server's address, for all bindings.
    pub address: SocketAddr,
    /// From the start of its process to the first answer of its card.
    pub ready_after: Duration,
    dir: Rc<TempDir>,
}

impl Server {
    /// Starts a server in a new directory.
    pub async fn start(kind: Kind, cores: Cores) -> Result<Self, String> {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
        Self::start_in(kind, cores, Rc::new(dir)).await
    }

    /// Stops our server and starts it again on its store.
    pub async fn again(self, cores: Cores) -> Result<Self, String> {
        let dir = self.dir.clone();
        drop(self);
        Self::start_in(Kind::Ours, cores, dir).await
    }

    async fn start_in(kind: Kind, cores: Cores, dir: Rc<TempDir>) -> Result<Self, String> {
        let mut command = match kind {
            Kind::Ours => {
                fs::write(dir.path().join("tricord.toml"), CONFIG).map_err(|error| error.to_string())?;
                let mut command = cores.server(Path::new(env!("CARGO_BIN_EXE_tricord")));
                command.args(["serve", "--config", "tricord.toml", "--listen", "127.0.0.1:0"]);
                command
            }
            Kind::Bare => {
                let mut command = cores.server(&std::env::current_exe().map_err(|error| error.to_string())?);
                command.arg(BARE);
                command
            }
        };
        let log = File::create(dir.path().join("stderr")).map_err(|error| error.to_string())?;
        command.current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let started = Instant::now();
        let (child, card) = launch(&mut command).map_err(|what| {
            let log = fs::read_to_string(dir.path().join("stderr")).unwrap_or_default();
            format!("{kind:?} server: {what}; it wrote: {}", log.trim())
        })?;
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, address: unknown, ready_after: Duration::ZERO, dir };
        let (host, path) = split(&card).ok_or_else(|| format!("{kind:?} server: no address in {card}"))?;
        server.address = host;
        http1::Connection::open(host).await?.get(path).await?;
        server.ready_after = started.elapsed();
        Ok(server)
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits until it is ready, which is when it prints its card's URL.
fn launch(command: &mut Command) -> Result<(Child, String), String> {
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let stdout = child.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let Some(card) = lines.find_map(|line| Some(line.trim_start().strip_prefix("card")?.trim().to_owned())) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err("ended before it printed its card's URL".to_owned());
    };
    // Keeps reading, so that the server never writes to a closed pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Ok((child, card))
}

/// Splits `http://address/path` into address and path.
fn split(url: &str) -> Option<(SocketAddr, &str)> {
    let rest = url.strip_prefix("http://")?;
    let (host, path) = rest.split_at(rest.find('/')?);
    Some((host.parse().ok()?, path))
}
