//! One port for everything: gRPC, JSON-RPC, HTTP+JSON, cards, probes.
//!
//! A request is told apart by its head alone. `content-type: application/grpc` is gRPC, or gRPC-Web; a few paths stand outside the
//! schema (`routes`); a POST of an endpoint is JSON-RPC; everything else is HTTP+JSON.

pub(crate) mod admin;
mod auxiliary;
mod client;
mod cors;
mod documents;
mod grpc_web;
pub(crate) mod metrics;
mod process;
mod routes;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use jsonrpsee::Methods;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::{Layer as _, ServiceExt as _};
use tracing::Instrument as _;
use tricord_bindings::body::discard;
use tricord_bindings::error::kinds;
use tricord_bindings::pipeline::{ACCESS, RequestBody};
use tricord_bindings::server::{ConnectionLimits, Drain, Handler, Port};
use tricord_bindings::{
    Authenticator, BindingSettings, Body, CallStats, Error, Peer, Pipeline, Protocol, grpc, http_json, jsonrpc,
};

use crate::card::{Document, JwkSet};
use crate::config::{CARD_MAX_AGE, Network};
use crate::protocol::PROTOCOL;
use crate::schema::service::Handlers;
use crate::schema::{self, A2aService};
use auxiliary::AuxiliaryServices;
use cors::Cors;
use routes::Route;

pub use routes::Cards;
pub(crate) use routes::is_served;
pub use tricord_bindings::Anonymous;

/// What a server is made of. Everything but the service has a default.
pub struct Builder<S> {
    service: Arc<S>,
    protocol: &'static Protocol,
    settings: BindingSettings,
    connections: ConnectionLimits,
    base_path: String,
    cards: Cards,
    keys: JwkSet,
    max_age: Duration,
    cors: Cors,
    proxies: Vec<Network>,
    ready: watch::Receiver<bool>,
}

impl<S> std::fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("base_path", &self.base_path).finish_non_exhaustive()
    }
}

impl<S: A2aService> Builder<S> {
    /// The protocol as it is spoken: [`PROTOCOL`] by default.
    #[must_use]
    pub fn protocol(mut self, protocol: &'static Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Limits on request bodies, and pings on streams.
    #[must_use]
    pub fn settings(mut self, settings: BindingSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Limits on connections.
    #[must_use]
    pub fn connections(mut self, limits: ConnectionLimits) -> Self {
        self.connections = limits;
        self
    }

    /// What every path of HTTP+JSON, JSON-RPC and cards begins with: empty, or `/segment…` without a slash at the end.
    #[must_use]
    pub fn base_path(mut self, path: impl Into<String>) -> Self {
        self.base_path = path.into();
        self
    }

    /// Where cards come from; there are none by default.
    #[must_use]
    pub fn cards(mut self, cards: Cards) -> Self {
        self.cards = cards;
        self
    }

    /// The keys that cards are signed with, to be published; none by default.
    #[must_use]
    pub fn keys(mut self, keys: JwkSet) -> Self {
        self.keys = keys;
        self
    }

    /// How long cards and other documents may be kept without asking again; five minutes by default.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// The web origins whose pages may call, or `*`; none by default. With `credentials` they may send the cookies that
    /// the browser holds, which `*` never may.
    #[must_use]
    pub fn cors(mut self, origins: &[String], credentials: bool) -> Self {
        self.cors = Cors::new(origins, credentials);
        self
    }

    /// The proxies that are believed when they say whose request they pass on, for logs; none by default.
    #[must_use]
    pub fn trusted_proxies(mut self, proxies: Vec<Network>) -> Self {
        self.proxies = proxies;
        self
    }

    /// Whether the server takes work, for `/readyz` and gRPC health; always by default, and never once it drains.
    #[must_use]
    pub fn ready(mut self, ready: watch::Receiver<bool>) -> Self {
        self.ready = ready;
        self
    }

    /// Puts the server together, with what finds out who calls.
    ///
    /// # Errors
    /// When the schema's descriptors are refused by the reflection service.
    pub fn build(self, authenticator: impl Authenticator) -> Result<Server<S>, tonic_reflection::server::Error> {
        let now = SystemTime::now();
        Ok(Server(Arc::new(Inner {
            pipeline: Handlers::pipeline(self.service, self.protocol, authenticator, self.settings),
            methods: Methods::new(),
            auxiliary: AuxiliaryServices::new()?,
            connections: self.connections,
            base_path: self.base_path,
            cards: self.cards,
            keys: (!self.keys.keys.is_empty()).then(|| Document::new(&self.keys, now)),
            openapi: Document::of(schema::OPENAPI, now),
            openrpc: Document::of(schema::OPENRPC, now),
            max_age: self.max_age,
            cors: self.cors,
            proxies: self.proxies,
            ready: self.ready,
            drain: Drain::new(),
        })))
    }
}

/// A service on all its wires. Clones are the same server.
pub struct Server<S>(Arc<Inner<S>>);

struct Inner<S> {
    pipeline: Pipeline<Handlers<S>>,
    /// JSON-RPC methods beside those of the schema.
    methods: Methods,
    auxiliary: AuxiliaryServices,
    connections: ConnectionLimits,
    base_path: String,
    cards: Cards,
    keys: Option<Document>,
    openapi: Document,
    openrpc: Document,
    max_age: Duration,
    cors: Cors,
    proxies: Vec<Network>,
    ready: watch::Receiver<bool>,
    drain: Drain,
}

impl<S> Clone for Server<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> std::fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("pipeline", &self.0.pipeline).finish_non_exhaustive()
    }
}

