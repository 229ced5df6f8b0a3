//! What HTTP+JSON makes of verbs, paths, queries, bodies and media types.

use serde_json::json;

use crate::support::{message, start, start_with};

#[tokio::test]
async fn an_error_is_a_status_document_with_its_own_http_status() {
    let running = start().await;
    let answer = running.http("GET", "/tasks/missing", &[], "").await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("content-type"), "application/a2a+json");
    let expected = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "no such task", "details": [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}
    ]}});
    assert_eq!(answer.json(), expected);
    let answer = running.http("GET", "/tasks/busy", &[], "").await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, "2"));
    let answer = running.http("GET", "/tasks/panic", &[], "").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["message"]), (500, &json!("internal error")));
}

#[tokio::test]
async fn a_query_is_read_in_both_spellings_and_its_faults_are_named() {
    let running = start().await;
    for query in ["pageSize=7", "page_size=7", "pageSize=7&unknown=1&status=TASK_STATE_WORKING&includeArtifacts=true"] {
        let answer = running.http("GET", &format!("/tasks?{query}"), &[], "").await;
        assert_eq!(answer.json()["pageSize"], 7, "{query}: {}", answer.text());
    }
    for alias in ["statusTimestampAfter", "status_timestamp_after", "lastUpdatedAfter"] {
        let answer = running.http("GET", &format!("/tasks?{alias}=1970-01-01T00:00:09Z"), &[], "").await;
        assert_eq!(answer.json()["totalSize"], 9, "{alias}: {}", answer.text());
        let answer = running.rpc("ListTasks", json!({alias: "1970-01-01T00:00:09Z"})).await;
        assert_eq!(answer.json()["result"]["totalSize"], 9, "{alias}: {}", answer.text());
    }
    for (query, field) in [
        ("pageSize=x", "pageSize"),
        ("pageSize=", "pageSize"),
        ("page_size=99999999999", "page_size"),
        ("status=FOO", "status"),
        ("status=77", "status"),
        ("includeArtifacts=yes", "includeArtifacts"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("pageSize=1&pageSize=2", "pageSize"),
    ] {
        let answer = running.http("GET", &format!("/tasks?{query}"), &[], "").await;
        assert_eq!(answer.status, 400, "{query}");
        let error = answer.json();
        assert_eq!(error["error"]["details"][1]["fieldViolations"][0]["field"], field, "{query}: {error}");
    }
}

#[tokio::test]
async fn an_empty_body_is_an_empty_message_and_needs_no_media_type() {
    let running = start().await;
    for (headers, body) in [(&[][..], ""), (&[("content-type", "text/plain")][..], ""), (&[][..], " \n")] {
        let answer = running.http("POST", "/tasks/x:cancel", headers, body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["id"]), (200, &json!("x")), "{headers:?} {body:?}");
    }
    let refused = running.http("POST", "/tasks/x:cancel", &[], "{}").await.json();
    assert_eq!(refused["error"]["details"][0]["reason"], "CONTENT_TYPE_NOT_SUPPORTED", "{refused}");
}

