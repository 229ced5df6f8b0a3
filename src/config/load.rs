//! From file, environment and flags to a checked [`Config`].
//!
//! A flag wins over an environment variable, that over the file, that over the default. The variable of a key is
//! `TRICORD_`, the section, two underscores and the key: `TRICORD_SERVER__LISTEN`, `TRICORD_SERVER__TLS__CERT`. Agents are
//! named in the file or by a flag only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::located::{self, Located, Table, Value};
use super::problem::{Origin, Problem, Problems};
use super::section::{Diagnostics, Section, boolean, choice, count, parsed, size, text, texts};
use super::value::{Network, Secret, address, duration, web_address};
use super::{
    AdminConfig, CardKey, Config, LimitsConfig, LogConfig, LogFormat, ProtocolOptions, ServerConfig, StoreConfig,
    StoreUrl, TlsConfig, agents,
};

/// What begins the names of environment variables.
const PREFIX: &str = "TRICORD_";

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    file: Option<(PathBuf, String)>,
    environment: Vec<(String, String)>,
    flags: Vec<(&'static str, &'static [&'static str], String)>,
    agent: Option<(&'static str, Table)>,
}

impl Sources {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read as text.
    pub fn file(mut self, path: &Path) -> Result<Self, Problems> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let text = format!("{}: cannot be read: {error}", path.display());
            Problems(vec![Problem { origin: Origin::Nowhere, key: String::new(), text }])
        })?;
        self.file = Some((path.to_owned(), text));
        Ok(self)
    }

    /// Takes the text of a file that was read already; the path is only for messages.
    #[must_use]
    pub fn text(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.file = Some((path.into(), text.into()));
        self
    }

    /// Takes environment variables; those without the prefix only serve secrets (`env:NAME`).
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Takes the process's own environment; variables that are not text are left out.
    #[must_use]
    pub fn process_environment(self) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.environment(std::env::vars_os().filter_map(text))
    }

    /// Takes a flag: its name for messages, the path of the key and the text.
    #[must_use]
    pub fn flag(mut self, flag: &'static str, path: &'static [&'static str], text: impl Into<String>) -> Self {
        self.flags.push((flag, path, text.into()));
        self
    }

    /// Takes a flag that names the one agent: its kind and, for `exec`, the command.
    #[must_use]
    pub fn agent(mut self, flag: &'static str, kind: &str, command: Option<Vec<String>>) -> Self {
        let node = |value| Located { origin: Origin::Flag(flag), value };
        let mut table = Table::from([("kind".to_owned(), node(Value::Loose(kind.to_owned())))]);
        if let Some(command) = command {
            let items = command.into_iter().map(|word| node(Value::Text(word))).collect();
            table.insert("command".to_owned(), node(Value::List(items)));
        }
        self.agent = Some((flag, table));
        self
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// With all that is wrong.
    pub fn load(self) -> Result<Config, Problems> {
        let mut broken = Vec::new();
        let mut table = match &self.file {
            Some((path, text)) => located::parse(path, text, &mut broken),
            None => Table::new(),
        };
        if !broken.is_empty() {
            // What a broken line meant is a guess, so only the breaks are reported.
            return Err(Problems(broken));
        }
        let diagnostics = Diagnostics::default();
        self.overlay(&mut table, &diagnostics);
        let env = |name: &str| self.environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        let config = read(Section::new(&diagnostics, String::new(), Origin::Nowhere, table), &env);
        let mut problems = diagnostics.into_problems();
        if problems.is_empty() {
            return Ok(config);
        }
        problems.sort_by_key(|p| p.line().unwrap_or(usize::MAX));
        Err(Problems(problems))
    }

    fn overlay(&self, table: &mut Table, diagnostics: &Diagnostics) {
        for (name, value) in &self.environment {
            // Variables without the two underscores belong to flags.
            let Some(path) = name.strip_prefix(PREFIX).filter(|rest| rest.contains("__")) else { continue };
            let origin = Origin::Environment(name.clone());
            let path = path.to_ascii_lowercase();
            let path: Vec<&str> = path.split("__").collect();
            if path[0] == "agents" {
                diagnostics.push(origin, "", "agents are named in the file or by a flag, not in the environment");
                continue;
            }
            let node = Located { origin: origin.clone(), value: Value::Loose(value.clone()) };
            if let Err(key) = located::overlay(table, &path, node) {
                diagnostics.push(origin, path.join("."), format!("{key} is no table"));
            }
        }
        for (flag, path, value) in &self.flags {
            let node = Located { origin: Origin::Flag(flag), value: Value::Loose(value.clone()) };
            // Fails only where the file has no table, which is reported when that is read.
            let _ = located::overlay(table, path, node);
        }
        if let Some((flag, agent)) = &self.agent {
            let origin = Origin::Flag(flag);
            let item = Located { origin: origin.clone(), value: Value::Table(agent.clone()) };
            let list = Located { origin: origin.clone(), value: Value::List(vec![item]) };
            if let Some(old) = table.insert("agents".to_owned(), list) {
                let at = old.origin.to_string();
                let at = at.trim_end_matches(": ");
                diagnostics.push(origin, "agents", format!("{at} names agents too; use the file or the flag"));
            }
        }
    }
}

fn read(mut root: Section<'_>, env: &dyn Fn(&str) -> Option<String>) -> Config {
    let mut server = root.section("server");
    let named_default = server.get("default_agent", text);
    let read_server = read_server(&mut server, env);
    let admin = read_admin(root.section("admin"));
    let limits = read_limits(root.section("limits"));
    let store = read_store(root.section("store"));
    let protocol = read_protocol(root.section("protocol"));
    let log = read_log(root.section("log"));
    let agents = agents::read(&mut root, env);

    let default_agent = match named_default {
        Some(name) if agents.iter().any(|agent| agent.name == name) => name,
        // Where no agent could be read, that is reported already.
        Some(name) if agents.is_empty() => name,
        Some(name) => {
            let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
            server.problem("default_agent", format!("no agent is named {name:?}; there are: {}", names.join(", ")));
            name
        }
        None => agents.first().map(|agent| agent.name.clone()).unwrap_or_default(),
    };
    server.finish();
    root.finish();
    Config { server: read_server, admin, limits, store, protocol, log, agents, default_agent }
}

fn read_server(server: &mut Section<'_>, env: &dyn Fn(&str) -> Option<String>) -> ServerConfig {
    let listen = server.get("listen", parsed(address)).unwrap_or_else(|| ([127, 0, 0, 1], 8080).into());
    let public_url = server.get("public_url", parsed(web_address));
    let base_path = server.get("base_path", base_path).unwrap_or_default();
    let tls = server.has("tls").then(|| read_tls(server.section("tls"))).flatten();
    let card_max_age = server.get("card_max_age", parsed(duration)).unwrap_or(Duration::from_secs(300));
    let keys = server.sections("card_keys").unwrap_or_default();
    let card_keys = keys.into_iter().filter_map(|key| read_card_key(key, env)).collect();
    let cors_origins = server.get("cors_origins", origins).unwrap_or_default();
    let cors_credentials = server.get("cors_credentials", boolean).unwrap_or(false);
    if cors_credentials && cors_origins.iter().any(|origin| origin == "*") {
        server.problem("cors_credentials", "cannot be with \"*\" in cors_origins: name the origins");
    }
    let networks = |value: &Value| texts(value)?.iter().map(|text| text.parse::<Network>()).collect();
    let trusted_proxies = server.get("trusted_proxies", networks).unwrap_or_default();
    let ping_interval = server.get("ping_interval", parsed(duration)).unwrap_or(Duration::from_secs(4));
    let some_time = |text: &str| match duration(text)? {
        Duration::ZERO => Err("0 is no time: a peer that is gone would never be noticed".to_owned()),
        time => Ok(time),
    };
    let keep_alive = server.get("keep_alive", parsed(some_time)).unwrap_or(Duration::from_secs(20));
    let grace = server.get("grace", parsed(duration)).unwrap_or(Duration::from_secs(30));
    server.know(&["tls"]);
    ServerConfig {
        listen,
        public_url,
        base_path,
        tls,
        card_max_age,
        card_keys,
        cors_origins,
        cors_credentials,
        trusted_proxies,
        ping_interval: Some(ping_interval).filter(|d| !d.is_zero()),
        keep_alive,
        grace,
    }
}

fn base_path(value: &Value) -> Result<String, String> {
    let path = match value {
        Value::Text(path) | Value::Loose(path) => path.trim_end_matches('/'),
        other => return Err(format!("takes a string, not {}", other.kind())),
    };
    let segment = |s: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        !s.is_empty() && s != "." && s != ".." && s.bytes().all(plain)
    };
    match path.strip_prefix('/') {
        None if path.is_empty() => Ok(String::new()),
        Some(rest) if rest.split('/').all(segment) => Ok(path.to_owned()),
        _ => Err(format!("{path:?} is no path: write it like \"/v1/a2a\", with letters, digits, - . _ ~ only")),
    }
}

