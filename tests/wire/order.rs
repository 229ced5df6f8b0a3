//! The order of checks: a request with several faults gets one error, the same over every binding.

use serde_json::json;
use tricord::client::Binding;

use crate::raw::{Ask, ask, fresh, grpc_refusal, http, on_every_wire, say, with};
use crate::support::Server;

/// An agent with many requirements, one without, and a low limit for bodies.
const STRICT: &str = r#"
[limits]
body = "4KiB"

[[agents]]
name = "kit"
kind = "conformance"

[[agents]]
name = "strict"
kind = "conformance"
[[agents.card.extensions]]
uri = "https://example.com/needed"
required = true
"#;

const NEEDED: (&str, &str) = ("a2a-extensions", "https://example.com/needed");

#[tokio::test]
async fn order_of_checks_of_a_call_is_the_same_over_every_binding() {
    let server = Server::start(STRICT);
    let server = &server;
    on_every_wire(|wire| async move {
        let ask = |method: &str, params| server.ask(wire, method, params);
        let needed = |ask: Ask| ask.header(NEEDED.0, NEEDED.1);
        // Version before the tenant, and before parameters.
        let lost = json!({"id": fresh(), "tenant": "nobody", "historyLength": -1});
        ask("GetTask", lost.clone()).version(Some("99.0")).send().await.refused("VERSION_NOT_SUPPORTED");
        // The tenant before parameters, and before what an agent requires.
        ask("GetTask", lost).send().await.refused_fields(&["tenant"]);
        ask("SendMessage", json!({"tenant": "nobody"})).send().await.refused_fields(&["tenant"]);
        // What the agent requires before the capability, and before parameters.
        let push = json!({"taskId": fresh(), "url": "", "tenant": "strict"});
        let create = "CreateTaskPushNotificationConfig";
        ask(create, push.clone()).send().await.refused("EXTENSION_SUPPORT_REQUIRED");
        ask("GetExtendedAgentCard", json!({"tenant": "strict"})).send().await.refused("EXTENSION_SUPPORT_REQUIRED");
        ask("SendMessage", json!({"tenant": "strict"})).send().await.refused("EXTENSION_SUPPORT_REQUIRED");
        // Parameters before the media types of parts.
        let parts = json!([{"text": "x", "mediaType": "text/x-strange"}, {}]);
        let bad = with(say("x"), json!({"message": {"taskId": fresh(), "parts": parts}, "tenant": "strict"}));
        needed(ask("SendMessage", bad.clone())).send().await.refused_fields(&["message.parts[1]"]);
        // The media types of parts before the task.
        let bad = with(bad, json!({"message": {"parts": [{"text": "x", "mediaType": "text/x-strange"}]}}));
        needed(ask("SendMessage", bad.clone())).send().await.refused("CONTENT_TYPE_NOT_SUPPORTED");
        // Then the task, and last its state.
        let lost = with(bad, json!({"message": {"parts": [{"text": "x"}]}}));
        needed(ask("SendMessage", lost)).send().await.refused("TASK_NOT_FOUND");
        let ended = server.make(wire, "echo x").await;
        let elsewhere = with(say("x"), json!({"message": {"taskId": ended["id"], "contextId": fresh()}}));
        ask("SendMessage", elsewhere).send().await.refused_fields(&["message.contextId"]);
        let here = with(say("x"), json!({"message": {"taskId": ended["id"]}}));
        ask("SendMessage", here).send().await.refused("UNSUPPORTED_OPERATION");
    })
    .await;
}

#[tokio::test]
async fn order_of_checks_of_a_body_is_size_type_envelope_version() {
    let server = Server::start(STRICT);
    let url = &server.url;
    let large = " ".repeat(5000);
    // The size before the media type, and before the version.
    for path in ["/", "/message:send"] {
        let reply = http(url, "POST", path, &[("content-type", "text/plain")], large.clone()).await;
        assert_eq!(reply.status, 413, "{path}: {reply:?}");
    }
    // The media type before the envelope, and before the version.
    let text = [("content-type", "text/plain"), ("a2a-version", "99.0")];
    let reply = http(url, "POST", "/", &text, "{").await;
    assert_eq!(reply.json()["error"]["code"], -32005);
    let reply = http(url, "POST", "/message:send", &text, "{").await;
    assert_eq!(reply.json()["error"]["details"][0]["reason"], "CONTENT_TYPE_NOT_SUPPORTED");
    // The envelope before the version. What no version has is not found, whatever the version.
    let old = [("content-type", "application/json"), ("a2a-version", "99.0")];
    assert_eq!(http(url, "POST", "/", &old, "{}").await.json()["error"]["code"], -32600);
    ask(url, Binding::JsonRpc, "Nope", json!({}))
        .version(Some("99.0"))
        .send_unknown()
        .await
        .refused("METHOD_NOT_FOUND");
    let reply = http(url, "GET", "/kit/nope", &[("a2a-version", "99.0")], "").await;
    assert_eq!(reply.json()["error"]["details"][0]["reason"], "METHOD_NOT_FOUND");
    let path = "/lf.a2a.v1.A2AService/Nope";
    assert_eq!(grpc_refusal(url, path, &[("a2a-version", "99.0")], b"").await.reason, "METHOD_NOT_FOUND");
    // The version and the method before a body that cannot be read.
    let reply = http(url, "POST", "/message:send", &old, "{").await;
    assert_eq!(reply.json()["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
    let path = "/lf.a2a.v1.A2AService/SendMessage";
    assert_eq!(grpc_refusal(url, path, &[("a2a-version", "99.0")], &[0xff]).await.reason, "VERSION_NOT_SUPPORTED");
    let unknown = ask(url, Binding::JsonRpc, "Nope", json!({})).params_text("\"text\"");
    unknown.send_unknown().await.refused("METHOD_NOT_FOUND");
    // The tenant is found even in parameters that cannot be decoded.
    for wire in [Binding::JsonRpc, Binding::HttpJson] {
        let unread = r#"{"message": 5, "tenant": "nobody"}"#;
        let refusal = ask(url, wire, "SendMessage", json!({})).params_text(unread).send().await;
        refusal.refused_fields(&["tenant"]);
    }
    let unread = [0x0a, 0x02, b'n', b'o', 0x12, 0xff, 0x01];
    let refusal = grpc_refusal(url, path, &[("a2a-version", "1.0")], &unread).await;
    assert_eq!(refusal.fields, ["tenant"]);
}

#[tokio::test]
async fn order_of_checks_puts_the_size_first_over_every_binding() {
    let server = Server::start(STRICT);
    let server = &server;
    on_every_wire(|wire| async move {
        for method in ["SendMessage", "SendStreamingMessage"] {
            let refusal = server.ask(wire, method, say(&"x".repeat(5000))).send().await.refused("TOO_LARGE");
            assert!(refusal.message.contains("4096"), "{refusal:?}");
        }
        assert_eq!(server.make(wire, "echo small").await["status"]["state"], "TASK_STATE_COMPLETED");
    })
    .await;
}
