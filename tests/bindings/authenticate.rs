//! Who calls is found out first, from the head of a request and its connection, for everything that is called on the port.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tricord_bindings::error::kinds;
use tricord_bindings::{Authenticator, Error, Identity, RequestHead};

use crate::support::{framed, grpc_path, message_proto, start_as};

/// Accepts callers with the header `x-key: good`, and notes where they come from and how many certificates they show.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    seen: Arc<Mutex<Vec<(IpAddr, usize)>>>,
}

impl Authenticator for Keys {
    async fn authenticate(&self, request: RequestHead<'_>) -> Result<Identity, Error> {
        tokio::task::yield_now().await;
        let peer = (request.peer.address().ip(), request.peer.certificates().len());
        self.seen.lock().unwrap().push(peer);
        match request.head.headers.get("x-key") {
            Some(key) if key == "good" => {
                Ok(Identity { subject: "ann".into(), owner: "acme".into(), ..Identity::anonymous() })
            }
            _ => Err(Error::new(&kinds::UNAUTHENTICATED, "x-key is missing or wrong").with_challenge("Key")),
        }
    }
}

pub(crate) const KEY: (&str, &str) = ("x-key", "good");

#[tokio::test]
async fn every_binding_refuses_a_stranger_before_it_reads_the_body() {
    let running = start_as(Keys::default()).await;
    for path in ["/", "/message:send", "/tasks/x:cancel"] {
        let mut stream = running.connect().await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\na2a-version: 1.0\r\ncontent-length: 100\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 2000];
        let length = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("www-authenticate: Key"), "{path}: {answer}");
    }
    let refused = running.grpc(&grpc_path("SendMessage"), &[], &message_proto("x")).await;
    assert_eq!((refused.grpc_status(), refused.header("www-authenticate")), (16, "Key"));
    assert_eq!(running.dummy.take(), []);
}

#[tokio::test]
async fn the_identity_reaches_the_handlers_of_every_binding() {
    let running = start_as(Keys::default()).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}).to_string();
    running.http("POST", "/", &[KEY, ("content-type", "application/json")], body).await;
    running.http("GET", "/tasks/x", &[KEY], "").await;
    let request = tricord::schema::GetTaskRequest { id: "x".into(), ..Default::default() };
    running.grpc(&grpc_path("GetTask"), &[KEY], &request).await;
    let owners: Vec<_> = running.dummy.take().into_iter().map(|seen| seen.owner).collect();
    assert_eq!(owners, ["acme"; 3]);
}

#[tokio::test]
async fn health_and_reflection_ask_who_calls_too() {
    let running = start_as(Keys::default()).await;
    for (path, body) in [
        ("/grpc.health.v1.Health/Check", Bytes::from_static(&[0; 5])),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", framed(&[0x3a, 0])),
        ("/other.Service/Method", Bytes::from_static(&[0; 5])),
    ] {
        assert_eq!(running.grpc_bytes(path, &[], body.clone()).await.grpc_status(), 16, "{path}");
        assert_ne!(running.grpc_bytes(path, &[KEY], body).await.grpc_status(), 16, "{path}");
    }
}

#[tokio::test]
async fn an_authenticator_sees_the_address_and_the_certificates_of_its_peer() {
    let keys = Keys::default();
    let running = start_as(keys.clone()).await;
    running.http("GET", "/tasks/x", &[KEY], "").await;

    let certified = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (ours, theirs) = (certified(), certified());
    let key = |of: &rcgen::KeyPair| PrivateKeyDer::from_pem_slice(of.serialize_pem().as_bytes()).unwrap();
    let roots = |of: &rcgen::Certificate| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(of.clone())).unwrap();
        Arc::new(roots)
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(&theirs.cert), provider.clone()).build().unwrap();
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![ours.cert.clone().into()], key(&ours.signing_key))
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(&ours.cert))
        .with_client_auth_cert(vec![theirs.cert.clone().into()], key(&theirs.signing_key))
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let serving = running.server.clone();
    tokio::spawn(async move { serving.serve(listener, Some(Arc::new(server).into())).await });
    let stream = tokio::net::TcpStream::connect(at).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    stream.write_all(b"GET /tasks/x HTTP/1.1\r\nhost: h\r\nx-key: good\r\na2a-version: 1.0\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");

    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert_eq!(*keys.seen.lock().unwrap(), [(local, 0), (local, 1)]);
}
