//! The port itself: peers that are slow, loud, malformed or gone; TLS; the end.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tricord::card::Document;
use tricord::internals::server::{Anonymous, Builder, Server};
use tricord::schema::AgentCard;
use tricord_bindings::BindingSettings;
use tricord_bindings::server::{ConnectionLimits, acceptor};

use crate::support::{Answer, Dummy, Running, start, start_with};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(5);

fn limited(change: impl FnOnce(&mut ConnectionLimits)) -> impl FnOnce(Builder<Dummy>) -> Builder<Dummy> {
    let mut limits = ConnectionLimits::default();
    change(&mut limits);
    |builder| builder.connections(limits)
}

fn small_bodies(bytes: usize) -> impl FnOnce(Builder<Dummy>) -> Builder<Dummy> {
    let mut settings = BindingSettings::default();
    settings.body.bytes = bytes;
    |builder| builder.settings(settings)
}

/// Everything that comes until the server closes.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut all)).await.expect("the server closes");
    // A reset after the answer is an end too; what counts is what came before it.
    let _ = read;
    String::from_utf8_lossy(&all).into_owned()
}

/// What comes until this text is there.
async fn until(stream: &mut (impl AsyncRead + Unpin), text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        let mut piece = [0; 1024];
        let read = timeout(LONG, stream.read(&mut piece)).await.expect("in time").expect("no error");
        assert!(read > 0, "closed after {all:?}");
        all.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    all
}

async fn say(running: &Running, text: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = running.connect().await;
    stream.write_all(text.as_ref()).await.unwrap();
    stream
}

