//! What gRPC makes of metadata, messages and deadlines.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use tricord::schema::*;
use tricord_bindings::details::{ErrorInfo, Status};

use crate::support::{framed, grpc_path, message_proto, start, start_with};

fn get(id: &str) -> GetTaskRequest {
    GetTaskRequest { id: id.to_owned(), ..Default::default() }
}

fn reason(status: &Status) -> String {
    <ErrorInfo as prost::Message>::decode(status.details[0].value.as_slice()).unwrap().reason
}

#[tokio::test]
async fn an_error_is_a_status_with_details() {
    let running = start().await;
    let answer = running.grpc(&grpc_path("GetTask"), &[], &get("missing")).await;
    assert_eq!(answer.grpc_status(), 5);
    let status = answer.status_details();
    assert_eq!((status.code, &*status.message, &*reason(&status)), (5, "no such task", "TASK_NOT_FOUND"));

    let answer = running.grpc(&grpc_path("GetTask"), &[], &get("")).await;
    assert_eq!(answer.grpc_status(), 3);
    let status = answer.status_details();
    assert_eq!(reason(&status), "INVALID_PARAMS");
    assert_eq!(status.details[1].type_url, "type.googleapis.com/google.rpc.BadRequest");
    assert!(status.message.starts_with("id: "), "{}", status.message);

    assert_eq!(running.grpc(&grpc_path("GetTask"), &[], &get("busy")).await.grpc_status(), 14);
    assert_eq!(running.grpc(&grpc_path("GetTask"), &[], &get("panic")).await.grpc_status(), 13);
}

#[tokio::test]
async fn a_message_that_is_none_is_the_clients_fault() {
    let running = start().await;
    let broken = framed(&[0x12, 200, 1, 2]);
    let answer = running.grpc_bytes(&grpc_path("GetTask"), &[], broken).await;
    assert_eq!((answer.grpc_status(), &*reason(&answer.status_details())), (3, "INVALID_PARAMS"));
    // Nothing, half a frame, and a frame of an unknown kind.
    for body in [Bytes::new(), Bytes::from_static(&[0, 0, 0]), Bytes::from_static(&[9, 0, 0, 0, 0])] {
        let answer = running.grpc_bytes(&grpc_path("GetTask"), &[], body.clone()).await;
        assert_eq!(answer.grpc_status(), 3, "{body:?}: {answer:?}");
    }
    // The scope of what cannot be read is judged first, where it can be found.
    let broken = framed(&[0x0a, 2, b't', b'9', 0x12, 200]);
    let answer = running.grpc_bytes(&grpc_path("GetTask"), &[], broken).await;
    assert!(answer.status_details().message.starts_with("tenant: "), "{answer:?}");
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused() {
    let running = start_with(|builder| {
        let mut settings = tricord_bindings::BindingSettings::default();
        settings.body.bytes = 1000;
        builder.settings(settings)
    })
    .await;
    let path = grpc_path("SendMessage");
    assert_eq!(running.grpc(&path, &[], &message_proto(&"x".repeat(900))).await.grpc_status(), 0);
    let answer = running.grpc(&path, &[], &message_proto(&"x".repeat(1001))).await;
    assert_eq!((answer.grpc_status(), &*reason(&answer.status_details())), (8, "TOO_LARGE"));
    // A small frame that unpacks to a large one is no way around.
    let answer =
        running.grpc_bytes(&path, &[("grpc-encoding", "gzip")], gzipped(&message_proto(&"x".repeat(100_000)))).await;
    assert_eq!((answer.grpc_status(), &*reason(&answer.status_details())), (8, "TOO_LARGE"));
}

fn gzipped(message: &impl prost::Message) -> Bytes {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&message.encode_to_vec()).unwrap();
    let mut frame = framed(&packed.finish().unwrap()).to_vec();
    frame[0] = 1;
    frame.into()
}

#[tokio::test]
async fn gzip_is_read() {
    let running = start().await;
    let packed = gzipped(&get("x"));
    let answer = running.grpc_bytes(&grpc_path("GetTask"), &[("grpc-encoding", "gzip")], packed.clone()).await;
    assert_eq!((answer.grpc_status(), &*answer.messages::<Task>()[0].id), (0, "x"));
    let answer = running.grpc_bytes(&grpc_path("GetTask"), &[("grpc-encoding", "br")], packed).await;
    assert_eq!((answer.grpc_status(), answer.header("grpc-accept-encoding")), (12, "gzip,identity"));
}

