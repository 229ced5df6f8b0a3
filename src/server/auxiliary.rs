//! gRPC services beside the schema's: health, and reflection in both of its versions.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt as _;
use tonic::Code;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::pb::v1::server_reflection_server as v1;
use tonic_reflection::pb::v1alpha::server_reflection_server as v1alpha;
use tower::ServiceExt as _;
use tricord_bindings::pipeline::RequestBody;

use super::health::{HealthService, Readiness};
use super::reflection::{Descriptors, Reflection};
use crate::schema::{DESCRIPTORS, grpc};

/// The longest message of one of these services, in bytes. Names of services and symbols are short.
const LARGEST: usize = 64 << 10;

/// The names of the services beside the schema's.
pub(super) const NAMES: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// The services beside the schema's.
#[derive(Debug, Clone)]
pub(super) struct AuxiliaryServices {
    routes: Routes,
}

impl AuxiliaryServices {
    /// Builds them. Health knows the schema's service and those of the program, whose names are given.
    ///
    /// # Errors
    /// When the descriptors are refused.
    pub(super) fn new(readiness: Readiness, names: &[&'static str]) -> Result<Self, prost::DecodeError> {
        let names = names.iter().copied().chain([grpc::NAME]).collect();
        let descriptors = Descriptors::read(&[
            DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ])?;
        let reflection = Reflection(Arc::new(descriptors));
        let mut routes = Routes::builder();
        routes
            .add_service(HealthServer::new(HealthService::new(readiness, names)).max_decoding_message_size(LARGEST))
            .add_service(v1::ServerReflectionServer::new(reflection.clone()).max_decoding_message_size(LARGEST))
            .add_service(v1alpha::ServerReflectionServer::new(reflection).max_decoding_message_size(LARGEST));
        Ok(Self { routes: routes.routes().prepare() })
    }

    /// Answers a gRPC request that is not for the schema's service.
    pub(super) async fn serve(&self, request: Request<impl RequestBody>) -> http::Response<tonic::body::Body> {
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
            tonic::body::Body::new(body)
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