#[tokio::test]
async fn a_body_may_repeat_its_path_but_not_contradict_it() {
    let running = start().await;
    let answer = running.post("/t1/tasks/x:cancel", r#"{"id":"x","tenant":"t1"}"#).await;
    assert_eq!(answer.status, 200);
    for (path, body, field) in [
        ("/tasks/x:cancel", r#"{"id":"y"}"#, "id"),
        ("/t1/tasks/x:cancel", r#"{"tenant":"t2"}"#, "tenant"),
        ("/tasks/x/pushNotificationConfigs", r#"{"taskId":"y","url":"http://h"}"#, "taskId"),
    ] {
        let answer = running.post(path, body).await;
        assert_eq!(answer.status, 400, "{path} {body}");
        assert_eq!(answer.json()["error"]["details"][1]["fieldViolations"][0]["field"], field);
    }
    let answer = running.http("GET", "/tasks/x?id=y", &[], "").await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn a_path_is_split_before_it_is_decoded() {
    let running = start().await;
    for (path, id) in [
        ("/tasks/a%2Fb", "a/b"),
        ("/tasks/a%3Acancel", "a:cancel"),
        ("/tasks/a:b", "a:b"),
        ("/tasks/%E2%82%AC", "€"),
        ("/t%61sks/x", "x"),
        ("/tasks/tasks", "tasks"),
    ] {
        let answer = running.http("GET", path, &[], "").await;
        assert_eq!(answer.json()["id"], id, "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn answers_come_in_the_clients_json_type() {
    let running = start().await;
    let (own, plain) = ("application/a2a+json", "application/json");
    for (accept, expected) in [
        (None, own),
        (Some("*/*"), own),
        (Some("application/json"), plain),
        (Some("application/json, text/event-stream"), plain),
        (Some("text/event-stream"), plain),
        (Some("application/a2a+json, application/json"), own),
        (Some("Application/A2A+json;q=0.5"), own),
        (Some("text/html"), own),
    ] {
        let headers: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
        let answer = running.http("GET", "/tasks/x", &headers, "").await;
        assert_eq!(answer.header("content-type"), expected, "{accept:?}");
        let answer = running.http("GET", "/tasks/missing", &headers, "").await;
        assert_eq!(answer.header("content-type"), expected, "{accept:?}");
    }
    for (sent, expected) in [("application/json; charset=utf-8", plain), ("application/a2a+json", own)] {
        let answer = running.http("POST", "/tasks/x:cancel", &[("content-type", sent)], "{}").await;
        assert_eq!(answer.header("content-type"), expected, "{sent}");
    }
}

#[tokio::test]
async fn another_media_type_is_refused_before_the_body_is_parsed() {
    let running = start().await;
    for sent in ["text/plain", "application/xml", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        for path in ["/message:send", "/"] {
            let answer = running.http("POST", path, &[("content-type", sent)], "not json").await;
            let text = answer.text();
            assert!(text.contains("CONTENT_TYPE_NOT_SUPPORTED"), "{sent} {path}: {text}");
        }
    }
}

#[tokio::test]
async fn head_works_where_get_does() {
    let running = start().await;
    let get = running.http("GET", "/tasks/x", &[], "").await;
    let head = running.http("HEAD", "/tasks/x", &[], "").await;
    assert_eq!((head.status, head.body.len()), (get.status, 0));
    assert_eq!(head.header("content-length"), get.header("content-length"));
    for path in ["/livez", "/readyz", "/openapi.json"] {
        assert_eq!(running.http("HEAD", path, &[], "").await.status, 200, "{path}");
    }
    assert_eq!(running.http("HEAD", "/tasks/x:subscribe", &[], "").await.status, 405);
}

#[tokio::test]
async fn bad_json_and_bad_fields_are_the_clients_fault() {
    let running = start().await;
    for (body, reason) in [
        ("{", "PARSE_ERROR"),
        ("[]", "INVALID_PARAMS"),
        ("5", "INVALID_PARAMS"),
        ("\u{feff}{}", "PARSE_ERROR"),
        (r#"{"message":5}"#, "INVALID_PARAMS"),
        (r#"{"message":{"role":"user"}}"#, "INVALID_PARAMS"),
        ("{}", "INVALID_PARAMS"),
    ] {
        let answer = running.post("/message:send", body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["error"]["details"][0]["reason"], reason, "{body}");
    }
}

#[tokio::test]
async fn the_scope_in_the_path_is_judged_before_the_parameters() {
    let running = start().await;
    let answer = running.post("/t9/message:send", r#"{"message":5}"#).await;
    let error = answer.json();
    assert_eq!(error["error"]["details"][1]["fieldViolations"][0]["field"], "tenant", "{error}");
    let answer = running.post("/message:send", r#"{"tenant":"t9","message":5}"#).await;
    let error = answer.json();
    assert_eq!(error["error"]["details"][1]["fieldViolations"][0]["field"], "tenant", "{error}");
}

#[tokio::test]
async fn extensions_in_use_are_told() {
    let running = start().await;
    let headers = [("a2a-extensions", "known:a, other"), ("a2a-extensions", "known:b")];
    let answer = running.http("GET", "/tasks/x", &headers, "").await;
    assert_eq!(answer.header("a2a-extensions"), "known:a, known:b");
    let answer = running.http("GET", "/tasks/x:subscribe", &headers, "").await;
    assert_eq!(answer.header("a2a-extensions"), "known:a, known:b");
    let answer = running.http("GET", "/tasks/x", &[("a2a-extensions", "other")], "").await;
    assert_eq!(answer.header("a2a-extensions"), "");
}

#[tokio::test]
async fn versions_are_judged_by_header_then_query() {
    let running = start().await;
    for good in ["1.0", "1.0.7", " 1.0 "] {
        assert_eq!(running.http("GET", "/tasks/x", &[("a2a-version", good)], "").await.status, 200, "{good}");
    }
    for bad in ["99.0", "abc", "0.3", ""] {
        let answer = running.http("GET", "/tasks/x", &[("a2a-version", bad)], "").await;
        assert_eq!(answer.status, 400, "{bad}");
        assert_eq!(answer.json()["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
        assert!(answer.text().contains("A2A-Version"), "{}", answer.text());
    }
    assert_eq!(running.http("GET", "/tasks/x?A2A-Version=1.0", &[("a2a-version", "")], "").await.status, 200);
    let lenient = start_with(|builder| builder.protocol(&tricord::protocol::PROTOCOL_ASSUMING_CURRENT)).await;
    assert_eq!(lenient.http("GET", "/tasks/x", &[("a2a-version", "")], "").await.status, 200);
}

#[tokio::test]
async fn a_base_path_is_in_front_of_everything_but_the_probes() {
    let running = start_with(|builder| builder.base_path("/v1/a2a")).await;
    assert_eq!(running.http("GET", "/v1/a2a/tasks/x", &[], "").await.status, 200);
    assert_eq!(running.http("GET", "/tasks/x", &[], "").await.status, 404);
    assert_eq!(running.http("GET", "/v1/a2ax/tasks/x", &[], "").await.status, 404);
    assert_eq!(running.http("GET", "/v1/a2a/openapi.json", &[], "").await.status, 200);
    assert_eq!(running.http("GET", "/livez", &[], "").await.status, 200);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("x")}).to_string();
    for path in ["/v1/a2a", "/v1/a2a/", "/v1/a2a/t1"] {
        assert!(running.post(path, body.clone()).await.json()["result"].is_object(), "{path}");
    }
    assert_eq!(running.post("/", body).await.status, 404);
}