const LIVE: &str = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn a_peer_that_does_not_begin_is_cut_off() {
    let running = start_with(limited(|limits| limits.first_bytes = SHORT)).await;
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut stream = say(&running, beginning).await;
        rest(&mut stream).await;
    }
    // Those that begin in time have all the time they need.
    let mut stream =
        say(&running, "POST /tasks/x:cancel HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n")
            .await;
    tokio::time::sleep(SHORT * 2).await;
    stream.write_all(b"{}").await.unwrap();
    assert!(until(&mut stream, "\"id\"").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_peer_that_does_not_finish_its_headers_is_cut_off() {
    let running = start_with(limited(|limits| limits.headers = SHORT)).await;
    let mut stream = say(&running, "GET /livez HTTP/1.1\r\nhost: x\r\nx-more: ").await;
    rest(&mut stream).await;
    // Also when it keeps sending a little.
    let mut stream = say(&running, "GET /livez HTTP/1.1\r\n").await;
    let dripping = async {
        while stream.write_all(b"a: b\r\n").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    timeout(LONG, dripping).await.expect("the server closes");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let running = start_with(limited(|limits| limits.headers = SHORT)).await;
    let mut stream = say(&running, LIVE).await;
    until(&mut stream, "ok\n").await;
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn what_is_not_http_is_refused_and_others_are_served() {
    let running = start().await;
    let long = format!("GET /livez HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET /livez HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(200));
    for (sent, status) in [
        ("GARBAGE\r\n\r\n", "400"),
        ("GET  /livez HTTP/1.1\r\n\r\n", "400"),
        ("GET /livez HTTP/3.7\r\n\r\n", "400"),
        ("GET /livez HTTP/1.1\r\nhost: x\r\nno colon here\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "400"),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0", "400"),
        (&*long, "431"),
        (&*many, "431"),
    ] {
        let mut stream = say(&running, sent).await;
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{:?}: {answer:?}", &sent[..sent.len().min(60)]);
    }
    // A length beside chunks is not believed; the connection is not used any further.
    let smuggled = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut stream = say(&running, smuggled).await;
    stream.shutdown().await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.matches("HTTP/1.1").count() <= 1 || !answer.contains("ok\n"), "{answer}");
    assert_eq!(running.http("GET", "/livez", &[], "").await.status, 200);
}

#[tokio::test]
async fn plain_forms_of_http_are_understood() {
    let running = start().await;
    let mut stream = say(&running, [LIVE, LIVE, LIVE].concat()).await;
    let mut answers = String::new();
    while answers.matches("ok\n").count() < 3 {
        answers.push_str(&until(&mut stream, "ok\n").await);
    }
    for sent in [
        "GET /livez HTTP/1.0\r\n\r\n",
        "GET http://elsewhere.example/livez HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
    ] {
        let mut stream = say(&running, sent).await;
        let answer = until(&mut stream, "ok\n").await;
        assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200 "), "{sent:?}: {answer}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_refused_early_and_the_answer_can_be_read() {
    let running = start_with(small_bodies(10_000)).await;
    for path in ["/", "/message:send"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\ncontent-type: application/json\r\n");
        let mut stream = say(&running, format!("{head}transfer-encoding: chunked\r\n\r\n")).await;
        // Much more than the limit, and the client reads only afterwards.
        let chunk = format!("3e8\r\n{}\r\n", "x".repeat(1000));
        for _ in 0..1000 {
            stream.write_all(chunk.as_bytes()).await.expect("the server keeps reading");
        }
        let answer = until(&mut stream, "TOO_LARGE").await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");

        let mut stream = say(&running, format!("{head}content-length: 2000000\r\n\r\n")).await;
        let answer = until(&mut stream, "TOO_LARGE").await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");

        // Nobody is asked to send what is not wanted.
        let mut stream = say(&running, format!("{head}content-length: 2000000\r\nexpect: 100-continue\r\n\r\n")).await;
        assert!(until(&mut stream, "TOO_LARGE").await.starts_with("HTTP/1.1 413"));
        let mut stream = say(&running, format!("{head}content-length: 2\r\nexpect: 100-continue\r\n\r\n")).await;
        assert!(until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    }
    assert_eq!(running.dummy.take(), []);
}

#[tokio::test]
async fn bodies_together_have_a_limit_that_is_given_back() {
    let mut settings = BindingSettings::default();
    settings.body.budget = tricord_bindings::budget::Budget::new("requests", 20_000);
    let running = start_with(|builder| builder.settings(settings)).await;
    let cancel = |id: &str| format!("{{\"id\":\"{id}\",\"metadata\":{{\"x\":\"{}\"}}}}", "x".repeat(6000));
    // The first waits for ever with its message held. While one is decoded, its body and its message count.
    let mut first = say(
        &running,
        format!(
            "POST /tasks/never:cancel HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
            cancel("never").len(),
            cancel("never")
        ),
    )
    .await;
    while running.dummy.take().is_empty() {
        tokio::task::yield_now().await;
    }
    let answer = running.post("/tasks/x:cancel", cancel("x")).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, "1"));
    first.shutdown().await.unwrap();
    drop(first);
    let served = async { while running.post("/tasks/x:cancel", cancel("x")).await.status != 200 {} };
    timeout(LONG, served).await.expect("the budget is given back");
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_their_turn() {
    let running = start_with(limited(|limits| limits.connections = 1)).await;
    let mut first = say(&running, LIVE).await;
    until(&mut first, "ok\n").await;
    let mut second = say(&running, LIVE).await;
    let mut byte = [0];
    assert!(timeout(SHORT, second.read(&mut byte)).await.is_err(), "not answered yet");
    drop(first);
    until(&mut second, "ok\n").await;
}

#[tokio::test]
async fn the_end_is_quiet() {
    let running = start().await;
    let mut idle = say(&running, LIVE).await;
    until(&mut idle, "ok\n").await;
    let half = "POST /tasks/x:cancel HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{";
    let mut busy = say(&running, half).await;
    while running.server.connections() < 2 {
        tokio::task::yield_now().await;
    }
    // Its head has to be read before the end begins, or the request counts as not begun.
    let mut other = say(&running, LIVE).await;
    until(&mut other, "ok\n").await;

    running.server.begin_stop();
    assert_eq!(rest(&mut idle).await, "", "an idle connection is closed");
    busy.write_all(b"}").await.unwrap();
    let answer = rest(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"id\":\"x\""), "{answer}");
    timeout(LONG, running.server.stopped(LONG)).await.expect("nothing is left");
    assert!(TcpStream::connect(running.at).await.is_err(), "nothing more is accepted");
}

#[tokio::test]
async fn what_does_not_end_is_cut() {
    let running = start().await;
    let response = running.open("GET", "/tasks/waits:subscribe", &[], "").await;
    running.server.begin_stop();
    timeout(LONG, running.server.stopped(SHORT)).await.expect("cut after its patience");
    assert!(response.into_body().collect().await.is_err(), "broken off, not ended");
}

/// A port with TLS, and a client's configuration that trusts it.
async fn start_tls() -> (Running, rustls::ClientConfig) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = acceptor(signed.cert.pem().as_bytes(), signed.signing_key.serialize_pem().as_bytes()).unwrap();
    let dummy = Arc::new(Dummy::default());
    let limits = ConnectionLimits { first_bytes: SHORT * 5, ..ConnectionLimits::default() };
    let server = Server::builder(dummy.clone()).connections(limits).build(Anonymous).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, Some(tls)).await });

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(signed.cert)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Running { at, dummy, server }, client)
}