impl<S: A2aService> Server<S> {
    /// Begins to put a server together.
    pub fn builder(service: Arc<S>) -> Builder<S> {
        Builder {
            service,
            protocol: &PROTOCOL,
            settings: BindingSettings::default(),
            connections: ConnectionLimits::default(),
            base_path: String::new(),
            cards: Arc::new(|_| None),
            keys: JwkSet::default(),
            max_age: CARD_MAX_AGE,
            cors: Cors::default(),
            proxies: Vec::new(),
            // A receiver whose sender is gone keeps its last value.
            ready: watch::channel(true).1,
        }
    }

    /// Serves one listener, with TLS if there is an acceptor, until [`Server::begin_stop`]. Connections outlive it; wait
    /// for them with [`Server::stopped`].
    pub async fn serve(&self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let health = tokio::spawn(self.0.auxiliary.clone().follow(self.0.ready.clone()));
        let port = Port::new(tls, self.0.connections.clone(), self.0.drain.clone());
        port.serve(listener, self.clone()).await;
        health.abort();
    }

    /// Begins the end: `/readyz` says no, nothing more is accepted, peers are told to go away. What is under way goes on.
    pub fn begin_stop(&self) {
        self.0.drain.begin();
    }

    /// Ends open streams: a comment on server-sent events, UNAVAILABLE on gRPC.
    pub fn end_streams(&self) {
        self.0.pipeline.streams_end().cancel();
    }

