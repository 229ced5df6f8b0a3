//! The gRPC health service (`grpc.health.v1`), from the same sources as `/readyz`.

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tricord_bindings::server::Drain;

/// Whether the server takes work. Clones see the same.
#[derive(Debug, Clone)]
pub(super) struct Readiness {
    store: watch::Receiver<bool>,
    drain: Drain,
}

impl Readiness {
    /// Takes work while the store does, and never once the drain has begun.
    pub(super) fn new(store: watch::Receiver<bool>, drain: Drain) -> Self {
        Self { store, drain }
    }

    /// Returns whether the server takes work now.
    pub(super) fn is_ready(&self) -> bool {
        *self.store.borrow() && !self.drain.has_begun()
    }

    /// Waits until the answer may have changed.
    async fn changed(&mut self) {
        let store = async {
            // Without a sender the answer stays as it is.
            if self.store.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = store => {}
            () = self.drain.begins() => {}
        }
    }
}

/// The health service.
#[derive(Debug)]
pub(super) struct HealthService {
    readiness: Readiness,
    /// The services that it knows; the empty name is the whole server.
    names: Vec<&'static str>,
}

impl HealthService {
    /// Answers for the server and for these services.
    pub(super) fn new(readiness: Readiness, names: Vec<&'static str>) -> Self {
        Self { readiness, names }
    }

    fn knows(&self, name: &str) -> bool {
        name.is_empty() || self.names.contains(&name)
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !self.knows(&request.get_ref().service) {
            return Err(Status::not_found("no service of this name is served here"));
        }
        Ok(Response::new(response(serving(&self.readiness))))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    /// Sends the status of a service whenever it changes. A service that is not known has one too (SERVICE_UNKNOWN). The
    /// stream ends with NOT_SERVING when the server stops.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let is_known = self.knows(&request.get_ref().service);
        let state = Some((self.readiness.clone(), None));
        let statuses = stream::unfold(state, move |state| async move {
            let (mut readiness, last) = state?;
            loop {
                let ends = readiness.drain.has_begun();
                let status = match is_known {
                    false if !ends => ServingStatus::ServiceUnknown,
                    _ => serving(&readiness),
                };
                if ends || last != Some(status) {
                    return Some((Ok(response(status)), (!ends).then_some((readiness, Some(status)))));
                }
                readiness.changed().await;
            }
        });
        Ok(Response::new(statuses.boxed()))
    }
}

fn serving(readiness: &Readiness) -> ServingStatus {
    if readiness.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(statuses: &mut BoxStream<'static, Result<HealthCheckResponse, Status>>) -> Option<ServingStatus> {
        statuses.next().await.map(|status| status.unwrap().status())
    }

    #[tokio::test]
    async fn a_watcher_sees_every_change_and_then_the_end() {
        let (store, drain) = (watch::channel(true), Drain::new());
        let service = HealthService::new(Readiness::new(store.1, drain.clone()), vec!["a.B"]);
        let watch = |name: &str| service.watch(Request::new(HealthCheckRequest { service: name.into() }));
        let mut known = watch("a.B").await.unwrap().into_inner();
        let mut unknown = watch("a.C").await.unwrap().into_inner();
        assert_eq!(next(&mut known).await, Some(ServingStatus::Serving));
        assert_eq!(next(&mut unknown).await, Some(ServingStatus::ServiceUnknown));
        store.0.send_replace(false);
        assert_eq!(next(&mut known).await, Some(ServingStatus::NotServing));
        store.0.send_replace(true);
        assert_eq!(next(&mut known).await, Some(ServingStatus::Serving));
        drain.begin();
        for statuses in [&mut known, &mut unknown] {
            assert_eq!(next(statuses).await, Some(ServingStatus::NotServing));
            assert_eq!(next(statuses).await, None);
        }
    }
}
