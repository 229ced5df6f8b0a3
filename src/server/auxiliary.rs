//! gRPC services beside the schema's: health, and reflection in both of its versions.

use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tonic::Code;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::ServiceExt as _;
use tricord_bindings::Body;
use tricord_bindings::pipeline::RequestBody;

use crate::schema::{DESCRIPTORS, grpc};

/// The names of the services beside the schema's.
pub(super) const NAMES: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// The services beside the schema's.
#[derive(Debug, Clone)]
pub(super) struct AuxiliaryServices {
    routes: Routes,
    health: HealthReporter,
}

impl AuxiliaryServices {
    /// Builds them.
    ///
    /// # Errors
    /// When the descriptors are refused.
    pub(super) fn new() -> Result<Self, tonic_reflection::server::Error> {
        let (health, health_service) = tonic_health::server::health_reporter();
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let mut routes = Routes::builder();
        routes
            .add_service(health_service)
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?);
        Ok(Self { routes: routes.routes().prepare(), health })
    }

    /// Tells health checks whether the server takes work, until nobody can change it any more.
    pub(super) async fn follow(self, mut ready: watch::Receiver<bool>) {
        loop {
            let status = if *ready.borrow_and_update() { ServingStatus::Serving } else { ServingStatus::NotServing };
            for name in ["", grpc::NAME] {
                self.health.set_service_status(name, status).await;
            }
            if ready.changed().await.is_err() {
                return;
            }
        }
    }

    /// Answers a gRPC request that is not for the schema's service.
    pub(super) async fn serve(&self, request: Request<impl RequestBody>) -> http::Response<Body> {
        let request = request.map(tonic::body::Body::new);
        let mut response = match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        blame_client(response.headers_mut());
        response.map(|body| {
            let body = body.map_frame(|mut frame| {
                if let Some(trailers) = frame.trailers_mut() {
                    blame_client(trailers);
                }
                frame
            });
            Body::Grpc(tonic::body::Body::new(body))
        })
    }
}

/// What tonic calls an internal error is a message that it cannot read: these services have no faults of their own.
fn blame_client(headers: &mut HeaderMap) {
    const STATUS: &str = "grpc-status";
    let internal = [Code::Internal, Code::Unknown].map(|code| HeaderValue::from(code as i32));
    if headers.get(STATUS).is_some_and(|status| internal.contains(status)) {
        headers.insert(STATUS, HeaderValue::from(Code::InvalidArgument as i32));
    }
}
