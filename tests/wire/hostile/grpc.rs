//! gRPC frames with wrong lengths, flags and packings, and calls with wrong headers.

use std::io::Write as _;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tricord::schema::SubscribeToTaskRequest;

use super::{PATIENCE, Target};
use crate::raw::{Reply, connect, http, read_all};
use crate::support::request;

fn frame(flag: u8, length: usize, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![flag];
    frame.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

fn good() -> Vec<u8> {
    let message = request("echo hi").encode_to_vec();
    frame(0, message.len(), &message)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

type Case = (&'static str, Vec<(&'static str, &'static str)>, Vec<u8>, &'static [i32]);

/// Name, headers, body, and the accepted statuses, all of which blame the client.
fn cases() -> Vec<Case> {
    let message = request("echo hi").encode_to_vec();
    let (length, packed) = (message.len(), gzip(&message));
    let bomb = gzip(&vec![0; 200 << 20]);
    let gz = || vec![("grpc-encoding", "gzip")];
    let with = |name, value| vec![(name, value)];
    vec![
        ("a valid call", vec![], good(), &[0]),
        ("nothing", vec![], vec![], &[3]),
        ("half a frame header", vec![], vec![0, 0, 0], &[3]),
        ("a message that is missing", vec![], frame(0, 10, b""), &[3]),
        ("a message that is cut off", vec![], frame(0, length, &message[..length - 3]), &[3]),
        ("a length that is too small", vec![], frame(0, length - 3, &message), &[3]),
        ("the largest length", vec![], frame(0, u32::MAX as usize, &message), &[8]),
        ("an empty message", vec![], frame(0, 0, b""), &[3]),
        ("text instead of a message", vec![], frame(0, 5, b"hello"), &[3]),
        ("a message twice", vec![], good().repeat(2), &[0, 3]),
        ("compressed without an encoding", vec![], frame(1, packed.len(), &packed), &[3, 12]),
        ("compressed with an unknown encoding", with("grpc-encoding", "zip"), frame(1, packed.len(), &packed), &[12]),
        ("packed well", gz(), frame(1, packed.len(), &packed), &[0]),
        ("compressed and cut off", gz(), frame(1, packed.len() - 4, &packed[..packed.len() - 4]), &[3]),
        ("uncompressed with the compressed flag", gz(), frame(1, length, &message), &[3]),
        ("compressed without the compressed flag", gz(), frame(0, packed.len(), &packed), &[3]),
        ("a flag of two", vec![], frame(2, length, &message), &[3]),
        ("a flag of all bits", gz(), frame(255, length, &message), &[3]),
        ("a small frame that decompresses to a large message", gz(), frame(1, bomb.len(), &bomb), &[8]),
        ("a message over the limit", vec![], frame(0, 17 << 20, &vec![0; 17 << 20]), &[8]),
        ("a timeout that is not a number", with("grpc-timeout", "soon"), good(), &[0, 3]),
        ("a negative timeout", with("grpc-timeout", "-1S"), good(), &[0, 3]),
        ("a timeout with too many digits", with("grpc-timeout", "999999999999H"), good(), &[0, 3]),
        ("a timeout without a unit", with("grpc-timeout", "5"), good(), &[0, 3]),
        ("a timeout of zero", with("grpc-timeout", "0n"), good(), &[0, 4]),
        ("a timeout that is not ASCII", with("grpc-timeout", "1\u{e9}"), good(), &[0, 3]),
        ("metadata that is not base64", with("x-bin", "!!!"), good(), &[0, 3]),
        ("many accepted encodings", with("grpc-accept-encoding", "zip,zap,,,;q=1"), good(), &[0]),
    ]
}

async fn call(target: &Target, verb: &str, rpc: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
    let io = TokioIo::new(connect(&target.0.url).await);
    let mut client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = client.initial_connection_window_size(1 << 20).handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(verb).uri(format!("{}/lf.a2a.v1.A2AService/{rpc}", target.0.url));
    request = request.header("te", "trailers").header("a2a-version", "1.0");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/grpc");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap());
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    read_all(answer.expect("an answer in time").unwrap_or_else(|error| panic!("{rpc} {headers:?}: {error:?}"))).await
}

fn status(reply: &Reply) -> Option<i32> {
    let status = reply.trailers.get("grpc-status").or_else(|| reply.headers.get("grpc-status"))?;
    status.to_str().ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_grpc_gets_a_status_that_blames_the_client() {
    let target = Target::start();
    for (name, headers, body, expected) in cases() {
        for rpc in ["SendMessage", "SendStreamingMessage"] {
            let reply = call(&target, "POST", rpc, &headers, body.clone()).await;
            let found = status(&reply);
            assert!(found.is_some_and(|status| expected.contains(&status)), "{rpc}, {name}: {found:?}: {reply:?}");
        }
        target.is_well(name).await;
    }
    let subscribe = SubscribeToTaskRequest { id: "x".repeat(1_000_000), ..Default::default() }.encode_to_vec();
    let reply = call(&target, "POST", "SubscribeToTask", &[], frame(0, subscribe.len(), &subscribe)).await;
    assert_eq!(status(&reply), Some(5), "{reply:?}");
    for (verb, media_type) in [
        ("GET", "application/grpc"),
        ("PUT", "application/grpc"),
        ("POST", "application/grpc+json"),
        ("POST", "application/grpcwhat"),
        ("POST", "application/grpc;;;"),
        ("POST", "application/grpc-web"),
        ("POST", "application/grpc-web-text"),
    ] {
        let reply = call(&target, verb, "SendMessage", &[("content-type", media_type)], b"\0\xff\xff".to_vec()).await;
        let found = status(&reply);
        assert!(reply.status < 500 && !matches!(found, Some(2 | 13 | 15)), "{verb} {media_type}: {reply:?}");
        target.is_well(media_type).await;
    }
    target.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_grpc_web_gets_a_status_that_blames_the_client() {
    let target = Target::start();
    let text = base64_simd::STANDARD.encode_to_string(good());
    for (media_type, body) in [
        ("application/grpc-web-text", b"!!!!".to_vec()),
        ("application/grpc-web-text", text.as_bytes()[..text.len() - 3].to_vec()),
        ("application/grpc-web-text", [text.as_bytes(), b"===="].concat()),
        ("application/grpc-web-text", vec![b'A'; 1_000_000]),
        ("application/grpc-web", frame(0x80, 4, b"x: y")),
        ("application/grpc-web", frame(0, 100, b"x")),
        ("application/grpc-web", vec![]),
        ("application/grpc-web", good().repeat(3)),
    ] {
        let path = "/lf.a2a.v1.A2AService/SendMessage";
        let headers = [("content-type", media_type), ("a2a-version", "1.0"), ("x-grpc-web", "1")];
        let reply = http(&target.0.url, "POST", path, &headers, body.clone()).await;
        let shown = format!("{media_type} {:?}: {reply:?}", String::from_utf8_lossy(&body[..body.len().min(40)]));
        assert!(reply.status < 500, "{shown}");
        // The status is in the headers or at the end of the body.
        let body = if media_type.ends_with("text") {
            let bytes: Vec<u8> = reply.body.iter().copied().filter(|byte| *byte != b'=').collect();
            base64_simd::forgiving_decode_to_vec(&bytes).unwrap_or_default()
        } else {
            reply.body.to_vec()
        };
        let text = format!("{}\n{}", reply.header("grpc-status"), String::from_utf8_lossy(&body));
        for fault in ["grpc-status:2\r", "grpc-status:13", "grpc-status: 13", "grpc-status:15"] {
            assert!(!text.contains(fault), "{shown}: {text}");
        }
        assert!(!["2", "13", "15"].contains(&reply.header("grpc-status")), "{shown}");
        target.is_well(media_type).await;
    }
    target.serves().await;
}