    /// Waits at most so long until every connection is closed, then closes what is left. Call [`Server::begin_stop`]
    /// first.
    pub async fn stopped(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.0.drain.finished()).await.is_err() {
            tracing::info!(connections = self.0.drain.connections(), "closing connections that did not end");
            self.0.drain.cut();
            self.0.drain.finished().await;
        }
    }

    /// The calls so far, by rpc, binding and outcome.
    pub fn call_stats(&self) -> Vec<CallStats> {
        self.0.pipeline.call_stats()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.0.drain.connections()
    }

    /// Answers one request, as if it had come by a connection of this peer.
    pub async fn answer(&self, request: Request<impl RequestBody>, peer: &Peer) -> Response<Body> {
        let is_head = request.method() == Method::HEAD;
        // Around the span of the call itself, which knows nothing of connections.
        let span = tracing::info_span!(target: ACCESS, "request", client = tracing::field::Empty);
        if !span.is_disabled() {
            let client = client::address(peer.address().ip(), request.headers(), &self.0.proxies);
            span.record("client", tracing::field::display(client));
        }
        let service = tower::service_fn(|request| self.dispatch(request, peer).map(Ok::<_, Infallible>));
        let Ok(response) = self.0.cors.layer(service).oneshot(request).instrument(span).await;
        if is_head { without_body(response) } else { response }
    }

    async fn dispatch(&self, request: Request<impl RequestBody>, peer: &Peer) -> Response<Body> {
        let Inner { pipeline, base_path, cards, ready, drain, max_age, .. } = &*self.0;
        if is_grpc(&request) {
            return self.grpc(request, peer).await;
        }
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let below = routes::below(path, base_path);
        let document = |document: &Document| documents::answer(&head.method, &head.headers, document, *max_age);
        match Route::of(path, below) {
            Route::Live => routes::probe(&head.method, true),
            Route::Ready => routes::probe(&head.method, *ready.borrow() && !drain.has_begun()),
            Route::OpenApi => document(&self.0.openapi),
            Route::OpenRpc => document(&self.0.openrpc),
            Route::Keys => match &self.0.keys {
                Some(keys) => document(keys),
                None => self.refuse(&head, &Error::new(&kinds::METHOD_NOT_FOUND, "cards are not signed here")),
            },
            Route::Card(agent) => match cards(agent.as_deref()) {
                Some(card) => document(&card),
                None => {
                    let error = Error::new(&kinds::METHOD_NOT_FOUND, "no agent of this name is served here");
                    self.refuse(&head, &error)
                }
            },
            Route::JsonRpc(agent) if head.method == Method::POST => {
                let agent = agent.map(|agent| agent.into_owned());
                jsonrpc::serve(pipeline, head, peer, body, agent.as_deref(), &self.0.methods).await
            }
            Route::JsonRpc(_) => {
                let error = Error::new(&kinds::METHOD_NOT_ALLOWED, "this is a JSON-RPC endpoint: it answers POST");
                self.refuse(&head, &error.with_allow("POST"))
            }
            Route::Schema => {
                // A path that is not below the base path has no rule either.
                let skip = if below.is_some() { base_path.len() } else { path.len() };
                http_json::serve(pipeline, head, peer, body, skip).await
            }
        }
    }

    fn refuse(&self, head: &Parts, error: &Error) -> Response<Body> {
        http_json::refuse(&self.0.pipeline, &head.headers, error)
    }

    async fn grpc(&self, mut request: Request<impl RequestBody>, peer: &Peer) -> Response<Body> {
        without_base_path(&mut request, &self.0.base_path);
        if grpc_web::take(&mut request) {
            return grpc_web::answer(request, |request| self.plain_grpc(request, peer)).await;
        }
        self.plain_grpc(request, peer).await
    }

    async fn plain_grpc(&self, request: Request<impl RequestBody>, peer: &Peer) -> Response<Body> {
        let Inner { pipeline, auxiliary, .. } = &*self.0;
        let (head, body) = request.into_parts();
        if head.uri.path().starts_with(schema::grpc::PREFIX) {
            return grpc::serve(pipeline, head, peer, body).await;
        }
        match pipeline.authenticate(&head, peer).await {
            Ok(_) => auxiliary.serve(Request::from_parts(head, body)).await,
            Err(error) => {
                discard(&head.headers, body);
                grpc::refuse(pipeline, &error)
            }
        }
    }
}

/// gRPC below the base path is gRPC too: clients that were given one address put all their paths behind it.
fn without_base_path<B>(request: &mut Request<B>, base_path: &str) {
    let Some(path) = routes::below(request.uri().path(), base_path).filter(|_| !base_path.is_empty()) else { return };
    if let Ok(path) = PathAndQuery::try_from(path) {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

impl<S: A2aService> Handler for Server<S> {
    async fn handle(&self, request: Request<hyper::body::Incoming>, peer: &Peer) -> Response<Body> {
        self.answer(request, peer).await
    }
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to HEAD: everything but the body, whose length is told.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let has_none = matches!(head.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
    if let Some(length) = http_body::Body::size_hint(&body).exact().filter(|_| !has_none) {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    Response::from_parts(head, Body::empty())
}
