//! A server to test: the real binary in its own directory, and clients for all three bindings.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tricord::client::{Binding, Client, ClientSettings};
use tricord::schema::part::Content;
use tricord::schema::send_message_response::Payload;
use tricord::schema::{
    Message, Part, Role, SendMessageConfiguration, SendMessageRequest, SendMessageResponse, Task, TaskState,
};

/// The three bindings.
pub const WIRES: [Binding; 3] = [Binding::Grpc, Binding::JsonRpc, Binding::HttpJson];

/// The default agent `kit`, of kind conformance, and an agent `other`, of kind echo.
pub const TWO_AGENTS: &str = r#"
[[agents]]
name = "kit"
kind = "conformance"

[[agents]]
name = "other"
kind = "echo"
"#;

/// Starts a server with a shell that kills it and cleans up as soon as the test process ends.
const WATCHED: &str = r#""$@" </dev/null & server=$!; cat >/dev/null; kill -9 $server; rm -rf "$TMPDIR""#;
/// Starts a server that gets an error, not a signal, when a file reaches its size limit.
const BOUNDED: &str = r#"trap '' XFSZ; exec "$@""#;

/// Starts a server that logs to a file in its directory.
const LOGGED: &str = r#"exec "$@" 2>server.log"#;

/// A running server. Killed when dropped.
pub struct Server {
    child: Child,
    config: String,
    /// The script of the shell that starts it; empty for no shell.
    shell: &'static str,
    /// The server's URL.
    pub url: String,
    /// The address of its admin port.
    pub admin: String,
    dir: TempDir,
}

impl Server {
    /// Starts a server with this configuration and a store on disk.
    pub fn start(config: &str) -> Self {
        Self::start_by("", config)
    }

    fn start_by(shell: &'static str, config: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let config = format!("{config}\n[admin]\nlisten = \"127.0.0.1:0\"\n");
        let (child, url, admin) = launch(shell, dir.path(), &config);
        Self { child, config, shell, url, admin, dir }
    }

    /// Starts a server with [`TWO_AGENTS`].
    pub fn two_agents() -> Self {
        Self::start(TWO_AGENTS)
    }

    /// Starts a server with [`TWO_AGENTS`] that survives limits on the size of its files.
    pub fn bounded() -> Self {
        Self::start_by(BOUNDED, TWO_AGENTS)
    }

    /// Starts a server with this configuration that logs to `server.log` in [`Server::dir`].
    pub fn logged(config: &str) -> Self {
        Self::start_by(LOGGED, config)
    }

    /// Returns a server with [`TWO_AGENTS`] that is shared by all tests that other tests cannot affect.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start_by(WATCHED, &format!("{TWO_AGENTS}\n[store]\nurl = \"memory:\"")))
    }

    /// Returns the directory of its configuration and store.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs another command of the binary in the server's directory.
    pub fn command(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_tricord")).args(arguments).current_dir(self.dir()).output().unwrap()
    }

    /// Kills it with SIGKILL and starts it again on the same store.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Starts it again after it has ended.
    pub fn restart(&mut self) {
        (self.child, self.url, self.admin) = launch(self.shell, self.dir.path(), &self.config);
    }

    /// Asks it to shut down gracefully. [`Server::wait`] waits until it has.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Sends the signal of a terminal that closes.
    pub fn hang_up(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    /// Waits until it has ended and returns whether it exited successfully.
    pub fn wait(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns a client of the default agent over one binding.
    pub async fn client(&self, binding: Binding) -> Client {
        self.client_of("", binding).await
    }

    /// Returns a client of an agent over one binding.
    pub async fn client_of(&self, agent: &str, binding: Binding) -> Client {
        let url = if agent.is_empty() { self.url.clone() } else { format!("{}/{agent}", self.url) };
        Client::connect(&url, ClientSettings { binding: Some(binding), ..ClientSettings::default() }).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(shell: &str, dir: &Path, config: &str) -> (Child, String, String) {
    let file = dir.join("tricord.toml");
    std::fs::write(&file, config).unwrap();
    let tricord = env!("CARGO_BIN_EXE_tricord");
    let mut command = Command::new(if shell.is_empty() { tricord } else { "sh" });
    if !shell.is_empty() {
        command.args(["-c", shell, "sh", tricord]);
    }
    let mut child = command
        .args(["serve", "--config", "tricord.toml", "--listen", "127.0.0.1:0"])
        .current_dir(dir)
        .env("TMPDIR", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut address = |label: &str| loop {
        let line = lines.next().expect("the server ended before it was ready").unwrap();
        if let Some(rest) = line.trim_start().strip_prefix(label) {
            break rest.trim().to_owned();
        }
    };
    // Uses the listen address with the base path, because cards may advertise another host.
    let listen = address("listen");
    let card = address("card");
    let (_, path) = card.split_once("://").and_then(|(_, rest)| rest.split_once('/')).unwrap();
    let path = path.trim_end_matches(".well-known/agent-card.json").trim_end_matches('/');
    let url = format!("http://{listen}/{path}").trim_end_matches('/').to_owned();
    let admin = address("admin");
    // Keeps reading, so that the server never writes to a closed pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (child, url, admin)
}

/// Returns a free port, for a program that cannot choose one itself. It is below the range that the system uses for
/// connections, so that no other program gets it in the meantime.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(101).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(20_000 + number % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns a text part.
pub fn text(text: impl Into<String>) -> Part {
    Part { content: Some(Content::Text(text.into())), ..Part::default() }
}

/// Returns a message with a new id and one text part.
pub fn message(words: &str) -> Message {
    Message {
        message_id: uuid::Uuid::now_v7().to_string(),
        role: Role::User.into(),
        parts: vec![text(words)],
        ..Message::default()
    }
}

/// Returns a request with a message of one text part.
pub fn request(words: &str) -> SendMessageRequest {
    SendMessageRequest { message: Some(message(words)), ..SendMessageRequest::default() }
}

/// Returns a request with a message of one text part for an existing task.
pub fn follow_up(task: &str, words: &str) -> SendMessageRequest {
    let message = Message { task_id: task.to_owned(), ..message(words) };
    SendMessageRequest { message: Some(message), ..SendMessageRequest::default() }
}

/// Returns the request with `returnImmediately` set.
pub fn at_once(mut request: SendMessageRequest) -> SendMessageRequest {
    request.configuration.get_or_insert_with(SendMessageConfiguration::default).return_immediately = true;
    request
}

/// Returns the task in an answer.
pub fn task_of(response: SendMessageResponse) -> Task {
    match response.payload {
        Some(Payload::Task(task)) => task,
        other => panic!("expected a task, got {other:?}"),
    }
}

/// Returns a task's state.
pub fn state(task: &Task) -> TaskState {
    task.status.as_ref().map_or(TaskState::Unspecified, |status| status.state())
}

/// Returns the texts of all artifacts, joined.
pub fn artifact_text(task: &Task) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts
        .filter_map(|part| if let Some(Content::Text(text)) = &part.content { Some(text.as_str()) } else { None })
        .collect()
}
