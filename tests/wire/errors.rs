//! Errors: each row of the error table over each binding. These tests cause every kind of error; `Answer` checks code,
//! status, domain, order of details and headers of every error in any test.

use serde_json::json;
use tricord::client::Binding;

use crate::raw::{ask, fresh, grpc_refusal, http, on_every_wire, say, say_at_once, say_to, with};
use crate::support::{Server, TWO_AGENTS};

#[tokio::test]
async fn errors_about_tasks_have_the_same_reason_over_every_binding() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let id = fresh();
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let refusal = server.ask(wire, method, json!({"id": id})).send().await.refused("TASK_NOT_FOUND");
            assert!(refusal.fields.is_empty());
        }
        for method in ["SendMessage", "SendStreamingMessage"] {
            server.ask(wire, method, say_to(&id, "hi")).send().await.refused("TASK_NOT_FOUND");
        }
        let ended = server.make(wire, "echo hi").await;
        let ended = ended["id"].as_str().unwrap();
        server.ask(wire, "CancelTask", json!({"id": ended})).send().await.refused("TASK_NOT_CANCELABLE");
        server.ask(wire, "SubscribeToTask", json!({"id": ended})).send().await.refused("UNSUPPORTED_OPERATION");
        server.ask(wire, "SendMessage", say_to(ended, "hi")).send().await.refused("UNSUPPORTED_OPERATION");
        server.ask(wire, "GetExtendedAgentCard", json!({})).send().await.refused("UNSUPPORTED_OPERATION");
        let media = with(say("hi"), json!({"message": {"parts": [{"text": "hi", "mediaType": "text/x-strange"}]}}));
        let refusal = server.ask(wire, "SendMessage", media).send().await.refused("CONTENT_TYPE_NOT_SUPPORTED");
        assert!(refusal.message.contains("text/x-strange"), "{refusal:?}");
        // A message in any script is the same over every binding.
        let media = with(say("hi"), json!({"message": {"parts": [{"text": "hi", "mediaType": "text/ü🙂%41\n"}]}}));
        let refusal = server.ask(wire, "SendMessage", media).send().await.refused("CONTENT_TYPE_NOT_SUPPORTED");
        assert!(refusal.message.contains("text/ü🙂%41"), "{refusal:?}");
        server
            .ask(wire, "GetTask", json!({"id": id}))
            .version(Some("99.0"))
            .send()
            .await
            .refused("VERSION_NOT_SUPPORTED");
        server.ask(wire, "SendMessage", json!({})).send().await.refused_fields(&["message"]);
        server
            .ask(wire, "GetTask", json!({"id": id, "historyLength": -1}))
            .send()
            .await
            .refused_fields(&["historyLength"]);
    })
    .await;
}

#[tokio::test]
async fn errors_about_a_message_are_sent_before_a_stream_begins() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let ended = server.make(wire, "echo hi").await;
        for (params, reason) in [
            (say_to(ended["id"].as_str().unwrap(), "hi"), "UNSUPPORTED_OPERATION"),
            (say_to(&fresh(), "hi"), "TASK_NOT_FOUND"),
            (json!({"tenant": "nobody", "message": say("hi")["message"]}), "INVALID_PARAMS"),
            (json!({}), "INVALID_PARAMS"),
        ] {
            let answer = server.ask(wire, "SendStreamingMessage", params).open().await;
            answer.map(|_| "a stream").unwrap_err().refused(reason);
        }
    })
    .await;
}

#[tokio::test]
async fn errors_for_an_unknown_method_or_path_follow_the_table() {
    let server = Server::shared();
    let url = &server.url;
    ask(url, Binding::JsonRpc, "Nope", json!({})).send_unknown().await.refused("METHOD_NOT_FOUND");
    let version = [("a2a-version", "1.0")];
    for path in ["/kit/nope", "/tasks/a/b/c", "/tasks/x:nope/y", "/message:nope", "/kit/other/tasks"] {
        let reply = http(url, "GET", path, &version, "").await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["details"][0]["reason"]),
            (404, &json!("METHOD_NOT_FOUND")),
            "{path}"
        );
    }
    for (verb, path, allow) in [
        ("GET", "/message:send", "POST"),
        ("PUT", "/tasks", "GET, HEAD"),
        ("DELETE", "/tasks/x", "GET, HEAD"),
        ("GET", "/tasks/x:cancel", "POST"),
        // A stream does not answer HEAD.
        ("PATCH", "/tasks/x:subscribe", "GET, POST"),
        ("PUT", "/tasks/x/pushNotificationConfigs", "GET, HEAD, POST"),
        ("POST", "/tasks/x/pushNotificationConfigs/y", "DELETE, GET, HEAD"),
        ("POST", "/extendedAgentCard", "GET, HEAD"),
    ] {
        for path in [path.to_owned(), format!("/kit{path}")] {
            let reply = http(url, verb, &path, &version, "").await;
            assert_eq!(reply.status, 405, "{verb} {path}: {reply:?}");
            let mut allowed: Vec<_> = reply.header("allow").split(", ").collect();
            allowed.sort_unstable();
            assert_eq!(allowed.join(", "), allow, "{verb} {path}");
            assert_eq!(reply.json()["error"]["details"][0]["reason"], "METHOD_NOT_FOUND");
        }
    }
    for path in ["/lf.a2a.v1.A2AService/Nope", "/lf.a2a.v1.A2AService/"] {
        assert_eq!(grpc_refusal(url, path, &version, b"").await.reason, "METHOD_NOT_FOUND", "{path}");
    }
}

