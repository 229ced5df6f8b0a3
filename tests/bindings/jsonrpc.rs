//! What JSON-RPC makes of envelopes, good and bad.

use serde_json::{Value, json};

use crate::support::{Running, start, start_with};

fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"GetTask","params":{{"id":"x"}}}}"#)
}

#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let running = start().await;
    let long = format!("\"{}\"", "i".repeat(4000));
    for id in ["7", "\"7\"", "0", "\"\"", "9007199254740993", "-1", "1.50", "1e400", "null", "\"\\u0041\\n\"", &long] {
        let answer = running.post("/", call(id)).await;
        let begin = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"id\":\"x\"");
        assert!(answer.text().starts_with(&begin), "{}", answer.text());
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("content-length"), answer.body.len().to_string());

        let answer = running.post("/", call(id).replace("GetTask", "Nope")).await;
        let begin = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32601,");
        assert!(answer.text().starts_with(&begin), "{}", answer.text());

        let answer = running.post("/", call(id).replace("GetTask", "SubscribeToTask")).await;
        let events = answer.text().matches(&format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":")).count();
        assert_eq!(events, 2, "{}", answer.text());
    }
}

#[tokio::test]
async fn a_bad_envelope_has_its_own_code_and_the_id_where_it_can_be_read() {
    let running = start().await;
    let params = r#""params":{"id":"x"}"#;
    let cases = [
        (r#"{"jsonrpc""#.to_owned(), -32700, json!(null)),
        (String::new(), -32700, json!(null)),
        ("\u{feff}{}".to_owned(), -32700, json!(null)),
        (r#"[{"jsonrpc":"2.0""#.to_owned(), -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":}}"#.to_owned(), -32700, json!(null)),
        (call("1") + "x", -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":5}"#.to_owned(), -32600, json!(5)),
        (r#"{"jsonrpc":"2.0","id":5,"method":7}"#.to_owned(), -32600, json!(5)),
        (format!(r#"{{"jsonrpc":"1.0","id":"a","method":"GetTask",{params}}}"#), -32600, json!("a")),
        (format!(r#"{{"id":"a","method":"GetTask",{params}}}"#), -32600, json!("a")),
        (format!(r#"{{"jsonrpc":2.0,"id":"a","method":"GetTask",{params}}}"#), -32600, json!("a")),
        (call("{}"), -32600, json!(null)),
        (call("[1]"), -32600, json!(null)),
        (call("true"), -32600, json!(null)),
        (call(&format!("\"{}\"", "i".repeat(5000))), -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}"#.to_owned(), -32600, json!(null)),
        (format!("[{}]", call("1")), -32600, json!(null)),
        ("[]".to_owned(), -32600, json!(null)),
        ("5".to_owned(), -32600, json!(null)),
        ("\"x\"".to_owned(), -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":5,"method":"GetTask","params":["x"]}"#.to_owned(), -32602, json!(5)),
        (r#"{"jsonrpc":"2.0","id":5,"method":"GetTask","params":"x"}"#.to_owned(), -32602, json!(5)),
        (r#"{"jsonrpc":"2.0","id":5,"method":"GetTask","params":7}"#.to_owned(), -32602, json!(5)),
        (r#"{"jsonrpc":"2.0","id":5,"method":"GetTask"}"#.to_owned(), -32602, json!(5)),
    ];
    for (body, code, id) in cases {
        let answer = running.post("/", body.clone()).await;
        assert_eq!(answer.status, 200, "{body}");
        assert_eq!(answer.header("content-type"), "application/json", "{body}");
        let error = answer.json();
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(code), &id), "{body}: {error}");
        assert!(error["error"]["message"].as_str().is_some_and(|text| text.len() > 5), "{error}");
        let keys: Vec<_> = error["error"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["code", "data", "message"]);
    }
    let batch = running.post("/", "[]").await.json()["error"]["message"].to_string();
    assert!(batch.contains("batch"), "{batch}");
    assert_eq!(running.dummy.take(), []);
}

#[tokio::test]
async fn broken_utf8_is_no_json() {
    let running = start().await;
    let mut body = call("1").into_bytes();
    let place = body.len() - 4;
    body[place] = 0xff;
    let error = running.post("/", body).await.json();
    assert_eq!(error["error"]["code"], -32700, "{error}");
}

#[tokio::test]
async fn absent_and_null_params_are_empty_ones() {
    let running = start().await;
    for params in ["", r#","params":null"#, r#","params":{}"#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"{params}}}"#);
        let answer = running.post("/", body).await.json();
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[tokio::test]
async fn a_request_without_id_is_carried_out_and_not_answered() {
    let running = start().await;
    for (method, params) in [("GetTask", "{\"id\":\"x\"}"), ("SubscribeToTask", "{\"id\":\"x\"}")] {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        let answer = running.post("/", body).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
        assert_eq!(running.dummy.take().len(), 1, "{method}");
    }
    let answer = running.post("/", r#"{"jsonrpc":"2.0","method":"Nope"}"#).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
}

#[tokio::test]
async fn errors_are_200_but_for_those_that_proxies_act_on() {
    let running = start().await;
    let answer = running.rpc("GetTask", json!({"id": "missing"})).await;
    assert_eq!(answer.status, 200);
    let error = &answer.json()["error"];
    assert_eq!(error["code"], -32001);
    assert_eq!(error["data"][0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    assert_eq!(error["data"][0]["reason"], "TASK_NOT_FOUND");
    assert_eq!(error["data"][0]["domain"], "a2a-protocol.org");

    let answer = running.rpc("GetTask", json!({"id": "busy"})).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, "2"));
    assert_eq!(answer.json()["error"]["data"][1]["retryDelay"], "2s");

    let answer = running.rpc("GetTask", json!({"id": "panic"})).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (200, &json!(-32603)));
}

#[tokio::test]
async fn violations_name_their_fields() {
    let running = start().await;
    let answer =
        running.rpc("SendMessage", json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}})).await;
    let error = answer.json();
    assert_eq!(error["error"]["code"], -32602);
    assert_eq!(error["error"]["data"][1]["fieldViolations"][0]["field"], "message.parts", "{error}");
}

#[tokio::test]
async fn the_path_and_the_params_may_not_name_two_agents() {
    let running = start().await;
    let body = |tenant: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x", "tenant": tenant}}).to_string()
    };
    assert!(running.post("/t1", body("t1")).await.json()["result"].is_object());
    let error = running.post("/t1", body("t2")).await.json();
    assert_eq!(error["error"]["code"], -32602);
    assert_eq!(error["error"]["data"][1]["fieldViolations"][0]["field"], "tenant");
    let error = running.post("/nobody", body("")).await.json();
    assert_eq!(error["error"]["data"][1]["fieldViolations"][0]["field"], "tenant");
}

/// Of several faults the first in the order of checks is told.
#[tokio::test]
async fn faults_are_told_in_order() {
    let running = start_with(|builder| {
        let mut settings = tricord_bindings::BindingSettings::default();
        settings.body.bytes = 300;
        builder.settings(settings)
    })
    .await;
    let code = |answer: crate::support::Answer| (answer.status.as_u16(), answer.json()["error"]["code"].clone());
    let big = "x".repeat(301);
    let all_wrong = [("content-type", "text/plain"), ("a2a-version", "9.0")];
    let json_type = [("content-type", "application/json"), ("a2a-version", "9.0")];
    let bad_envelope = r#"{"jsonrpc":"1.0","id":1,"method":"Nope","params":[]}"#;
    let bad_method = r#"{"jsonrpc":"2.0","id":1,"method":"Nope","params":{"tenant":"t9"}}"#;
    let bad_tenant = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"tenant":"t9","id":[]}}"#;
    let bad_params = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"tenant":"t1","id":[]}}"#;
    assert_eq!(code(running.http("POST", "/", &all_wrong, big).await), (413, json!(-32600)));
    assert_eq!(code(running.http("POST", "/", &all_wrong, bad_envelope).await), (200, json!(-32005)));
    assert_eq!(code(running.http("POST", "/", &json_type, bad_envelope).await), (200, json!(-32600)));
    assert_eq!(code(running.http("POST", "/", &json_type, bad_method).await), (200, json!(-32601)));
    assert_eq!(code(running.http("POST", "/", &json_type, bad_tenant).await), (200, json!(-32009)));
    assert_eq!(code(running.post("/", bad_method).await), (200, json!(-32601)));
    let field = |error: Value| error["error"]["data"][1]["fieldViolations"][0]["field"].clone();
    assert_eq!(field(running.post("/", bad_tenant).await.json()), "tenant");
    assert_eq!(field(running.post("/", bad_params).await.json()), "id");
}

#[tokio::test]
async fn an_answer_kept_in_encoded_form_is_the_same_answer() {
    let running: Running = start().await;
    let answer = running.rpc("GetTask", json!({"id": "shared"})).await.json();
    assert_eq!(answer["result"]["id"], "shared");
}
