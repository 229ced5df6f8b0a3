//! The ProtoJSON corpus through sockets. A server accepts, stores and returns every part or message that the codec
//! accepts, and refuses every one that the codec refuses, over both JSON bindings.

use serde::Deserialize;
use serde_json::{Value, json};
use tricord::client::Binding;

use crate::support::Server;

#[derive(Deserialize)]
struct Case {
    name: String,
    message: String,
    json: String,
    expect: String,
    output: Option<Value>,
}

/// Returns a request with the case in it, and where the task returns it. `None` if no request can hold the case.
fn request(case: &Case) -> Option<(String, &'static str)> {
    Some(match case.message.as_str() {
        "SendMessageRequest" => (case.json.clone(), "/history/0"),
        "Message" => (format!(r#"{{"message":{}}}"#, case.json), "/history/0"),
        "Part" => {
            let first = r#"{"text":"echo hi"}"#;
            let parts = format!(r#"[{first},{}]"#, case.json);
            (format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":{parts}}}}}"#), "/history/0/parts/1")
        }
        "SendMessageConfiguration" => {
            let message = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"echo hi"}]}"#;
            (format!(r#"{{"message":{message},"configuration":{}}}"#, case.json), "/status")
        }
        _ => return None,
    })
}

/// Returns whether the validator accepts what the codec read: a message needs an id, a role and parts, a part content.
fn is_valid(case: &Case) -> bool {
    let output = case.output.as_ref().unwrap_or(&Value::Null);
    let filled = |part: &Value| ["text", "raw", "url", "data"].iter().any(|key| part.get(key).is_some());
    let parts = |list: &Value| list.as_array().is_some_and(|parts| !parts.is_empty() && parts.iter().all(filled));
    let role = |role: Option<&Value>| role.is_some_and(|role| role != "ROLE_UNSPECIFIED");
    match case.message.as_str() {
        "Message" => output.get("messageId").is_some() && role(output.get("role")) && parts(&output["parts"]),
        "Part" => filled(output),
        _ => true,
    }
}

/// Returns whether the returned value equals the sent one, without the ids that the server fills in.
fn comes_back(sent: &Value, back: &Value) -> bool {
    match (sent, back) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| comes_back(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(key, a)| b.get(key).is_some_and(|b| comes_back(a, b)))
                && b.keys().all(|key| a.contains_key(key) || key == "taskId" || key == "contextId")
        }
        (a, b) => a == b,
    }
}

#[tokio::test]
async fn every_corpus_case_has_the_same_result_through_sockets() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../protojson/cases.json")).unwrap();
    let server = Server::shared();
    let (mut taken, mut refused) = (0, 0);
    for case in &cases {
        let Some((params, place)) = request(case) else { continue };
        for wire in [Binding::JsonRpc, Binding::HttpJson] {
            let answer = server.ask(wire, "SendMessage", json!({})).params_text(params.clone()).send().await;
            match answer.outcome() {
                Ok(mut result) => {
                    assert!(case.expect == "ok" && is_valid(case), "{}: {wire} took {params}", case.name);
                    let back = result["task"].pointer_mut(place).map(Value::take).unwrap_or_default();
                    let sent = case.output.as_ref().unwrap();
                    let carries = matches!(case.message.as_str(), "Message" | "Part");
                    assert!(!carries || comes_back(sent, &back), "{}: {wire}: {sent} came back as {back}", case.name);
                    taken += 1;
                }
                Err(refusal) => {
                    let known = case.expect == "error" || !is_valid(case) || refusal.reason == "TASK_NOT_FOUND";
                    assert!(known, "{}: {wire} refused {params}: {}", case.name, refusal.message);
                    assert_ne!(refusal.reason, "INTERNAL_ERROR", "{}: {wire}: {params}", case.name);
                    refused += 1;
                }
            }
        }
    }
    assert!(taken >= 20 && refused >= 60, "{taken} accepted and {refused} refused, expected more of both");
}