#[tokio::test]
async fn errors_for_bytes_that_are_not_json_or_protobuf_follow_the_table() {
    let server = Server::shared();
    let headers = [("a2a-version", "1.0"), ("content-type", "application/json")];
    for body in ["{", "{\"message\":", "nope", "{} {}", "\u{feff}{}"] {
        let reply = http(&server.url, "POST", "/message:send", &headers, body).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["details"][0]["reason"]),
            (400, &json!("PARSE_ERROR")),
            "{body}"
        );
        let reply = http(&server.url, "POST", "/", &headers, body).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["code"], &reply.json()["id"]), (200, &json!(-32700), &json!(null)), "{body}");
    }
    // A lone surrogate is not valid text in JSON, and bytes that are not UTF-8 are not JSON.
    let half = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"\ud800"}]}}"#;
    let reply = http(&server.url, "POST", "/message:send", &headers, half).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    for bytes in [&b"{\"message\":\"\xff\"}"[..], b"\xff\xfe{\0}\0", b"{\"a\":\"\x01\"}", b"\"\xff\""] {
        let reply = http(&server.url, "POST", "/message:send", &headers, bytes.to_vec()).await;
        let error = reply.json()["error"].clone();
        assert_eq!((reply.status, &error["details"][0]["reason"]), (400, &json!("PARSE_ERROR")), "{bytes:?}");
        let reply = http(&server.url, "POST", "/", &headers, bytes.to_vec()).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (200, &json!(-32700)), "{bytes:?}");
    }
    for body in ["[]", "5", "\"x\"", "null"] {
        let reply = http(&server.url, "POST", "/message:send", &headers, body).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["details"][0]["reason"]),
            (400, &json!("INVALID_PARAMS")),
            "{body}"
        );
    }
    let path = "/lf.a2a.v1.A2AService/SendMessage";
    let refusal = grpc_refusal(&server.url, path, &headers[..1], &[0x12, 0xff, 0x01]).await;
    assert_eq!(refusal.reason, "INVALID_PARAMS");
}

#[tokio::test]
async fn errors_at_the_limit_of_running_tasks_say_when_to_retry() {
    let server = Server::start(&format!("{TWO_AGENTS}\n[limits]\nrunning_tasks = 1\nstreams = 1"));
    let task = server.ask(Binding::Grpc, "SendMessage", say_at_once("tck-cancel")).send().await.ok();
    let id = task["task"]["id"].as_str().unwrap();
    on_every_wire(|wire| {
        let server = &server;
        async move {
            let refusal = server.ask(wire, "SendMessage", say("echo hi")).send().await.refused("RATE_LIMITED");
            assert!(refusal.message.contains("running"), "{refusal:?}");
        }
    })
    .await;
    let open = server.ask(Binding::HttpJson, "SubscribeToTask", json!({"id": id})).stream().await;
    on_every_wire(|wire| {
        let server = &server;
        async move {
            server.ask(wire, "SubscribeToTask", json!({"id": id})).send().await.refused("RATE_LIMITED");
        }
    })
    .await;
    drop(open);
    server.ask(Binding::JsonRpc, "CancelTask", json!({"id": id})).send().await.ok();
    for wire in crate::support::WIRES {
        assert_eq!(server.make(wire, "echo hi").await["status"]["state"], "TASK_STATE_COMPLETED", "{wire}");
    }
}

#[tokio::test]
async fn errors_for_an_exceeded_deadline_leave_the_task_running() {
    let server = Server::shared();
    let context = fresh();
    let words = with(say("slow 1"), json!({"message": {"contextId": context}}));
    let asked = server.ask(Binding::Grpc, "SendMessage", words).header("grpc-timeout", "400m");
    asked.send().await.refused("DEADLINE_EXCEEDED");
    let find = || async {
        let list = server.ask(Binding::JsonRpc, "ListTasks", json!({"contextId": context})).send().await.ok();
        list["tasks"][0].clone()
    };
    let task = find().await;
    assert_eq!(task["status"]["state"], "TASK_STATE_WORKING");
    let mut events = server.ask(Binding::Grpc, "SubscribeToTask", json!({"id": task["id"]})).stream().await;
    assert_eq!(events.rest().await.last().unwrap().state(), "TASK_STATE_COMPLETED");
}
