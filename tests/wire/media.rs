//! HTTP around the JSON: media types, HEAD, slashes, and headers that clients send by default.

use serde_json::json;
use tricord::client::Binding;

use crate::raw::{Reply, http, say};
use crate::support::Server;

const OURS: &str = "application/a2a+json";
const PLAIN: &str = "application/json";

async fn send(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut headers = headers.to_vec();
    headers.push(("a2a-version", "1.0"));
    http(&server.url, "POST", path, &headers, body.to_owned()).await
}

#[tokio::test]
async fn s10_an_answer_has_the_json_media_type_that_the_client_asks_for() {
    let server = Server::shared();
    let good = say("echo hi").to_string();
    for (accept, content_type, answer) in [
        (&[][..], None, OURS),
        (&[][..], Some(PLAIN), PLAIN),
        (&[][..], Some(OURS), OURS),
        (&[][..], Some("Application/A2A+JSON; charset=utf-8"), OURS),
        (&[][..], Some("application/json;charset=UTF-8"), PLAIN),
        (&["*/*"][..], None, OURS),
        (&["*/*"][..], Some(PLAIN), PLAIN),
        (&["application/json"][..], None, PLAIN),
        (&["application/json"][..], Some(OURS), OURS),
        (&["application/a2a+json"][..], Some(PLAIN), OURS),
        (&["application/json, application/a2a+json;q=0.1"][..], None, OURS),
        (&["text/html, application/json;q=0.9, */*;q=0.1"][..], None, PLAIN),
        (&["text/event-stream"][..], None, PLAIN),
        (&["text/event-stream", "application/a2a+json"][..], None, OURS),
        (&["text/event-stream, */*"][..], None, OURS),
        (&["text/html"][..], None, OURS),
    ] {
        let headers: Vec<_> = accept.iter().map(|value| ("accept", *value)).collect();
        let posting: Vec<_> =
            headers.iter().copied().chain(content_type.map(|value| ("content-type", value))).collect();
        for body in [good.as_str(), "{}", "{"] {
            let reply = send(server, "/message:send", &posting, body).await;
            assert_eq!(reply.header("content-type"), answer, "{posting:?} {body}: {}", reply.status);
        }
        if content_type.is_none() {
            let mut reading = headers.clone();
            reading.push(("a2a-version", "1.0"));
            for path in ["/tasks?pageSize=1", "/tasks/none", "/nope"] {
                let reply = http(&server.url, "GET", path, &reading, "").await;
                assert_eq!(reply.header("content-type"), answer, "{headers:?} {path}: {}", reply.status);
            }
        }
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 1}}).to_string();
        let reply = send(server, "/", &posting, &call).await;
        assert_eq!(reply.header("content-type"), PLAIN, "{posting:?}");
        // A body of no type is refused.
        assert_eq!(reply.json()["result"].is_object(), content_type.is_some(), "{posting:?}");
    }
}

#[tokio::test]
async fn s10_a_request_with_another_media_type_is_refused_before_its_body_is_read() {
    let server = Server::shared();
    for content_type in
        ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/jsonx", "json", ""]
    {
        for body in [say("echo hi").to_string(), "{".to_owned(), "<xml/>".to_owned()] {
            for path in ["/message:send", "/message:stream", "/kit/message:send", "/tasks/x:cancel"] {
                let reply = send(server, path, &[("content-type", content_type)], &body).await;
                let error = &reply.json()["error"];
                assert_eq!(reply.status, 400, "{content_type} {path}");
                assert_eq!(error["details"][0]["reason"], "CONTENT_TYPE_NOT_SUPPORTED", "{content_type} {path} {body}");
            }
            let reply = send(server, "/", &[("content-type", content_type)], &body).await;
            assert_eq!((reply.status, &reply.json()["error"]["code"]), (200, &json!(-32005)), "{content_type} {body}");
        }
    }
}

#[tokio::test]
async fn s21_head_answers_like_get_without_the_body() {
    let server = Server::shared();
    let task = server.make(Binding::HttpJson, "echo hi").await;
    let task = format!("/tasks/{}", task["id"].as_str().unwrap());
    let version = [("a2a-version", "1.0")];
    for path in [
        "/.well-known/agent-card.json",
        "/kit/.well-known/agent-card.json",
        "/openapi.json",
        "/livez",
        "/readyz",
        task.as_str(),
        "/tasks/none",
        "/extendedAgentCard",
        "/nope",
        "/nobody/.well-known/agent-card.json",
    ] {
        let get = http(&server.url, "GET", path, &version, "").await;
        let head = http(&server.url, "HEAD", path, &version, "").await;
        assert_eq!((head.status, head.text()), (get.status, ""), "{path}");
        for name in ["content-type", "content-length", "etag", "cache-control", "last-modified"] {
            assert_eq!(head.header(name), get.header(name), "{path} {name}");
        }
    }
}

#[tokio::test]
async fn s21_an_upgrade_header_is_ignored() {
    let server = Server::shared();
    let offer = [("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAMAAABkAAQAAP__")];
    for (verb, path) in [("GET", "/.well-known/agent-card.json"), ("POST", "/message:send"), ("POST", "/")] {
        let mut headers = offer.to_vec();
        headers.extend([("a2a-version", "1.0"), ("content-type", PLAIN)]);
        let body = match path {
            "/" => json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 1}}).to_string(),
            "/message:send" => say("echo hi").to_string(),
            _ => String::new(),
        };
        let reply = http(&server.url, verb, path, &headers, body).await;
        assert_eq!(reply.status, 200, "{verb} {path}: {reply:?}");
    }
}

#[tokio::test]
async fn paths_may_end_in_a_slash_and_contain_encoded_characters() {
    let server = Server::shared();
    let task = server.make(Binding::HttpJson, "echo hi").await;
    let id = task["id"].as_str().unwrap();
    let version = [("a2a-version", "1.0")];
    let encoded: String = id.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for path in [
        format!("/tasks/{id}"),
        format!("/tasks/{id}/"),
        format!("/kit/tasks/{id}/"),
        format!("/tasks/{encoded}"),
        format!("/%6bit/tasks/{encoded}/"),
        format!("/tasks/{id}?historyLength=0&"),
    ] {
        let reply = http(&server.url, "GET", &path, &version, "").await;
        assert_eq!((reply.status, &reply.json()["id"]), (200, &json!(id)), "{path}");
    }
    for path in ["/tasks/", "/kit/tasks/", "/kit/tasks/?pageSize=1"] {
        assert_eq!(http(&server.url, "GET", path, &version, "").await.status, 200, "{path}");
    }
    for path in ["/message:send/", "/kit/message:send/"] {
        let reply = send(server, path, &[("content-type", PLAIN)], &say("echo hi").to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
    // A colon that does not precede an action is part of the id, and so is an encoded one.
    for path in ["/tasks/a:b", &format!("/tasks/{id}%3Asubscribe"), "/tasks/%2F", "/tasks/..", "/tasks/%2e%2e"] {
        let reply = http(&server.url, "GET", path, &version, "").await;
        assert_eq!(reply.json()["error"]["details"][0]["reason"], "TASK_NOT_FOUND", "{path}: {reply:?}");
    }
    for path in ["//tasks", "/tasks//", "/kit//tasks"] {
        let reply = http(&server.url, "GET", path, &version, "").await;
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
}
