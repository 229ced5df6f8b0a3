//! One request has one error, whatever the wire.

use prost::Message as _;
use serde_json::{Value, json};
use tricord::schema::SendMessageRequest;

use crate::support::{Running, framed, grpc_path, message, start};

/// An error as every wire should tell it: the reason, and the wrong fields.
type Told = (String, Vec<String>);

fn told(details: &Value) -> Told {
    let reason = details[0]["reason"].as_str().unwrap_or_default().to_owned();
    let violations = details[1]["fieldViolations"].as_array().cloned().unwrap_or_default();
    (reason, violations.iter().map(|v| format!("{}: {}", v["field"], v["description"])).collect())
}

/// Sends the message on every wire, as it is, and gives back what each of them says.
async fn send(running: &Running, request: &Value) -> [Told; 3] {
    let rpc = running.rpc("SendMessage", request.clone()).await.json();
    let http = running.post("/message:send", request.to_string()).await.json();
    let decoded: SendMessageRequest = tricord_bindings::proto_json::decode(request.to_string().as_bytes()).unwrap();
    let grpc = running.grpc_bytes(&grpc_path("SendMessage"), &[], framed(&decoded.encode_to_vec())).await;
    let grpc = serde_json::to_value(grpc.status_details().unpack()).unwrap();
    [told(&rpc["error"]["data"]), told(&http["error"]["details"]), told(&grpc)]
}

#[tokio::test]
async fn wrong_fields_are_told_alike() {
    let running = start().await;
    let with = |change: fn(&mut Value)| {
        let mut request = message("x");
        change(&mut request["message"]);
        request
    };
    let absent = |name: &'static str| {
        let mut request = message("x");
        request["message"].as_object_mut().unwrap().remove(name);
        request
    };
    let cases = [
        (json!({}), "message"),
        (absent("messageId"), "message.messageId"),
        (absent("role"), "message.role"),
        (absent("parts"), "message.parts"),
        (with(|m| m["parts"] = json!([])), "message.parts"),
        (with(|m| m["messageId"] = json!("")), "message.messageId"),
        (with(|m| m["role"] = json!("ROLE_UNSPECIFIED")), "message.role"),
        (with(|m| m["parts"] = json!([{"text": "a"}, {"mediaType": "application/json"}])), "message.parts[1]"),
        (json!({"message": message("x")["message"], "tenant": "t9"}), "tenant"),
        (json!({"tenant": "t9"}), "tenant"),
    ];
    for (request, field) in cases {
        let [rpc, http, grpc] = send(&running, &request).await;
        assert_eq!(rpc.0, "INVALID_PARAMS", "{request}");
        assert!(rpc.1[0].starts_with(&format!("\"{field}")), "{request}: {rpc:?}");
        assert_eq!((&rpc, &rpc), (&http, &grpc), "{request}");
    }
    assert_eq!(running.dummy.take(), []);
}

#[tokio::test]
async fn a_part_has_one_content() {
    let running = start().await;
    let mut request = message("x");
    request["message"]["parts"] = json!([{"text": "a", "data": 1}]);
    for answer in
        [running.rpc("SendMessage", request.clone()).await, running.post("/message:send", request.to_string()).await]
    {
        let answer = answer.json();
        let details = answer["error"].get("data").or(answer["error"].get("details")).unwrap();
        assert_eq!(told(details).0, "INVALID_PARAMS");
        assert!(told(details).1[0].contains("message.parts[0]"), "{answer}");
    }
}

#[tokio::test]
async fn the_services_own_errors_are_told_alike() {
    let running = start().await;
    for (text, reason) in [("missing", "TASK_NOT_FOUND"), ("busy", "UNAVAILABLE"), ("panic", "INTERNAL_ERROR")] {
        let [rpc, http, grpc] = send(&running, &message(text)).await;
        assert_eq!(rpc, (reason.to_owned(), Vec::new()));
        assert_eq!((&rpc, &rpc), (&http, &grpc));
    }
}

#[tokio::test]
async fn a_subscription_is_the_same_by_get_and_post() {
    let running = start().await;
    let expected = running.http("GET", "/tasks/x:subscribe", &[], "").await;
    assert_eq!(expected.text().matches("data: ").count(), 2);
    for path in ["/tasks/x:subscribe", "/t1/tasks/x:subscribe"] {
        for (verb, headers, body) in [
            ("GET", &[][..], ""),
            ("GET", &[("content-type", "application/json")], "{}"),
            ("POST", &[], ""),
            ("POST", &[("content-type", "application/json")], "{}"),
            ("POST", &[("content-type", "application/a2a+json")], r#"{"id":"x"}"#),
        ] {
            let answer = running.http(verb, path, headers, body).await;
            assert_eq!((answer.status.as_u16(), answer.text()), (200, expected.text()), "{verb} {path} {body}");
        }
    }
    assert!(running.dummy.take().iter().all(|seen| seen.rpc == "SubscribeToTask" && seen.about == "x"));
}
