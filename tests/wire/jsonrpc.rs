//! JSON-RPC: envelopes, ids, parameters, notifications, batches.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{Reply, fresh, http, say};
use crate::support::Server;

async fn post(server: &Server, path: &str, body: impl Into<String>) -> Reply {
    let headers = [("content-type", "application/json"), ("a2a-version", "1.0")];
    http(&server.url, "POST", path, &headers, body.into()).await
}

/// Returns a call whose id is this JSON text.
fn call(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

#[tokio::test]
async fn c09_each_fault_of_an_envelope_has_its_own_code() {
    let server = Server::shared();
    for (body, code, id) in [
        (r#"{"jsonrpc""#.to_owned(), -32700, json!(null)),
        (String::new(), -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":7}"#.to_owned(), -32600, json!(7)),
        (r#"{"jsonrpc":"1.0","id":7,"method":"GetTask"}"#.to_owned(), -32600, json!(7)),
        (r#"{"id":"a","method":"GetTask"}"#.to_owned(), -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#.to_owned(), -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#.to_owned(), -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"GetTask"}"#.to_owned(), -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":true,"method":"GetTask"}"#.to_owned(), -32600, json!(null)),
        ("5".to_owned(), -32600, json!(null)),
        (call("7", "Nope", "{}"), -32601, json!(7)),
        (call("7", "message/send", "{}"), -32601, json!(7)),
        (call("7", "gettask", "{}"), -32601, json!(7)),
        (call("7", "GetTask", "\"x\""), -32602, json!(7)),
        (call("7", "GetTask", "5"), -32602, json!(7)),
        (call("7", "GetTask", "[\"x\"]"), -32602, json!(7)),
        (call("7", "GetTask", r#"{"id":5}"#), -32602, json!(7)),
        (call("7", "SendMessage", r#"{"message":"hi"}"#), -32602, json!(7)),
    ] {
        let reply = post(server, "/", body.clone()).await;
        let answer = reply.json();
        assert_eq!((reply.status, &answer["error"]["code"], &answer["id"]), (200, &json!(code), &id), "{body}");
        assert_eq!(reply.header("content-type"), "application/json", "{body}");
        assert!(answer["error"]["data"].is_array(), "{body}: {answer}");
    }
}

#[tokio::test]
async fn c10_an_id_is_returned_unchanged() {
    let server = Server::shared();
    let say = say("echo hi").to_string();
    let long = format!("\"{}\"", "x".repeat(1000));
    let ids =
        ["7", "\"7\"", "0", "\"\"", "9007199254740993", "-1", "1.50", "1e3", "\"a\\u00e9\\n\\\"\"", &long, "null"];
    for id in ids {
        let opening = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
        for (method, params) in [("SendMessage", say.as_str()), ("GetTask", r#"{"id":"none"}"#), ("Nope", "{}")] {
            let reply = post(server, "/", call(id, method, params)).await;
            assert!(reply.text().starts_with(&opening), "{id} {method}: {}", reply.text());
        }
        let events = post(server, "/", call(id, "SendStreamingMessage", &say)).await;
        let data: Vec<_> = events.text().lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.len(), 4, "{id}: {data:?}");
        assert!(data.iter().all(|line| line.starts_with(&opening)), "{id}: {data:?}");
        let refused = post(server, "/", call(id, "SendStreamingMessage", "{}")).await;
        assert!(refused.text().starts_with(&opening), "{id}: {}", refused.text());
    }
}

#[tokio::test]
async fn s16_a_batch_is_refused_with_a_clear_message() {
    let server = Server::shared();
    let one = call("1", "GetTask", r#"{"id":"x"}"#);
    for body in [format!("[{one},{one}]"), format!("[{one}]"), "[]".to_owned()] {
        let reply = post(server, "/", body).await.json();
        assert_eq!((&reply["error"]["code"], &reply["id"]), (&json!(-32600), &json!(null)));
        assert!(reply["error"]["message"].as_str().unwrap().contains("batch"), "{reply}");
    }
}

#[tokio::test]
async fn s16_a_request_without_an_id_is_run_and_gets_an_empty_answer() {
    let server = Server::shared();
    let context = fresh();
    let mut params = say("echo hi");
    params["message"]["contextId"] = json!(context);
    for method in ["SendMessage", "SendStreamingMessage", "Nope"] {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let reply = post(server, "/", body).await;
        assert_eq!((reply.status, reply.text()), (204, ""), "{method}");
    }
    let list = async || server.ask(Binding::JsonRpc, "ListTasks", json!({"contextId": context})).send().await.ok();
    let done = |list: &Value| {
        list["tasks"].as_array().unwrap().iter().filter(|t| t["status"]["state"] == "TASK_STATE_COMPLETED").count()
    };
    // A streaming call without an id starts its task, and the answer does not wait for it.
    for _ in 0..100 {
        if done(&list().await) == 2 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the request was not run: {}", list().await);
}

#[tokio::test]
async fn s16_params_may_be_absent_or_null_if_no_parameter_is_required() {
    let server = Server::shared();
    for method in ["ListTasks", "GetExtendedAgentCard"] {
        for params in ["", ",\"params\":null", ",\"params\":{}"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"{params}}}"#);
            let reply = post(server, "/", body.clone()).await.json();
            let code = &reply["error"]["code"];
            assert!(code.is_null() || *code == -32004, "{body}: {reply}");
        }
    }
    let reply = post(server, "/", r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#).await.json();
    assert_eq!(reply["error"]["code"], -32602);
    assert_eq!(reply["error"]["data"][1]["fieldViolations"][0]["field"], "id");
}

#[tokio::test]
async fn s16_the_endpoint_answers_with_and_without_a_trailing_slash() {
    let server = Server::shared();
    for path in ["/", "/kit", "/kit/", "/other", "/other/"] {
        let reply = post(server, path, call("1", "ListTasks", r#"{"pageSize":1}"#)).await;
        assert!(reply.json()["result"]["tasks"].is_array(), "{path}: {reply:?}");
    }
    let based = Server::start("[server]\nbase_path = \"/v1/a2a\"\n[[agents]]\nname = \"kit\"\nkind = \"conformance\"");
    for path in ["/v1/a2a", "/v1/a2a/", "/v1/a2a/kit", "/v1/a2a/kit/"] {
        let reply = post(&based, path, call("1", "ListTasks", "{}")).await;
        assert!(reply.json()["result"]["tasks"].is_array(), "{path}: {reply:?}");
    }
}
