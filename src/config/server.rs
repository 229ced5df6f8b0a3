//! `[server]` and `[admin]`: the two ports.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tricord_bindings::server::ConnectionLimits;
use tricord_bindings::{Binding, BindingSettings};

use crate::protocol::binding_of;
use crate::settings::located::Value;
use crate::settings::read::{boolean, count, parsed, text, texts};
use crate::settings::value::{address, base_url, duration};
use crate::settings::{Network, Secret, Section};

/// How long clients and caches may keep a card unless it is configured.
pub(crate) const CARD_MAX_AGE: Duration = Duration::from_secs(300);

/// What cards list unless it is configured.
const ADVERTISED: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];

/// `[server]`: the public port.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `listen`: the address to listen on. Port 0 takes a free port.
    pub listen: SocketAddr,
    /// `public_url`: the address that cards advertise, without a trailing slash; see
    /// [`Config::public_url`](super::Config::public_url).
    pub public_url: Option<String>,
    /// `advertise`: the bindings that cards list, in the order in which clients should prefer them. All are served whatever
    /// cards list. Not empty.
    pub advertise: Vec<Binding>,
    /// `base_path`: the prefix of every path: empty, or `/segment…` without a trailing slash.
    pub base_path: String,
    /// `tls`: the certificate and its key, if the port speaks TLS.
    pub tls: Option<TlsConfig>,
    /// `card_max_age`: how long clients and caches may keep a card without asking again.
    pub card_max_age: Duration,
    /// `card_keys`: the keys that sign cards. Every key signs every card.
    pub card_keys: Vec<CardKey>,
    /// `cors_origins`: the web origins whose pages may call, or `*`.
    pub cors_origins: Vec<String>,
    /// `cors_credentials`: whether pages of these origins may send cookies. Not allowed with `*`.
    pub cors_credentials: bool,
    /// `hosts`: the host names that a server on a loopback address answers to beside `localhost`, loopback addresses and
    /// the host of `public_url`; `*` for all.
    pub hosts: Vec<String>,
    /// `trusted_proxies`: the proxies whose `X-Forwarded-For` is believed. Only logs show it.
    pub trusted_proxies: Vec<Network>,
    /// `ping_interval`: how long an event stream may be silent before a comment is sent; `None` for never.
    pub ping_interval: Option<Duration>,
    /// `keep_alive`: the interval of HTTP/2 pings, and how long a peer has to answer one. Not 0.
    pub keep_alive: Duration,
    /// `write_timeout`: how long a peer may read nothing of what waits for it, until its stream or connection is closed. Not 0.
    pub write_timeout: Duration,
    /// `streams_per_connection`: requests and streams at one time on one HTTP/2 connection.
    pub streams_per_connection: u32,
    /// `grace`: how long runs may go on after SIGTERM.
    pub grace: Duration,
}