#[tokio::test]
async fn metadata_is_read_like_headers() {
    let running = start().await;
    for (version, status) in [("1.0", 0), ("1.0.3", 0), ("9.0", 9), ("", 9)] {
        let answer = running.grpc(&grpc_path("GetTask"), &[("a2a-version", version)], &get("x")).await;
        assert_eq!(answer.grpc_status(), status, "{version}");
    }
    let metadata = [("a2a-extensions", "known:a,other"), ("last-event-id", "1.5")];
    running.dummy.take();
    let answer = running.grpc(&grpc_path("GetTask"), &metadata, &get("x")).await;
    assert_eq!(answer.header("a2a-extensions"), "known:a");
    assert_eq!(running.dummy.take()[0].last_event_id.as_deref(), Some("1.5"));
}

#[tokio::test]
async fn a_deadline_ends_the_wait() {
    let running = start().await;
    for rpc in ["GetTask", "SubscribeToTask"] {
        let answer = running.grpc(&grpc_path(rpc), &[("grpc-timeout", "30m")], &get("never")).await;
        assert_eq!((answer.grpc_status(), &*reason(&answer.status_details())), (4, "DEADLINE_EXCEEDED"), "{rpc}");
    }
    let answer = running.grpc(&grpc_path("SubscribeToTask"), &[("grpc-timeout", "50000u")], &get("waits")).await;
    assert_eq!((answer.grpc_status(), answer.messages::<StreamResponse>().len()), (4, 1));
}

#[tokio::test]
async fn a_stream_carries_its_events_then_its_status() {
    let running = start().await;
    let subscribe = grpc_path("SubscribeToTask");
    let answer = running.grpc(&subscribe, &[], &get("x")).await;
    assert_eq!((answer.grpc_status(), answer.messages::<StreamResponse>().len()), (0, 2));
    let answer = running.grpc(&subscribe, &[], &get("many")).await;
    assert_eq!((answer.grpc_status(), answer.messages::<StreamResponse>().len()), (0, 1000));
    let answer = running.grpc(&subscribe, &[], &get("fails")).await;
    assert_eq!((answer.grpc_status(), answer.messages::<StreamResponse>().len()), (5, 1));
    assert_eq!(reason(&answer.status_details()), "TASK_NOT_FOUND");
    let answer = running.grpc(&subscribe, &[], &get("missing")).await;
    assert_eq!((answer.grpc_status(), answer.body.len()), (5, 0));
}

#[tokio::test]
async fn a_stream_ends_when_the_server_does() {
    let running = start().await;
    let response = running
        .grpc_open(&grpc_path("SubscribeToTask"), &[], framed(&prost::Message::encode_to_vec(&get("waits"))))
        .await;
    running.server.begin_stop();
    running.server.end_streams();
    let answer = tokio::time::timeout(Duration::from_secs(5), crate::support::Answer::read(response)).await.unwrap();
    assert_eq!((answer.grpc_status(), answer.messages::<StreamResponse>().len()), (14, 1));
    tokio::time::timeout(Duration::from_secs(5), running.server.stopped(Duration::from_secs(4))).await.unwrap();
}

#[tokio::test]
async fn another_media_type_is_no_grpc() {
    let running = start().await;
    for media_type in ["application/grpc-other", "application/grpc+json"] {
        let answer = running.grpc(&grpc_path("GetTask"), &[("content-type", media_type)], &get("x")).await;
        assert_eq!(answer.status, 415, "{media_type}");
    }
    let answer = running.grpc(&grpc_path("GetTask"), &[("content-type", "application/grpc+proto")], &get("x")).await;
    assert_eq!(answer.grpc_status(), 0);
}

#[tokio::test]
async fn health_and_reflection_stand_beside_the_service() {
    use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

    let (ready, watched) = tokio::sync::watch::channel(true);
    let running = start_with(|builder| builder.ready(watched)).await;
    let health = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = running.grpc("/grpc.health.v1.Health/Check", &[], &request).await;
        answer.messages::<HealthCheckResponse>().first().map(|found| found.status)
    };
    for service in ["", "lf.a2a.v1.A2AService"] {
        let serving = async {
            while health(service).await != Some(1) {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(Duration::from_secs(5), serving).await.expect("becomes SERVING");
    }
    ready.send(false).unwrap();
    let stopped = async {
        while health("lf.a2a.v1.A2AService").await != Some(2) {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(Duration::from_secs(5), stopped).await.expect("becomes NOT_SERVING");
    assert_eq!(running.http("GET", "/readyz", &[], "").await.status, 503);
    assert_eq!(running.http("GET", "/livez", &[], "").await.status, 200);

    // `list_services`, field 7 of a ServerReflectionRequest.
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let answer = running.grpc_bytes(&path, &[], framed(&[0x3a, 0])).await;
        let listed = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(listed.contains("lf.a2a.v1.A2AService") && listed.contains("grpc.health.v1.Health"), "{listed}");
    }
}