async fn connect_tls(
    running: &Running,
    client: &rustls::ClientConfig,
    protocol: &[u8],
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut client = client.clone();
    client.alpn_protocols = vec![protocol.to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    connector.connect(ServerName::try_from("localhost").unwrap(), running.connect().await).await.unwrap()
}

async fn get_over_http2(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, uri: &str) -> Answer {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(uri).header("a2a-version", "1.0").body(Empty::<bytes::Bytes>::new()).unwrap();
    Answer::read(sender.send_request(request).await.unwrap()).await
}

#[tokio::test]
async fn tls_speaks_what_was_agreed_on() {
    let (running, client) = start_tls().await;
    let h2 = connect_tls(&running, &client, b"h2").await;
    assert_eq!(h2.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(get_over_http2(h2, "https://localhost/tasks/x").await.json()["id"], "x");
    let mut h1 = connect_tls(&running, &client, b"http/1.1").await;
    h1.write_all(LIVE.as_bytes()).await.unwrap();
    assert!(until(&mut h1, "ok\n").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn tls_has_a_deadline_and_no_plain_way_around() {
    let (running, client) = start_tls().await;
    let mut silent = running.connect().await;
    rest(&mut silent).await;
    let mut plain = say(&running, LIVE).await;
    assert!(!rest(&mut plain).await.contains("200"));
    let mut shaken = connect_tls(&running, &client, b"http/1.1").await;
    rest(&mut shaken).await;
}

#[tokio::test]
async fn json_goes_over_http2_without_tls() {
    let running = start().await;
    let uri = format!("http://{}/tasks/x", running.at);
    let answer = get_over_http2(running.connect().await, &uri).await;
    assert_eq!((answer.status.as_u16(), &*answer.json()["id"].to_string()), (200, "\"x\""));
}

#[tokio::test]
async fn a_certificate_that_is_none_is_told_apart() {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
    let problem = |certificate: &str, key: &str| match acceptor(certificate.as_bytes(), key.as_bytes()) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(problem(&certificate, &key), "none");
    assert!(problem("", &key).starts_with("no certificate"), "{}", problem("", &key));
    assert!(problem(&key, &key).starts_with("no certificate"));
    assert!(problem(&certificate, &certificate).starts_with("no private key"));
    assert!(problem(&certificate, &other.signing_key.serialize_pem()).starts_with("certificate and key"));
}

#[tokio::test]
async fn cards_are_sent_once_and_then_known() {
    let card = Arc::new(Document::new(&AgentCard { name: "a".into(), ..AgentCard::default() }, std::time::UNIX_EPOCH));
    let running = start_with(|builder| {
        builder.cards(Arc::new(move |agent| matches!(agent, None | Some("t1")).then(|| card.clone())))
    })
    .await;
    for path in ["/.well-known/agent-card.json", "/t1/.well-known/agent-card.json"] {
        let answer = running.http("GET", path, &[("a2a-version", "")], "").await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"), "{path}");
        assert_eq!(answer.json()["name"], "a");
        assert!(answer.header("cache-control").contains("max-age="));
        assert_eq!(answer.header("last-modified"), "Thu, 01 Jan 1970 00:00:00 GMT");
        let etag = answer.header("etag").to_owned();
        let again = running.http("GET", path, &[("if-none-match", &etag)], "").await;
        assert_eq!((again.status.as_u16(), again.body.len(), again.header("etag")), (304, 0, &*etag));
        assert_eq!(running.http("HEAD", path, &[], "").await.status, 200);
        assert_eq!(running.http("POST", path, &[], "{}").await.status, 405);
    }
    let answer = running.http("GET", "/t9/.well-known/agent-card.json", &[], "").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (404, &serde_json::json!(404)));
}

#[tokio::test]
async fn pages_of_allowed_origins_may_call() {
    let running = start_with(|builder| builder.cors(&["https://app.example".to_owned()], false)).await;
    let origin = ("origin", "https://app.example");
    let asked = [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "a2a-version")];
    let answer = running.http("OPTIONS", "/message:send", &asked, "").await;
    assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-headers")), (204, "a2a-version"));
    let answer = running.http("GET", "/tasks/missing", &[origin], "").await;
    assert_eq!(answer.header("access-control-allow-origin"), "https://app.example");
    assert!(answer.header("access-control-expose-headers").contains("a2a-extensions"));
    let answer = running.http("GET", "/tasks/x", &[("origin", "https://other.example")], "").await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
}
