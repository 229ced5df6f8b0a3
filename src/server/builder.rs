//! Builds a [`Server`] from its parts.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tricord_bindings::server::{ConnectionLimits, Drain};
use tricord_bindings::{Authenticator, BindingSettings, Protocol};

use super::additional::{Additional, Conflict};
use super::auxiliary::AuxiliaryServices;
use super::cors::Cors;
use super::health::Readiness;
use super::hosts::Hosts;
use super::origin::OriginPolicy;
use super::{Cards, Inner, Server, routes};
use crate::card::{Document, JwkSet};
use crate::config::{CARD_MAX_AGE, Network};
use crate::protocol::PROTOCOL;
use crate::schema::service::Handlers;
use crate::schema::{self, A2aService};

/// The parts of a server. Everything but the service has a default.
pub struct Builder<S> {
    service: Arc<S>,
    protocol: &'static Protocol,
    settings: BindingSettings,
    connections: ConnectionLimits,
    base_path: String,
    cards: Cards,
    keys: JwkSet,
    max_age: Duration,
    cors: Option<Cors>,
    cors_origins: Vec<String>,
    public_url: Option<String>,
    endpoint: Option<String>,
    hosts: Hosts,
    proxies: Vec<Network>,
    ready: watch::Receiver<bool>,
    agents: Vec<String>,
    additional: Additional,
}

impl<S> std::fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("base_path", &self.base_path).finish_non_exhaustive()
    }
}

impl<S: A2aService> Builder<S> {
    pub(super) fn new(service: Arc<S>) -> Self {
        Self {
            service,
            protocol: &PROTOCOL,
            settings: BindingSettings::default(),
            connections: ConnectionLimits::default(),
            base_path: String::new(),
            cards: Arc::new(|_| None),
            keys: JwkSet::default(),
            max_age: CARD_MAX_AGE,
            cors: None,
            cors_origins: Vec::new(),
            public_url: None,
            endpoint: None,
            hosts: Hosts::any(),
            proxies: Vec::new(),
            // A receiver whose sender is gone keeps its last value.
            ready: watch::channel(true).1,
            agents: Vec::new(),
            additional: Additional::default(),
        }
    }

    /// Sets the protocol; [`PROTOCOL`] by default.
    #[must_use]
    pub fn protocol(mut self, protocol: &'static Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets the limits on request bodies, and the pings on streams.
    #[must_use]
    pub fn settings(mut self, settings: BindingSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the limits on connections.
    #[must_use]
    pub fn connections(mut self, limits: ConnectionLimits) -> Self {
        self.connections = limits;
        self
    }

    /// Sets the prefix of every path of HTTP+JSON, JSON-RPC and cards: empty, or `/segment…` without a slash at the end.
    #[must_use]
    pub fn base_path(mut self, path: impl Into<String>) -> Self {
        self.base_path = path.into();
        self
    }

    /// Sets where cards come from; there are none by default.
    #[must_use]
    pub fn cards(mut self, cards: Cards) -> Self {
        self.cards = cards;
        self
    }

    /// Sets the public keys that verify cards; none by default.
    #[must_use]
    pub fn keys(mut self, keys: JwkSet) -> Self {
        self.keys = keys;
        self
    }

    /// Sets how long clients may cache cards and other documents; five minutes by default.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// Sets the web origins whose pages may call, or `*`; none by default. With `credentials` their requests may carry
    /// cookies, which `*` never allows.
    #[must_use]
    pub fn cors(mut self, origins: &[String], credentials: bool) -> Self {
        self.cors = Cors::new(origins, credentials);
        self.cors_origins = origins.to_vec();
        self
    }

    /// Sets the server's public URL, whose own pages may call; those of the host that a request names always may.
    #[must_use]
    pub fn public_url(mut self, url: Option<&str>) -> Self {
        self.public_url = url.map(str::to_owned);
        self
    }

    /// Sets the URL that cards and descriptions advertise, without the base path; descriptions name none by default.
    #[must_use]
    pub fn advertised_url(mut self, url: &str) -> Self {
        self.endpoint = Some(url.to_owned());
        self
    }

    /// Sets the host names that the server answers to; all by default.
    #[must_use]
    pub(crate) fn hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets the proxies whose `x-forwarded-for` is trusted, for logs; none by default.
    #[must_use]
    pub fn trusted_proxies(mut self, proxies: Vec<Network>) -> Self {
        self.proxies = proxies;
        self
    }

    /// Sets whether the server accepts work, for `/readyz` and gRPC health; always by default, and never once it drains.
    #[must_use]
    pub fn ready(mut self, ready: watch::Receiver<bool>) -> Self {
        self.ready = ready;
        self
    }

    /// Sets the names of the agents, whose paths are A2A's; none by default.
    #[must_use]
    pub fn agents(mut self, names: Vec<String>) -> Self {
        self.agents = names;
        self
    }

    /// Sets what the program serves beside A2A; nothing by default.
    #[must_use]
    pub fn additional(mut self, additional: Additional) -> Self {
        self.additional = additional;
        self
    }

    /// Builds the server with this authenticator.
    ///
    /// # Errors
    /// If the reflection service refuses the schema's descriptors, or if what the program serves conflicts with A2A.
    pub fn build(self, authenticator: impl Authenticator) -> Result<Server<S>, BuildError> {
        let now = SystemTime::now();
        self.additional.check(self.protocol, &routes::paths(&self.base_path, &self.agents))?;
        let endpoint = self.endpoint.map(|url| format!("{url}{}", self.base_path));
        let drain = Drain::new();
        let readiness = Readiness::new(self.ready, drain.clone());
        let services = self.additional.services();
        Ok(Server(Arc::new(Inner {
            pipeline: Handlers::pipeline(self.service, self.protocol, authenticator, self.settings),
            additional: self.additional,
            agents: self.agents,
            auxiliary: AuxiliaryServices::new(readiness.clone(), services.names())?,
            services,
            connections: self.connections,
            base_path: self.base_path,
            cards: self.cards,
            keys: (!self.keys.keys.is_empty()).then(|| Document::new(&self.keys, now)),
            openapi: description(schema::OPENAPI, endpoint.as_deref(), now),
            openrpc: description(schema::OPENRPC, endpoint.as_deref(), now),
            max_age: self.max_age,
            cors: self.cors,
            hosts: self.hosts,
            origins: OriginPolicy::new(&self.cors_origins, self.public_url.as_deref()),
            proxies: self.proxies,
            readiness,
            drain,
        })))
    }
}

/// Returns the description of a binding, with the URL that it is served at.
fn description(text: &'static str, endpoint: Option<&str>, now: SystemTime) -> Document {
    let (Some(url), Ok(mut json)) = (endpoint, serde_json::from_str::<serde_json::Value>(text)) else {
        return Document::of(text, now);
    };
    let server = if json.get("openrpc").is_some() {
        serde_json::json!({"name": "this server", "url": format!("{url}/")})
    } else {
        serde_json::json!({ "url": url })
    };
    json["servers"] = serde_json::json!([server]);
    Document::of(format!("{json:#}\n"), now)
}

/// Why a server cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The reflection service refused the descriptors of the schema.
    #[error("reflection: {0}")]
    Reflection(#[from] prost::DecodeError),
    /// The program serves something under a name of A2A.
    #[error(transparent)]
    Conflict(#[from] Conflict),
}
