//! Validation of messages: required fields, parts with one content, accepted media types, ids.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{fresh, on_every_wire, say, with};
use crate::support::Server;

const MESSAGE: &str = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"echo hi"}]}"#;

/// Changes to a valid message, each with the fields that are invalid then.
fn faults() -> Vec<(Value, &'static [&'static str])> {
    let message = |patch: Value| with(serde_json::from_str(MESSAGE).unwrap(), patch);
    vec![
        (message(json!({"messageId": null})), &["message.messageId"]),
        (message(json!({"messageId": ""})), &["message.messageId"]),
        (message(json!({"role": null})), &["message.role"]),
        (message(json!({"role": "ROLE_UNSPECIFIED"})), &["message.role"]),
        (message(json!({"parts": null})), &["message.parts"]),
        (message(json!({"parts": []})), &["message.parts"]),
        (message(json!({"parts": [{}]})), &["message.parts[0]"]),
        (message(json!({"parts": [{"text": "x"}, {"mediaType": "application/json"}]})), &["message.parts[1]"]),
        (message(json!({"parts": [{"filename": "x"}, {"metadata": {}}]})), &["message.parts[0]", "message.parts[1]"]),
        (
            message(json!({"messageId": "", "role": null, "parts": []})),
            &["message.messageId", "message.role", "message.parts"],
        ),
    ]
}

#[tokio::test]
async fn c11_missing_fields_are_named_over_every_binding() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for (message, fields) in faults() {
            for method in ["SendMessage", "SendStreamingMessage"] {
                let params = json!({"message": message});
                server.ask(wire, method, params).send().await.refused_fields(fields);
            }
        }
        server.ask(wire, "SendMessage", json!({})).send().await.refused_fields(&["message"]);
        for method in ["GetTask", "CancelTask"] {
            if wire != Binding::HttpJson {
                server.ask(wire, method, json!({})).send().await.refused_fields(&["id"]);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn c11_faults_that_only_json_can_have_are_named() {
    let server = Server::shared();
    for wire in [Binding::JsonRpc, Binding::HttpJson] {
        for (text, field) in [
            (
                r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","data":5}]}}"#,
                "message.parts[0].data",
            ),
            (r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":5}]}}"#, "message.parts[0].text"),
            (r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"%%"}]}}"#, "message.parts[0].raw"),
            (r#"{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]}}"#, "message.role"),
            (r#"{"message":{"messageId":"m","role":99,"parts":[{"text":"x"}]}}"#, "message.role"),
            (r#"{"message":{"messageId":5,"role":"ROLE_USER","parts":[{"text":"x"}]}}"#, "message.messageId"),
            (r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":{"text":"x"}}}"#, "message.parts"),
            (r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":["x"]}}"#, "message.parts[0]"),
            (
                r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":5}}"#,
                "message.metadata",
            ),
            (
                r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"historyLength":"x"}}"#,
                "configuration.historyLength",
            ),
        ] {
            let ask = server.ask(wire, "SendMessage", json!({})).params_text(text);
            let refusal = ask.send().await.refused_fields(&[field]);
            assert!(!refusal.message.is_empty(), "{text}");
        }
        // The error for an unknown enum name lists the known ones.
        let text = MESSAGE.replace("ROLE_USER", "user");
        let ask = server.ask(wire, "SendMessage", json!({})).params_text(format!("{{\"message\":{text}}}"));
        let refusal = ask.send().await.refused_fields(&["message.role"]);
        assert!(refusal.message.contains("ROLE_USER"), "{refusal:?}");
    }
}

/// An agent that accepts some media types, one of them only for a skill.
const PICKY: &str = r#"
[[agents]]
name = "kit"
kind = "conformance"
[agents.card]
input_modes = ["text/*", "application/JSON; charset=utf-8"]
[[agents.card.skills]]
id = "see"
name = "See"
description = "Looks at pictures"
tags = ["picture"]
input_modes = ["image/png"]
"#;

#[tokio::test]
async fn s11_parts_may_have_the_media_types_of_the_card_and_its_skills() {
    let server = Server::start(PICKY);
    let server = &server;
    on_every_wire(|wire| async move {
        for (part, refused) in [
            (json!({"text": "echo"}), None),
            (json!({"data": {"a": 1}}), None),
            (json!({"raw": "AAAA"}), None),
            (json!({"url": "https://example.com/x"}), None),
            (json!({"text": "a,b", "mediaType": "text/csv"}), None),
            (json!({"text": "a", "mediaType": "TEXT/Markdown; charset=utf-8"}), None),
            (json!({"raw": "AAAA", "mediaType": "image/PNG"}), None),
            (json!({"raw": "AAAA", "mediaType": "application/json;x=y"}), None),
            (json!({"raw": "AAAA", "mediaType": "image/jpeg"}), Some("image/jpeg")),
            (json!({"url": "https://example.com/x", "mediaType": "audio/wav"}), Some("audio/wav")),
            (json!({"data": 5, "mediaType": "application/xml"}), Some("application/xml")),
            (json!({"text": "x", "mediaType": "nonsense"}), Some("nonsense")),
        ] {
            let params = with(say("echo hi"), json!({"message": {"parts": [{"text": "echo hi"}, part]}}));
            for method in ["SendMessage", "SendStreamingMessage"] {
                let ask = server.ask(wire, method, params.clone());
                match refused {
                    None if method == "SendMessage" => drop(ask.send().await.ok()),
                    None => drop(ask.stream().await.rest().await),
                    Some(media_type) => {
                        let refusal = ask.send().await.refused("CONTENT_TYPE_NOT_SUPPORTED");
                        assert!(refusal.message.contains(media_type), "{refusal:?}");
                        assert!(refusal.message.contains("parts[1]"), "{refusal:?}");
                    }
                }
            }
        }
    })
    .await;
    let open = Server::start(&PICKY.replace("text/*", "*/*"));
    let params = with(say("echo hi"), json!({"message": {"parts": [{"raw": "AAAA", "mediaType": "audio/wav"}]}}));
    open.ask(Binding::HttpJson, "SendMessage", params).send().await.ok();
}

#[tokio::test]
async fn s12_a_client_may_choose_the_context_id() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        for context in ["mine".to_owned(), "ünï/cödé 🙂".to_owned(), "x".repeat(500), "a\0b\n\"".to_owned(), fresh()]
        {
            let context = format!("{context}{}", fresh());
            let params = with(say("echo hi"), json!({"message": {"contextId": context}}));
            let task = server.ask(wire, "SendMessage", params).send().await.ok();
            assert_eq!(task["task"]["contextId"], context.as_str());
            assert_eq!(server.task(wire, task["task"]["id"].as_str().unwrap()).await["contextId"], context.as_str());
            let list = server.ask(wire, "ListTasks", json!({"contextId": context})).send().await.ok();
            assert_eq!(list["totalSize"], 1, "{context}: {list}");
        }
    })
    .await;
}

