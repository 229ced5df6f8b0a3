//! The protocol version of a request: where it is named, how it is read, and the error for an unsupported one.

use serde_json::{Value, json};

use crate::raw::{fresh, http, on_every_wire, say};
use crate::support::{Server, TWO_AGENTS};

/// Every method with valid parameters.
fn methods() -> Vec<(&'static str, Value)> {
    let (task, id) = (fresh(), fresh());
    vec![
        ("SendMessage", say("echo hi")),
        ("SendStreamingMessage", say("echo hi")),
        ("GetTask", json!({"id": task})),
        ("ListTasks", json!({})),
        ("CancelTask", json!({"id": task})),
        ("SubscribeToTask", json!({"id": task})),
        ("CreateTaskPushNotificationConfig", json!({"taskId": task, "url": "https://example.com"})),
        ("GetTaskPushNotificationConfig", json!({"taskId": task, "id": id})),
        ("ListTaskPushNotificationConfigs", json!({"taskId": task})),
        ("DeleteTaskPushNotificationConfig", json!({"taskId": task, "id": id})),
        ("GetExtendedAgentCard", json!({})),
    ]
}

#[tokio::test]
async fn c06_an_unsupported_version_is_refused_for_every_method() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for (method, params) in methods() {
            for version in ["99.0", "abc", "0.3", "1", "1.0.x", "2.0"] {
                let answer = server.ask(wire, method, params.clone()).version(Some(version)).send().await;
                let refusal = answer.refused("VERSION_NOT_SUPPORTED");
                let tells = refusal.message.contains("A2A-Version") && refusal.message.contains("1.0");
                assert!(tells, "{wire} {method}: {refusal:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn c06_a_patch_number_and_spaces_are_ignored() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for version in ["1.0.7", " 1.0 ", "1.0"] {
            server.ask(wire, "SendMessage", say("echo hi")).version(Some(version)).send().await.ok();
        }
    })
    .await;
}

#[tokio::test]
async fn c07_a_request_without_a_version_means_0_3_and_is_refused() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for version in [None, Some(""), Some("  ")] {
            for (method, params) in methods() {
                let refusal = server.ask(wire, method, params).version(version).send().await;
                let refusal = refusal.refused("VERSION_NOT_SUPPORTED");
                let tells = ["A2A-Version", "0.3", "1.0"].iter().all(|word| refusal.message.contains(word));
                assert!(tells, "{wire} {method}: {refusal:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn s01_the_query_may_name_the_version_and_the_header_wins() {
    let server = Server::shared();
    let reasons = async |verb: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let reply = http(&server.url, verb, path, headers, body.to_owned()).await.json();
        let details =
            if reply["error"]["data"].is_array() { &reply["error"]["data"] } else { &reply["error"]["details"] };
        details[0]["reason"].as_str().unwrap_or("OK").to_owned()
    };
    let task = server.make(tricord::client::Binding::JsonRpc, "ask").await;
    let open = task["id"].as_str().unwrap();
    let get = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 1}}).to_string();
    for (query, header, expected) in [
        ("A2A-Version=1.0", None, "OK"),
        ("a2a-version=1.0.3", None, "OK"),
        ("A2A-Version=99.0", None, "VERSION_NOT_SUPPORTED"),
        ("A2A-Version=99.0", Some("1.0"), "OK"),
        ("A2A-Version=1.0", Some("99.0"), "VERSION_NOT_SUPPORTED"),
        ("A2A-Version=1.0", Some(""), "OK"),
        ("A2A-Version=", None, "VERSION_NOT_SUPPORTED"),
    ] {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(header.map(|version| ("a2a-version", version)));
        // A browser's EventSource cannot set headers.
        let path = format!("/tasks/{open}:subscribe?{query}");
        let owned: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let answer = crate::raw::open(&server.url, "GET", &path, &owned, "").await;
        let streams = answer.headers()["content-type"] == "text/event-stream";
        assert_eq!(streams, expected == "OK", "{path} {header:?}");
        for (verb, path, body) in [("GET", "/tasks", ""), ("POST", "/", get.as_str())] {
            let path = format!("{path}?{query}");
            assert_eq!(reasons(verb, &path, &headers, body).await, expected, "{verb} {path} {header:?}");
        }
    }
}

#[tokio::test]
async fn s01_an_absent_version_can_be_configured_to_mean_the_current_one() {
    let server = Server::start(&format!("{TWO_AGENTS}\n[protocol]\nassume_version = \"1.0\""));
    let server = &server;
    on_every_wire(|wire| async move {
        for version in [None, Some(""), Some("1.0")] {
            server.ask(wire, "SendMessage", say("echo hi")).version(version).send().await.ok();
        }
        let old = server.ask(wire, "SendMessage", say("echo hi")).version(Some("0.3"));
        old.send().await.refused("VERSION_NOT_SUPPORTED");
    })
    .await;
}

#[tokio::test]
async fn s01_a_card_needs_no_version_and_has_versions_without_a_patch_number() {
    let server = Server::shared();
    for path in ["/.well-known/agent-card.json", "/kit/.well-known/agent-card.json"] {
        let card = http(&server.url, "GET", path, &[], "").await;
        assert_eq!(card.status, 200, "{path}");
        for interface in card.json()["supportedInterfaces"].as_array().unwrap() {
            assert_eq!(interface["protocolVersion"], "1.0", "{interface}");
        }
    }
}