/// `[[server.card_keys]]`: a key that signs cards.
#[derive(Debug, Clone)]
pub struct CardKey {
    /// `key`: the private key, P-256 or Ed25519, as PKCS#8 in PEM.
    pub key: Secret,
    /// `kid`: the key's name in signatures; its thumbprint (RFC 7638) by default.
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

/// `[admin]`: the port for operators.
#[derive(Debug, Clone, Default)]
pub struct AdminConfig {
    /// `listen`: a loopback address; `None` for no admin port.
    pub listen: Option<SocketAddr>,
}

/// Reads `[server]`. The caller finishes the section.
pub(super) fn read(server: &mut Section<'_>) -> ServerConfig {
    let listen = server.get("listen", parsed(address)).unwrap_or_else(|| ([127, 0, 0, 1], 8080).into());
    let public_url = server.get("public_url", parsed(base_url));
    let advertise = server.get("advertise", bindings).unwrap_or_else(|| ADVERTISED.to_vec());
    let base_path = server.get("base_path", base_path).unwrap_or_default();
    let tls = server.has("tls").then(|| read_tls(server.section("tls"))).flatten();
    let card_max_age = server.get("card_max_age", parsed(duration)).unwrap_or(CARD_MAX_AGE);
    let keys = server.sections("card_keys").unwrap_or_default();
    let card_keys = keys.into_iter().filter_map(read_card_key).collect();
    let cors_origins = server.get("cors_origins", origins).unwrap_or_default();
    let cors_credentials = server.get("cors_credentials", boolean).unwrap_or(false);
    if cors_credentials && cors_origins.iter().any(|origin| origin == "*") {
        server.problem("cors_credentials", "cannot be true while cors_origins is \"*\": list the origins");
    }
    let hosts = server.get("hosts", hosts).unwrap_or_default();
    let networks = |value: &Value| texts(value)?.iter().map(|text| text.parse::<Network>()).collect();
    let trusted_proxies = server.get("trusted_proxies", networks).unwrap_or_default();
    let ping_interval = match server.get("ping_interval", parsed(duration)) {
        Some(interval) => Some(interval).filter(|interval| !interval.is_zero()),
        None => BindingSettings::default().ping,
    };
    let defaults = ConnectionLimits::default();
    let keep_alive = server.get("keep_alive", parsed(keep_alive)).unwrap_or(defaults.keep_alive);
    let write_timeout = server.get("write_timeout", parsed(write_timeout)).unwrap_or(defaults.write);
    let streams_per_connection = server.get("streams_per_connection", count).unwrap_or(defaults.streams);
    let grace = server.get("grace", parsed(duration)).unwrap_or(Duration::from_secs(30));
    server.know(&["tls"]);
    ServerConfig {
        listen,
        public_url,
        advertise,
        base_path,
        tls,
        card_max_age,
        card_keys,
        cors_origins,
        cors_credentials,
        hosts,
        trusted_proxies,
        ping_interval,
        keep_alive,
        write_timeout,
        streams_per_connection,
        grace,
    }
}

/// Reads a list of bindings by their names in cards.
pub(super) fn bindings(value: &Value) -> Result<Vec<Binding>, String> {
    let names = texts(value)?;
    let mut bindings = Vec::with_capacity(names.len());
    for name in &names {
        let binding = binding_of(name).ok_or_else(|| {
            format!("{name:?} is not a binding: list some of \"JSONRPC\", \"HTTP+JSON\" and \"GRPC\"")
        })?;
        if bindings.contains(&binding) {
            return Err(format!("lists {name} twice"));
        }
        bindings.push(binding);
    }
    if bindings.is_empty() {
        return Err("is empty: a card lists at least one binding".to_owned());
    }
    Ok(bindings)
}

fn base_path(value: &Value) -> Result<String, String> {
    let path = match value {
        Value::Text(path) | Value::Loose(path) => path.trim_end_matches('/'),
        other => return Err(format!("takes a string, not {}", other.type_name())),
    };
    let segment = |s: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        !s.is_empty() && s != "." && s != ".." && s.bytes().all(plain)
    };
    match path.strip_prefix('/') {
        None if path.is_empty() => Ok(String::new()),
        Some(rest) if rest.split('/').all(segment) => Ok(path.to_owned()),
        _ => Err(format!("{path:?} is not a path: write it like \"/v1/a2a\", with letters, digits and - . _ ~ only")),
    }
}

fn keep_alive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be above 0: without pings a lost peer is never noticed".to_owned()),
        time => Ok(time),
    }
}

fn write_timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be above 0: a peer that does not read would hold memory for ever".to_owned()),
        time => Ok(time),
    }
}

fn read_card_key(mut section: Section<'_>) -> Option<CardKey> {
    let environment = section.environment();
    let secret = |text: &str| {
        // The text is not repeated: it may be the key itself.
        let expected = "takes \"file:PATH\" or \"env:NAME\" of a private key in PEM, not the key itself";
        Secret::resolve(text, environment).unwrap_or_else(|| Err(expected.to_owned()))
    };
    let key = section.required("key", parsed(secret));
    let kid = section.get("kid", text);
    section.finish();
    Some(CardKey { key: key?, kid })
}

fn read_tls(mut tls: Section<'_>) -> Option<TlsConfig> {
    let readable = |path: &str| match std::fs::File::open(path) {
        Ok(_) => Ok(PathBuf::from(path)),
        Err(error) => Err(format!("cannot read the file {path}: {error}")),
    };
    for key in ["cert", "key"] {
        if !tls.has(key) {
            tls.problem(key, "is missing: TLS needs cert and key, two PEM files");
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
        let origin = base_url(text)?;
        match origin.matches('/').count() {
            2 => Ok(origin),
            _ => Err(format!("{text:?} has a path: an origin is only scheme, host and port")),
        }
    };
    texts(value)?.iter().map(origin).collect()
}

fn hosts(value: &Value) -> Result<Vec<String>, String> {
    let host = |text: &String| {
        if text == "*" {
            return Ok(text.clone());
        }
        let authority: Option<http::uri::Authority> = text.parse().ok();
        let is_host = authority.is_some_and(|authority| authority.host() == text && !text.contains('@'));
        let is_address = text.parse::<std::net::IpAddr>().is_ok();
        match (is_host, is_address) {
            // As requests write it.
            (_, true) if text.contains(':') => Ok(format!("[{text}]")),
            (true, _) | (_, true) => Ok(text.clone()),
            (false, false) => Err(format!(
                "{text:?} is not a host name: write it without scheme, port and path, such as \"agents.internal\""
            )),
        }
    };
    texts(value)?.iter().map(host).collect()
}

/// Reads `[admin]`.
pub(super) fn read_admin(mut admin: Section<'_>) -> AdminConfig {
    let loopback = |text: &str| match address(text)? {
        address if address.ip().is_loopback() => Ok(address),
        address => Err(format!(
            "{address} is not a loopback address: use 127.0.0.1 or [::1], because the admin port has no authentication"
        )),
    };
    let listen = admin.get("listen", parsed(loopback));
    admin.finish();
    AdminConfig { listen }
}
