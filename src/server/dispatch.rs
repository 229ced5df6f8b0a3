//! Finds what answers a request, by its head alone.
//!
//! `content-type: application/grpc` is gRPC, or gRPC-Web; a few paths stand outside the schema (`routes`); a POST of an
//! endpoint is JSON-RPC; everything else is HTTP+JSON.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};
use tower::ServiceExt as _;
use tricord_bindings::body::discard;
use tricord_bindings::error::kinds;
use tricord_bindings::pipeline::RequestBody;
use tricord_bindings::request::Request as _;
use tricord_bindings::{Binding, Body, Error, Peer, grpc, http_json, jsonrpc, query};

use super::ending::EndingBody;
use super::routes::{self, Route};
use super::{Inner, Server, documents, grpc_web, spelling};
use crate::card::Document;
use crate::schema::{self, A2aService, GetTaskRequest};

/// The verbs of the schema.
static VERBS: [Method; 3] = [Method::GET, Method::POST, Method::DELETE];

impl<S: A2aService> Server<S> {
    /// Answers one request of this peer.
    pub(super) async fn dispatch(&self, request: Request<impl RequestBody>, peer: &Peer) -> Response<Body> {
        let Inner { pipeline, base_path, cards, readiness, max_age, .. } = &*self.0;
        if is_grpc(&request) {
            return self.grpc(request, peer).await;
        }
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let below = routes::below(path, base_path);
        if let Err(error) = self.check_source(&head) {
            discard(&head.headers, body);
            return match Route::of(path, below) {
                Route::JsonRpc(_) if head.method == Method::POST => jsonrpc::refuse(pipeline, &error),
                _ => self.refuse(&head, &error),
            };
        }
        let document = |document: &Document| documents::answer(&head.method, &head.headers, document, *max_age);
        match Route::of(path, below) {
            Route::Live => routes::probe(&head.method, true),
            Route::Ready => routes::probe(&head.method, readiness.is_ready()),
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
                jsonrpc::serve(pipeline, head, peer, body, agent.as_deref(), &self.0.additional.methods).await
            }
            // Other protocols probe paths such as /health and /favicon.ico.
            Route::JsonRpc(Some(agent)) if !self.is_agent(&agent) => {
                self.refuse(&head, &Error::new(&kinds::METHOD_NOT_FOUND, "no such path"))
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

    /// Returns whether A2A serves this path over HTTP. The paths of agents that do not exist are not A2A's.
    pub(super) fn is_a2a(&self, path: &str) -> bool {
        let below = routes::below(path, &self.0.base_path);
        let is_agent = |name: &str| self.is_agent(name);
        let is_rpc = |path: &str| {
            let codecs = self.0.pipeline.protocol().codecs.iter();
            let routes = codecs.flat_map(|codec| VERBS.iter().map(move |verb| codec.http_route(verb, path)));
            let mut routes = routes.filter_map(|route| match route {
                query::Route::Rpc(route) => Some(route),
                query::Route::OtherVerbs(_) | query::Route::NotFound => None,
            });
            routes.any(|route| route.variables.get(GetTaskRequest::SCOPE.name).is_none_or(is_agent))
        };
        match Route::of(path, below) {
            Route::Card(Some(agent)) | Route::JsonRpc(Some(agent)) => is_agent(&agent),
            Route::Schema => below.is_some_and(is_rpc),
            _ => true,
        }
    }

    fn is_agent(&self, name: &str) -> bool {
        self.0.agents.iter().any(|agent| agent == name)
    }

    /// Checks that a request is for this server, that no page of another origin made it, and that a gateway reads its headers
    /// as the server does.
    pub(super) fn check_source(&self, head: &Parts) -> Result<(), Error> {
        spelling::check(&head.headers)?;
        self.0.hosts.check(head)?;
        self.0.origins.check(head)
    }

    /// Answers with an error, as HTTP+JSON does.
    pub(super) fn refuse(&self, head: &Parts, error: &Error) -> Response<Body> {
        http_json::refuse(&self.0.pipeline, &head.headers, error)
    }

    async fn grpc(&self, mut request: Request<impl RequestBody>, peer: &Peer) -> Response<Body> {
        without_base_path(&mut request, &self.0.base_path);
        if grpc_web::take(&mut request) {
            // In a box, as it is the largest of these futures: other requests do not need the room.
            return Box::pin(grpc_web::answer(request, |request| self.plain_grpc(request, peer))).await;
        }
        self.plain_grpc(request, peer).await
    }

    /// Ends the body of a response with the server's streams.
    fn ending(&self, response: Response<tonic::body::Body>) -> Response<Body> {
        let end = self.0.pipeline.streams_end();
        response.map(|body| Body::Grpc(tonic::body::Body::new(EndingBody::new(body, end))))
    }

    async fn plain_grpc(&self, request: Request<impl RequestBody>, peer: &Peer) -> Response<Body> {
        let Inner { pipeline, auxiliary, services, .. } = &*self.0;
        let (mut head, body) = request.into_parts();
        if let Err(error) = self.check_source(&head) {
            discard(&head.headers, body);
            return grpc::refuse(pipeline, &error);
        }
        if head.uri.path().starts_with(schema::grpc::PREFIX) {
            return grpc::serve(pipeline, head, peer, body).await;
        }
        match pipeline.authenticate(&head, peer).await {
            Ok(principal) if services.has(head.uri.path()) => {
                head.extensions.insert(principal);
                let request = Request::from_parts(head, body).map(tonic::body::Body::new);
                let mut record = pipeline.record_additional(Binding::Grpc);
                let Ok(response) = services.routes.clone().oneshot(request).await;
                // A status after the first message is not waited for.
                let failed = response.headers().get("grpc-status").is_some_and(|status| status != "0");
                record.end_with(if failed { "FAILED" } else { "OK" });
                self.ending(response)
            }
            Ok(_) => self.ending(auxiliary.serve(Request::from_parts(head, body)).await),
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

/// Returns whether a request is gRPC or gRPC-Web, by its media type.
pub(super) fn is_grpc<B>(request: &Request<B>) -> bool {
    const PREFIX: &[u8] = b"application/grpc";
    let content_type = request.headers().get(CONTENT_TYPE);
    let starts = |value: &[u8]| value.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    content_type.is_some_and(|value| starts(value.as_bytes()))
}
