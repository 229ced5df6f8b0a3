//! The forms of JSON: which spellings are read, which one is written, and that values are returned unchanged.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{fresh, http, normal, on_every_wire, output, say, with};
use crate::support::Server;

const JSON_WIRES: [Binding; 2] = [Binding::JsonRpc, Binding::HttpJson];

#[tokio::test]
async fn c13_both_field_spellings_are_read_and_only_camel_case_is_written() {
    let server = Server::shared();
    for wire in JSON_WIRES {
        for text in [
            r#"{"message":{"message_id":"m","role":1,"parts":[{"text":"echo hi","media_type":"text/plain"}]}}"#,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"echo hi","mediaType":"text/plain"}]}}"#,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","contextId":null,"parts":[{"text":"echo hi","mediaType":"text/plain"}]},"configuration":null}"#,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","kind":"message","parts":[{"kind":"text","text":"echo hi","mediaType":"text/plain","x":{"y":[]}}]},"unknown":5,"configuration":{"blocking":true,"return_immediately":false}}"#,
        ] {
            let asked = server.ask(wire, "SendMessage", json!({})).params_text(text).send().await;
            let body = asked.reply.text().to_owned();
            let task = asked.ok()["task"].take();
            // The schema check of every answer covers the spelling. This checks that unknown fields are not returned.
            assert!(!body.contains("unknown") && !body.contains("kind") && !body.contains("\"y\""), "{body}");
            assert!(body.contains(r#""messageId":"m""#) && body.contains(r#""role":"ROLE_USER""#), "{body}");
            assert_eq!(task["history"][0]["parts"][0], json!({"text": "echo hi", "mediaType": "text/plain"}));
            assert!(task["status"]["timestamp"].as_str().unwrap().ends_with('Z'));
        }
        for text in [
            r#"{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]}}"#,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"messageId":"n"}}"#,
            r#"{"message":{"messageId":"m","message_id":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","text":"y"}]}}"#,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"a":1,"a":2}}]}}"#,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"a":1,"\u0061":2}}}"#,
        ] {
            let ask = server.ask(wire, "SendMessage", json!({})).params_text(text);
            ask.send().await.refused("INVALID_PARAMS");
        }
    }
}

#[tokio::test]
async fn s05_query_parameters_are_read_like_body_fields() {
    let server = Server::shared();
    let context = fresh();
    let params = with(say("echo hi"), json!({"message": {"contextId": context}}));
    let task = server.ask(Binding::HttpJson, "SendMessage", params).send().await.ok()["task"].take();
    let time = task["status"]["timestamp"].as_str().unwrap();
    let version = [("a2a-version", "1.0")];
    for (query, found) in [
        ("x=y&unknown".to_owned(), 1),
        ("pageSize=1&historyLength=0".to_owned(), 1),
        ("page_size=1&history_length=0&include_artifacts=true".to_owned(), 1),
        ("status=TASK_STATE_COMPLETED".to_owned(), 1),
        ("status=3".to_owned(), 1),
        ("status=TASK_STATE_UNSPECIFIED".to_owned(), 1),
        ("status=TASK_STATE_FAILED".to_owned(), 0),
        (format!("statusTimestampAfter={time}"), 1),
        (format!("status_timestamp_after={time}"), 1),
        (format!("lastUpdatedAfter={time}"), 1),
        ("statusTimestampAfter=2999-01-01T00:00:00Z".to_owned(), 0),
        ("statusTimestampAfter=0001-01-01T00:00:00Z".to_owned(), 1),
        ("statusTimestampAfter=9999-12-31T23:59:59.999999999Z".to_owned(), 0),
        // The same times with an offset. A `+` in a query would mean a space.
        ("statusTimestampAfter=2000-01-01T00:00:00%2B05:00".to_owned(), 1),
        ("statusTimestampAfter=2999-01-01T00:00:00.123456789-02:30".to_owned(), 0),
    ] {
        let reply = http(&server.url, "GET", &format!("/tasks?contextId={context}&{query}"), &version, "").await;
        assert_eq!((reply.status, &reply.json()["totalSize"]), (200, &json!(found)), "{query}: {}", reply.text());
    }
}

/// JSON values, each as a client writes it and as the server returns it.
fn values() -> Vec<(&'static str, &'static str)> {
    let object = r#"{"big":1700000000000,"e":{},"f":1.5,"l":[],"n":3,"neg":-1,"no":null,"z":0}"#;
    vec![
        (object, object),
        ("5", "5"),
        ("5.0", "5"),
        ("1e2", "100"),
        ("-0.5", "-0.5"),
        ("0.1", "0.1"),
        ("9007199254740992", "9007199254740992"),
        ("1e300", "1e+300"),
        ("\"s\"", "\"s\""),
        ("\"\"", "\"\""),
        ("null", "null"),
        ("true", "true"),
        ("false", "false"),
        ("0", "0"),
        ("{}", "{}"),
        ("[]", "[]"),
        ("[null,{},[],0,\"\",false]", "[null,{},[],0,\"\",false]"),
    ]
}

#[tokio::test]
async fn c14_values_are_returned_unchanged_even_after_a_restart() {
    let mut server = Server::start("[[agents]]\nname = \"kit\"\nkind = \"conformance\"");
    let mut made = Vec::new();
    for wire in JSON_WIRES {
        for (value, written) in values() {
            let text = format!(
                r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"data"}},{{"data":{value}}}],"metadata":{{"kept":{value}}}}},"metadata":{{"also":{value}}}}}"#
            );
            let answer = server.ask(wire, "SendMessage", json!({})).params_text(text).send().await;
            let id = answer.ok()["task"]["id"].as_str().unwrap().to_owned();
            made.push((id, value, written));
        }
    }
    for restarted in [false, true] {
        if restarted {
            server.kill_and_restart();
        }
        for (id, value, written) in &made {
            for wire in JSON_WIRES {
                let answer = server.ask(wire, "GetTask", json!({"id": id})).send().await;
                let text = answer.reply.text();
                // Both in the artifact and in history, then both kinds of metadata. Exponents have two usual spellings.
                let written = [format!("{{\"data\":{written}}}"), format!("{{\"data\":{}}}", written.replace('+', ""))];
                let count: usize = written.iter().map(|w| text.matches(w).count()).sum();
                assert!(count >= 2, "{wire}: {value}, restarted: {restarted}: {text}");
                for key in ["kept", "also"] {
                    let plain = written[0].trim_start_matches("{\"data\":").trim_end_matches('}').to_owned();
                    assert!(
                        text.contains(&format!("\"{key}\":{}", plain.replace("e+", "e")))
                            || text.contains(&format!("\"{key}\":{plain}")),
                        "{text}"
                    );
                }
            }
            let json = server.task(Binding::JsonRpc, id).await;
            let grpc = server.task(Binding::Grpc, id).await;
            assert_eq!(grpc, normal(&output("GetTask"), &json), "{value}");
            let expected: Value = serde_json::from_str(value).unwrap();
            let expected = normal(&output("GetTask"), &json!({"artifacts": [{"parts": [{"data": expected}]}]}));
            assert_eq!(grpc["artifacts"][0]["parts"][0], expected["artifacts"][0]["parts"][0], "{value}");
        }
    }
}

