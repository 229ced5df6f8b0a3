//! Capabilities and required extensions: the server enforces what the card declares.

use serde_json::{Value, json};

use crate::raw::{fresh, http, on_every_wire, say, with};
use crate::streams::gists;
use crate::support::Server;

const AGENTS: &str = r#"
[[agents]]
name = "kit"
kind = "conformance"

[[agents]]
name = "still"
kind = "conformance"
streaming = false

[[agents]]
name = "strict"
kind = "conformance"
[[agents.card.extensions]]
uri = "https://example.com/needed"
required = true
[[agents.card.extensions]]
uri = "https://example.com/liked"
"#;

async fn capabilities(server: &Server, agent: &str) -> Value {
    let card = http(&server.url, "GET", &format!("/{agent}/.well-known/agent-card.json"), &[], "").await;
    card.json()["capabilities"].clone()
}

#[tokio::test]
async fn c42_an_operation_without_its_capability_is_refused() {
    let server = Server::start(AGENTS);
    assert_eq!(capabilities(&server, "still").await["streaming"], json!(false));
    assert_eq!(capabilities(&server, "still").await["pushNotifications"], json!(false));
    assert_eq!(capabilities(&server, "kit").await["streaming"], json!(true));
    let server = &server;
    on_every_wire(|wire| async move {
        let to = |params: Value| with(params, json!({"tenant": "still"}));
        let task = server.ask(wire, "SendMessage", to(say("ask"))).send().await.ok();
        let id = &task["task"]["id"];
        server.ask(wire, "SendStreamingMessage", to(say("echo hi"))).send().await.refused("UNSUPPORTED_OPERATION");
        for id in [id, &json!(fresh())] {
            let subscribe = server.ask(wire, "SubscribeToTask", to(json!({"id": id})));
            subscribe.send().await.refused("UNSUPPORTED_OPERATION");
        }
        let hook = json!({"taskId": id, "url": "https://example.com/hook"});
        for (method, params) in [
            ("CreateTaskPushNotificationConfig", hook.clone()),
            ("GetTaskPushNotificationConfig", json!({"taskId": id, "id": "x"})),
            ("ListTaskPushNotificationConfigs", json!({"taskId": id})),
            ("DeleteTaskPushNotificationConfig", json!({"taskId": id, "id": "x"})),
        ] {
            server.ask(wire, method, to(params)).send().await.refused("PUSH_NOTIFICATION_NOT_SUPPORTED");
        }
        let inline = json!({"configuration": {"taskPushNotificationConfig": {"url": "https://example.com/hook"}}});
        let send = server.ask(wire, "SendMessage", to(with(say("echo hi"), inline.clone())));
        send.send().await.refused("PUSH_NOTIFICATION_NOT_SUPPORTED");
        // The other operations work.
        assert_eq!(server.task_of(wire, "still", id).await["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    })
    .await;
}

#[tokio::test]
async fn c43_a_call_without_a_required_extension_is_refused() {
    let server = Server::start(AGENTS);
    let server = &server;
    let (needed, liked) = ("https://example.com/needed", "https://example.com/liked");
    let declared = capabilities(server, "strict").await["extensions"].clone();
    assert_eq!((&declared[0]["uri"], &declared[0]["required"]), (&json!(needed), &json!(true)));
    on_every_wire(|wire| async move {
        let ask = |method: &str| server.ask(wire, method, with(say("echo hi"), json!({"tenant": "strict"})));
        for method in ["SendMessage", "SendStreamingMessage"] {
            for wrong in ["", liked, "https://example.com/other", "https://example.com/Needed"] {
                let refusal = ask(method).header("A2A-Extensions", wrong).send().await;
                let refusal = refusal.refused("EXTENSION_SUPPORT_REQUIRED");
                assert!(refusal.message.contains(needed), "{refusal:?}");
            }
        }
        let unknown = "https://example.com/unknown";
        for (lines, used) in [
            (vec![needed.to_owned()], needed.to_owned()),
            (vec![format!("{unknown}, {needed}")], needed.to_owned()),
            (vec![format!("{liked},{needed}")], format!("{liked}, {needed}")),
            (vec![unknown.to_owned(), needed.to_owned()], needed.to_owned()),
            (vec![needed.to_owned(), format!(" {liked} , {needed},,")], format!("{needed}, {liked}")),
        ] {
            let named = |method: &str| lines.iter().fold(ask(method), |ask, line| ask.header("A2A-Extensions", line));
            let answer = named("SendMessage").send().await;
            assert_eq!(answer.headers()["a2a-extensions"], used.as_str(), "{wire} {lines:?}");
            answer.ok();
            let mut stream = named("SendStreamingMessage").stream().await;
            assert_eq!(stream.headers["a2a-extensions"], used.as_str(), "{wire} {lines:?}");
            assert_eq!(gists(&stream.rest().await)[0], "task submitted");
        }
        // Without extensions in use, the answer has no such header.
        let answer = server.ask(wire, "SendMessage", say("echo hi")).header("A2A-Extensions", needed).send().await;
        assert!(!answer.headers().contains_key("a2a-extensions"), "{wire}");
        answer.ok();
    })
    .await;
}

#[tokio::test]
async fn s22_c41_without_authentication_there_is_no_extended_card() {
    let server = Server::shared();
    assert_eq!(capabilities(server, "kit").await.get("extendedAgentCard"), None);
    on_every_wire(|wire| async move {
        server.ask(wire, "GetExtendedAgentCard", json!({})).send().await.refused("UNSUPPORTED_OPERATION");
        let unknown = server.ask(wire, "GetExtendedAgentCard", json!({"tenant": "nobody"}));
        unknown.send().await.refused_fields(&["tenant"]);
    })
    .await;
}