#[tokio::test]
async fn s12_a_task_keeps_its_context() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let asked = server.make(wire, "ask").await;
        let to = |context: &str| with(say("answer"), json!({"message": {"taskId": asked["id"], "contextId": context}}));
        for method in ["SendMessage", "SendStreamingMessage"] {
            let other = server.ask(wire, method, to("another")).send().await;
            other.refused_fields(&["message.contextId"]);
        }
        let answered = server.ask(wire, "SendMessage", to(asked["contextId"].as_str().unwrap())).send().await.ok();
        assert_eq!(answered["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(answered["task"]["history"].as_array().unwrap().len(), 3);
        // A second message in the same context starts another task.
        let again = with(say("echo more"), json!({"message": {"contextId": asked["contextId"]}}));
        let again = server.ask(wire, "SendMessage", again).send().await.ok();
        assert_eq!(again["task"]["contextId"], asked["contextId"]);
        assert_ne!(again["task"]["id"], asked["id"]);
    })
    .await;
}

#[tokio::test]
async fn s12_references_to_other_tasks_are_stored_and_never_looked_up() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let references = json!([fresh(), "no-id-at-all", ""]);
        let params = with(say("echo hi"), json!({"message": {"referenceTaskIds": references}}));
        let task = server.ask(wire, "SendMessage", params).send().await.ok();
        assert_eq!(task["task"]["history"][0]["referenceTaskIds"], references);
    })
    .await;
}

#[tokio::test]
async fn s12_a_task_id_has_one_spelling_and_a_context_id_has_a_maximum_length() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let asked = server.make(wire, "ask").await;
        let id = asked["id"].as_str().unwrap();
        for other in [id.to_uppercase(), format!("urn:uuid:{id}"), id.replace('-', "")] {
            for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
                server.ask(wire, method, json!({"id": other})).send().await.refused("TASK_NOT_FOUND");
            }
            let to = with(say("answer"), json!({"message": {"taskId": other}}));
            server.ask(wire, "SendMessage", to).send().await.refused("TASK_NOT_FOUND");
        }
        let named = |length: usize| with(say("echo hi"), json!({"message": {"contextId": "é".repeat(length / 2)}}));
        server.ask(wire, "SendMessage", named(1024)).send().await.ok();
        server.ask(wire, "SendMessage", named(1026)).send().await.refused_fields(&["message.contextId"]);
    })
    .await;
}
