//! One port for everything: gRPC, JSON-RPC, HTTP+JSON, cards, probes, as an [`axum::Router`] under tower layers.

mod additional;
pub(crate) mod admin;
mod auxiliary;
mod builder;
mod client;
mod compression;
mod cors;
mod dispatch;
mod documents;
mod ending;
mod grpc_web;
mod health;
mod hosts;
pub(crate) mod metrics;
mod origin;
mod process;
mod reflection;
mod request_id;
mod router;
mod routes;
mod spelling;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tricord_bindings::budget::Budget;
use tricord_bindings::server::{ConnectionLimits, Drain, Port};
use tricord_bindings::{CallStats, Pipeline};

use crate::card::Document;
use crate::config::Network;
use crate::schema::A2aService;
use crate::schema::service::Handlers;
use additional::Services;
use auxiliary::AuxiliaryServices;
use cors::Cors;
use health::Readiness;
use origin::OriginPolicy;

pub use additional::{Additional, Conflict};
pub(crate) use builder::BuildError;
pub use builder::Builder;
pub(crate) use hosts::Hosts;
pub(crate) use routes::Cards;
pub(crate) use routes::is_served;
pub use tricord_bindings::Anonymous;

/// A service on all its bindings. Clones are the same server.
pub struct Server<S>(Arc<Inner<S>>);

struct Inner<S> {
    pipeline: Pipeline<Handlers<S>>,
    /// What the program serves beside A2A.
    additional: Additional,
    /// Its gRPC services.
    services: Services,
    agents: Vec<String>,
    auxiliary: AuxiliaryServices,
    connections: ConnectionLimits,
    base_path: String,
    cards: Cards,
    keys: Option<Document>,
    openapi: Document,
    openrpc: Document,
    max_age: Duration,
    cors: Option<Cors>,
    hosts: Hosts,
    origins: OriginPolicy,
    proxies: Vec<Network>,
    readiness: Readiness,
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
    /// Starts to build a server for this service.
    pub fn builder(service: Arc<S>) -> Builder<S> {
        Builder::new(service)
    }

    /// Serves [`Server::router`] on a listener, with TLS if there is an acceptor, until [`Server::begin_stop`]. Connections
    /// outlive it; wait for them with [`Server::stopped`].
    pub async fn serve(&self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let port = Port::new(tls, self.0.connections.clone(), self.0.drain.clone());
        port.serve(listener, self.router()).await;
    }

    /// Begins to shut down: `/readyz` fails, no connection is accepted, and peers are asked to close theirs. Requests under
    /// way go on.
    pub fn begin_stop(&self) {
        self.0.drain.begin();
    }

    /// Ends open streams: a comment on server-sent events, UNAVAILABLE on gRPC.
    pub fn end_streams(&self) {
        self.0.pipeline.streams_end().cancel();
    }

    /// Waits until every connection is closed, at most for `patience`, then closes the others. Call
    /// [`Server::begin_stop`] first.
    pub async fn stopped(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.0.drain.finished()).await.is_err() {
            tracing::info!(connections = self.0.drain.connections(), "closing connections that did not end");
            self.0.drain.cut();
            self.0.drain.finished().await;
        }
    }

    /// Returns the statistics of calls since the start, by rpc, binding and outcome.
    pub fn call_stats(&self) -> Vec<CallStats> {
        self.0.pipeline.call_stats()
    }

    /// Returns the budgets of requests and of answers.
    pub(crate) fn budgets(&self) -> [&Arc<Budget>; 2] {
        self.0.pipeline.budgets()
    }

    /// Returns how many connections are open.
    pub fn connections(&self) -> usize {
        self.0.drain.connections()
    }
}