fn read_card_key(mut key: Section<'_>, env: &dyn Fn(&str) -> Option<String>) -> Option<CardKey> {
    let secret = |text: &str| {
        let how =
            "takes \"file:PATH\" or \"env:NAME\", a private key in PEM: it does not belong into the configuration";
        Secret::resolve(text, env).unwrap_or_else(|| Err(how.to_owned()))
    };
    let read = key.required("key", parsed(secret));
    let kid = key.get("kid", text);
    key.finish();
    Some(CardKey { key: read?, kid })
}

fn read_tls(mut tls: Section<'_>) -> Option<TlsConfig> {
    let readable = |path: &str| match std::fs::File::open(path) {
        Ok(_) => Ok(PathBuf::from(path)),
        Err(error) => Err(format!("the file {path} cannot be read: {error}")),
    };
    for key in ["cert", "key"] {
        if !tls.has(key) {
            tls.problem(key, "is missing: TLS needs both cert and key, two PEM files");
        }
    }
    let cert = tls.get("cert", parsed(readable));
    let key = tls.get("key", parsed(readable));
    tls.finish();
    Some(TlsConfig { cert: cert?, key: key? })
}

fn origins(value: &Value) -> Result<Vec<String>, String> {
    let origin = |text: &String| {
        if text == "*" {
            return Ok(text.clone());
        }
        let origin = web_address(text)?;
        match origin.matches('/').count() {
            2 => Ok(origin),
            _ => Err(format!("{text:?} has a path: an origin is scheme, host and port only")),
        }
    };
    texts(value)?.iter().map(origin).collect()
}