#[tokio::test]
async fn s05_base64_is_read_in_both_alphabets_and_written_in_the_standard_one() {
    let server = Server::shared();
    for (sent, written) in
        [("+/+/", "+/+/"), ("-_-_", "+/+/"), ("AA==", "AA=="), ("AA", "AA=="), ("-_8=", "+/8="), ("-_8", "+/8=")]
    {
        for wire in JSON_WIRES {
            let params = with(say("echo"), json!({"message": {"parts": [{"text": "echo x"}, {"raw": sent}]}}));
            let task = server.ask(wire, "SendMessage", params).send().await.ok();
            assert_eq!(task["task"]["history"][0]["parts"][1]["raw"], written, "{sent}");
        }
    }
    for wire in JSON_WIRES {
        for sent in ["+_+_", "A", "AA=A", "A A=", "AA===", "\u{e9}"] {
            let params = with(say("echo"), json!({"message": {"parts": [{"raw": sent}]}}));
            let refused = server.ask(wire, "SendMessage", params).send().await;
            refused.refused_fields(&["message.parts[0].raw"]);
        }
    }
}

#[tokio::test]
async fn s05_json_that_nests_too_deeply_is_refused_before_other_errors() {
    let server = Server::shared();
    let nested = |levels: usize| format!("{}0{}", "[".repeat(levels), "]".repeat(levels));
    let params = |value: &str| {
        format!(
            r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"data"}},{{"data":{value}}}]}}}}"#
        )
    };
    for wire in JSON_WIRES {
        let send =
            async |value: String| server.ask(wire, "SendMessage", json!({})).params_text(params(&value)).send().await;
        assert_eq!(send(nested(30)).await.ok()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        let refusal = send(nested(31)).await.refused("INVALID_PARAMS");
        assert!(refusal.fields[0].starts_with("message.parts[1].data[0]"), "{refusal:?}");
        send(nested(60)).await.refused("INVALID_PARAMS");
        send(nested(100_000)).await.refused("INVALID_PARAMS");
    }
}

#[tokio::test]
async fn s06_numbers_that_json_cannot_represent_are_refused() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        if wire == Binding::Grpc {
            // Protobuf can carry them, but no other binding could return them, so the same field is refused over gRPC.
            let value = prost::Message::encode_to_vec(&infinite());
            let path = "/lf.a2a.v1.A2AService/SendMessage";
            let refusal = crate::raw::grpc_refusal(&server.url, path, &[("a2a-version", "1.0")], &value).await;
            assert_eq!(refusal.reason, "INVALID_PARAMS");
            assert!(refusal.fields[0].starts_with("message.parts[0].data"), "{refusal:?}");
            return;
        }
        for value in ["1e999", "NaN", "-Infinity"] {
            let text = format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":{value}}}]}}}}"#);
            let answer = server.ask(wire, "SendMessage", json!({})).params_text(text).send().await;
            assert_ne!(answer.reply.status, 500);
            assert!(answer.reply.text().contains("-32") || answer.reply.status == 400, "{answer:?}");
        }
    })
    .await;
}

fn infinite() -> tricord::schema::SendMessageRequest {
    use tricord::schema::{Message, Part, Role, SendMessageRequest, part::Content};
    use tricord_bindings::wkt::{Value, value::Kind};
    let content = Some(Content::Data(Value { kind: Some(Kind::NumberValue(f64::INFINITY)) }));
    let parts = vec![Part { content, ..Part::default() }];
    let message = Message { message_id: "m".into(), role: Role::User.into(), parts, ..Message::default() };
    SendMessageRequest { message: Some(message), ..SendMessageRequest::default() }
}
