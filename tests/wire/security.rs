//! What web pages can make a browser send to a server that is not theirs, and hosts that are not the server's.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{Reply, grpc_refusal, http, on_every_wire, say};
use crate::support::Server;

const VERSION: (&str, &str) = ("a2a-version", "1.0");
const JSON: (&str, &str) = ("content-type", "application/json");
const PAGE: &str = "https://page.example";
const APP: &str = "https://app.example";

fn reason(reply: &Reply) -> String {
    let body = reply.json();
    let details = if body.get("jsonrpc").is_some() { &body["error"]["data"] } else { &body["error"]["details"] };
    details[0]["reason"].as_str().unwrap_or_default().to_owned()
}

fn rpc(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

async fn total(server: &Server) -> Value {
    server.ask(Binding::HttpJson, "ListTasks", json!({})).send().await.ok()["totalSize"].take()
}

#[tokio::test]
async fn a_body_needs_its_media_type() {
    let server = Server::two_agents();
    let message = say("echo hi").to_string();
    let call = rpc("SendMessage", &say("echo hi"));
    for (path, body) in [("/message:send", &message), ("/message:stream", &message), ("/", &call), ("/kit", &call)] {
        for found in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("multipart/form-data")]
        {
            let headers: Vec<_> = found.map(|found| ("content-type", found)).into_iter().chain([VERSION]).collect();
            let reply = http(&server.url, "POST", path, &headers, body.clone()).await;
            assert_eq!(reason(&reply), "CONTENT_TYPE_NOT_SUPPORTED", "{path} {found:?}: {reply:?}");
            let named = found.unwrap_or("no Content-Type");
            assert!(reply.text().contains(named), "{path} {found:?}: {reply:?}");
        }
    }
    assert_eq!(total(&server).await, 0);
    // Without a body there is no type to name.
    let cancel = http(&server.url, "POST", "/tasks/none:cancel", &[VERSION], "").await;
    assert_eq!(reason(&cancel), "TASK_NOT_FOUND", "{cancel:?}");
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_before_anything_happens_over_every_binding() {
    let server = Server::start(&format!(
        "[server]\ncors_origins = [\"{APP}\"]\npublic_url = \"https://agents.example.com\"\n\
         [[agents]]\nname = \"kit\"\nkind = \"conformance\"\n"
    ));
    let server = &server;
    for foreign in [
        &[("origin", PAGE)][..],
        &[("origin", "null")],
        &[("origin", PAGE), ("sec-fetch-site", "cross-site")],
        &[("origin", "http://localhost:1"), ("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
    ] {
        let add = |mut ask: crate::raw::Ask| {
            for (name, value) in foreign {
                ask = ask.header(name, value);
            }
            ask
        };
        on_every_wire(|wire| async move {
            for method in ["SendMessage", "SendStreamingMessage"] {
                add(server.ask(wire, method, say("echo hi"))).send().await.refused("PERMISSION_DENIED");
            }
            add(server.ask(wire, "ListTasks", json!({}))).send().await.refused("PERMISSION_DENIED");
        })
        .await;
        let headers = [foreign, &[VERSION]].concat();
        let cancel = http(&server.url, "POST", "/tasks/none:cancel", &headers, "").await;
        assert_eq!((cancel.status, &*reason(&cancel)), (403, "PERMISSION_DENIED"), "{foreign:?}");
        let headers = [foreign, &[VERSION, JSON]].concat();
        let call = http(&server.url, "POST", "/", &headers, rpc("SendMessage", &say("echo hi"))).await;
        assert_eq!((call.status, &*reason(&call)), (403, "PERMISSION_DENIED"), "{foreign:?}");
        let headers = [foreign, &[("content-type", "application/grpc-web+proto"), VERSION]].concat();
        let web = http(&server.url, "POST", "/lf.a2a.v1.A2AService/ListTasks", &headers, "\0\0\0\0\0").await;
        assert_eq!(web.header("grpc-status"), "7", "{foreign:?}: {web:?}");
        let health = grpc_refusal(&server.url, "/grpc.health.v1.Health/Check", foreign, b"").await;
        assert_eq!(health.reason, "PERMISSION_DENIED", "{foreign:?}");
        let resume = http(&server.admin, "POST", "/tasks/none:resume", foreign, "").await;
        assert_eq!(resume.status, 403, "{foreign:?}: {resume:?}");
    }
    assert_eq!(total(server).await, 0);
}

#[tokio::test]
async fn pages_of_the_server_itself_and_of_listed_origins_may_call() {
    let server = Server::start(&format!(
        "[server]\ncors_origins = [\"{APP}\"]\npublic_url = \"https://agents.example.com\"\n\
         [[agents]]\nname = \"kit\"\nkind = \"conformance\"\n"
    ));
    let server = &server;
    for own in [
        &[("origin", APP), ("sec-fetch-site", "cross-site")][..],
        &[("origin", "https://agents.example.com")],
        &[("origin", &*server.url), ("sec-fetch-site", "same-origin")],
        &[("origin", &*server.url)],
        &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
    ] {
        on_every_wire(|wire| async move {
            let mut ask = server.ask(wire, "SendMessage", say("echo hi"));
            for (name, value) in own {
                ask = ask.header(name, value);
            }
            assert_eq!(ask.send().await.ok()["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire} {own:?}");
        })
        .await;
    }
}

/// Sends a request that names this host.
async fn of_host(url: &str, verb: &str, path: &str, host: &str, body: &str) -> Reply {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let mut stream = crate::raw::connect(url).await;
    let length = body.len();
    let request = format!(
        "{verb} {path} HTTP/1.1\r\nhost: {host}\r\na2a-version: 1.0\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    let text = String::from_utf8_lossy(&received);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Reply { status, headers: ::http::HeaderMap::new(), trailers: ::http::HeaderMap::new(), body: body.into() }
}

#[tokio::test]
async fn a_server_on_a_loopback_address_answers_only_to_its_own_names() {
    let server = Server::start(
        "[server]\nhosts = [\"agents.internal\"]\npublic_url = \"https://agents.example.com\"\n\
         [[agents]]\nname = \"kit\"\nkind = \"conformance\"\n",
    );
    let port = server.url.rsplit(':').next().unwrap();
    for host in ["page.example", &format!("page.example:{port}"), "localhost.page.example", "192.0.2.1"] {
        let sent = of_host(&server.url, "POST", "/message:send", host, &say("echo hi").to_string()).await;
        assert_eq!((sent.status, &*reason(&sent)), (421, "MISDIRECTED_REQUEST"), "{host}: {sent:?}");
        let call = of_host(&server.url, "POST", "/", host, &rpc("SendMessage", &say("echo hi"))).await;
        assert_eq!((call.status, &*reason(&call)), (421, "MISDIRECTED_REQUEST"), "{host}: {call:?}");
        for path in ["/livez", "/.well-known/agent-card.json", "/tasks"] {
            assert_eq!(of_host(&server.url, "GET", path, host, "").await.status, 421, "{host} {path}");
        }
        assert_eq!(of_host(&server.admin, "GET", "/metrics", host, "").await.status, 421, "{host}");
    }
    assert_eq!(total(&server).await, 0);
    for host in
        ["localhost", &format!("kit.localhost:{port}"), "127.0.0.1", "[::1]", "agents.internal", "AGENTS.example.com"]
    {
        assert_eq!(of_host(&server.url, "GET", "/livez", host, "").await.status, 200, "{host}");
    }
}