fn read_admin(mut admin: Section<'_>) -> AdminConfig {
    let loopback = |text: &str| match address(text)? {
        at if at.ip().is_loopback() => Ok(at),
        at => Err(format!("{at} is not a loopback address; the admin port has no authentication, so it needs one")),
    };
    let listen = admin.get("listen", parsed(loopback));
    admin.finish();
    AdminConfig { listen }
}

fn read_limits(mut limits: Section<'_>) -> LimitsConfig {
    let read = LimitsConfig {
        body: limits.get("body", size).unwrap_or(16 << 20),
        bodies_in_flight: limits.get("bodies_in_flight", size).unwrap_or(256 << 20),
        running_tasks: limits.get("running_tasks", count).unwrap_or(10_000),
        streams: limits.get("streams", count).unwrap_or(100_000),
        uncommitted: limits.get("uncommitted", size).unwrap_or(64 << 20),
        uncommitted_per_run: limits.get("uncommitted_per_run", size).unwrap_or(256 << 10),
        task_records: limits.get("task_records", count).unwrap_or(50_000),
        task_size: limits.get("task_size", size).unwrap_or(64 << 20),
    };
    if read.body > read.bodies_in_flight {
        limits.problem("bodies_in_flight", "is less than limits.body, so a full body could never be read");
    }
    limits.finish();
    read
}

fn read_store(mut store: Section<'_>) -> StoreConfig {
    let url = store.get("url", parsed(store_url)).unwrap_or_else(|| StoreUrl::Sqlite("tricord.db".into()));
    let keep = |text: &str| if text == "forever" { Ok(None) } else { duration(text).map(Some) };
    let keep_finished = store.get("keep_finished", parsed(keep)).unwrap_or(Some(Duration::from_secs(30 * 86_400)));
    if keep_finished.is_some_and(|keep| keep < Duration::from_secs(3600)) {
        store
            .problem("keep_finished", "is less than an hour, the least that clients may rely on; or write \"forever\"");
    }
    store.finish();
    StoreConfig { url, keep_finished }
}

/// Reads the address of a store.
pub(crate) fn store_url(text: &str) -> Result<StoreUrl, String> {
    if text.starts_with("postgres:") || text.starts_with("postgresql:") {
        return Err("PostgreSQL is not built into this binary; use \"sqlite:PATH\" or \"memory:\"".to_owned());
    }
    text.parse().map_err(|_| format!("{text:?} is no store: write \"sqlite:PATH\" or \"memory:\""))
}

fn read_protocol(mut protocol: Section<'_>) -> ProtocolOptions {
    let version = |text: &str| match text {
        "1.0" => Ok(text.to_owned()),
        _ => Err(format!("version {text:?} is not served; the one that is: \"1.0\"")),
    };
    let assume_version = protocol.get("assume_version", parsed(version));
    protocol.finish();
    ProtocolOptions { assume_version }
}

fn read_log(mut log: Section<'_>) -> LogConfig {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let read = LogConfig {
        format: log.get("format", choice(&formats)).unwrap_or(LogFormat::Text),
        level: log.get("level", parsed(level)).unwrap_or_else(|| "info".to_owned()),
        access: log.get("access", boolean).unwrap_or(false),
    };
    log.finish();
    read
}

/// Checks a level or a list of `target=level`.
fn level(text: &str) -> Result<String, String> {
    let known = |level: &str| matches!(level, "off" | "error" | "warn" | "info" | "debug" | "trace");
    for directive in text.split(',') {
        let level = directive.rsplit('=').next().unwrap_or(directive).trim();
        if !known(level) {
            return Err(format!("{level:?} is no level: off, error, warn, info, debug or trace"));
        }
    }
    Ok(text.to_owned())
}
