//! Every rpc is reached on every wire by its published name, verb and path, and by nothing else.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use serde_json::{Value, json};
use tricord::schema::*;
use tricord_bindings::Binding;

use crate::support::{Running, framed, grpc_path, message, message_proto, start, start_with};

/// Verbs and paths.
type Paths = &'static [(&'static str, &'static str)];

/// The protocol's own table: rpc, then verbs and paths, as published. With every path goes one behind a tenant.
const PUBLISHED: &[(&str, bool, Paths)] = &[
    ("SendMessage", false, &[("POST", "/message:send")]),
    ("SendStreamingMessage", true, &[("POST", "/message:stream")]),
    ("GetTask", false, &[("GET", "/tasks/x")]),
    ("ListTasks", false, &[("GET", "/tasks")]),
    ("CancelTask", false, &[("POST", "/tasks/x:cancel")]),
    ("SubscribeToTask", true, &[("GET", "/tasks/x:subscribe"), ("POST", "/tasks/x:subscribe")]),
    ("CreateTaskPushNotificationConfig", false, &[("POST", "/tasks/x/pushNotificationConfigs")]),
    ("GetTaskPushNotificationConfig", false, &[("GET", "/tasks/x/pushNotificationConfigs/c")]),
    ("ListTaskPushNotificationConfigs", false, &[("GET", "/tasks/x/pushNotificationConfigs")]),
    ("GetExtendedAgentCard", false, &[("GET", "/extendedAgentCard")]),
    ("DeleteTaskPushNotificationConfig", false, &[("DELETE", "/tasks/x/pushNotificationConfigs/c")]),
];

/// Parameters of an rpc, about the task `x` where there is one.
fn params(rpc: &str) -> Value {
    match rpc {
        "SendMessage" | "SendStreamingMessage" => message("x"),
        "ListTasks" => json!({"contextId": "x"}),
        "GetExtendedAgentCard" => json!({}),
        "CreateTaskPushNotificationConfig" => json!({"taskId": "x", "url": "http://hook"}),
        "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => json!({"taskId": "x", "id": "c"}),
        "ListTaskPushNotificationConfigs" => json!({"taskId": "x"}),
        _ => json!({"id": "x"}),
    }
}

fn protobuf(rpc: &str) -> Vec<u8> {
    let (id, task_id) = ("x".to_owned(), "x".to_owned());
    let config = || TaskPushNotificationConfig { task_id: "x".into(), url: "http://hook".into(), ..Default::default() };
    match rpc {
        "SendMessage" | "SendStreamingMessage" => message_proto("x").encode_to_vec(),
        "ListTasks" => ListTasksRequest { context_id: id, ..Default::default() }.encode_to_vec(),
        "GetExtendedAgentCard" => Vec::new(),
        "CreateTaskPushNotificationConfig" => config().encode_to_vec(),
        "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => {
            GetTaskPushNotificationConfigRequest { task_id, id: "c".into(), ..Default::default() }.encode_to_vec()
        }
        "ListTaskPushNotificationConfigs" => {
            ListTaskPushNotificationConfigsRequest { task_id, ..Default::default() }.encode_to_vec()
        }
        _ => GetTaskRequest { id, ..Default::default() }.encode_to_vec(),
    }
}

#[track_caller]
fn expect_call(running: &Running, wire: Binding, rpc: &str, agent: &str) {
    let seen = running.dummy.take();
    let [seen] = seen.as_slice() else { panic!("{rpc} over {wire:?}: {seen:?}") };
    let about = if rpc == "GetExtendedAgentCard" { "" } else { "x" };
    assert_eq!((seen.wire, seen.rpc, &*seen.agent, &*seen.about), (wire, rpc, agent, about));
}

#[test]
fn the_generated_table_is_the_published_one() {
    let generated: Vec<_> = RPCS.iter().map(|rpc| (rpc.name, rpc.streaming)).collect();
    let published: Vec<_> = PUBLISHED.iter().map(|(rpc, streaming, _)| (*rpc, *streaming)).collect();
    assert_eq!(generated, published);
    for (rpc, (_, _, paths)) in RPCS.iter().zip(PUBLISHED) {
        assert_eq!(rpc.path, grpc_path(rpc.name));
        let filled = |template: &str| {
            template
                .replace("{id=*}", if template.contains("pushNotif") { "c" } else { "x" })
                .replace("{task_id=*}", "x")
        };
        let rules: BTreeSet<_> = rpc.rules.iter().map(|rule| (rule.verb.to_owned(), filled(rule.template))).collect();
        let both = |(verb, path): &(&str, &str)| {
            [(*verb).to_owned(), (*verb).to_owned()]
                .into_iter()
                .zip([(*path).to_owned(), format!("/{{tenant}}{path}")])
                .collect::<Vec<_>>()
        };
        assert_eq!(rules, paths.iter().flat_map(both).collect(), "{}", rpc.name);
    }
}

#[tokio::test]
async fn every_rpc_is_reached_by_json_rpc() {
    let running = start().await;
    for (rpc, streaming, _) in PUBLISHED {
        for (path, tenant, agent) in
            [("/", None, ""), ("/", Some("t1"), "t1"), ("/t1", None, "t1"), ("/t1/", None, "t1")]
        {
            let mut params = params(rpc);
            if let Some(tenant) = tenant {
                params["tenant"] = json!(tenant);
            }
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": rpc, "params": params});
            let answer = running.post(path, body.to_string()).await;
            assert_eq!(answer.status, 200);
            let media_type = if *streaming { "text/event-stream" } else { "application/json" };
            assert_eq!(answer.header("content-type"), media_type);
            assert!(answer.text().contains("\"result\""), "{rpc}: {}", answer.text());
            expect_call(&running, Binding::JsonRpc, rpc, agent);
        }
    }
    for other in ["tasks/get", "message/send", "getTask", "Nope", "", "GetTask "] {
        let answer = running.rpc(other, json!({"id": "x"})).await;
        assert_eq!(answer.json()["error"]["code"], -32601, "{other}");
    }
    assert_eq!(running.dummy.take(), []);
}

#[tokio::test]
async fn every_rpc_is_reached_by_verb_and_path() {
    let running = start().await;
    for (rpc, streaming, paths) in PUBLISHED {
        for (verb, path) in *paths {
            for (path, agent) in [((*path).to_owned(), ""), (format!("/t1{path}"), "t1"), (format!("{path}/"), "")] {
                // The list is the only one that is about something without having it in its path.
                let path = if *rpc == "ListTasks" { format!("{path}?contextId=x") } else { path };
                let body = if *verb == "POST" { params(rpc).to_string() } else { String::new() };
                let answer = running.http(verb, &path, &[("content-type", "application/json")], body).await;
                assert_eq!(answer.status, 200, "{verb} {path}: {}", answer.text());
                let media_type = if *streaming { "text/event-stream" } else { "application/json" };
                assert_eq!(answer.header("content-type"), media_type, "{verb} {path}");
                expect_call(&running, Binding::HttpJson, rpc, agent);
            }
        }
    }
}

#[tokio::test]
async fn every_rpc_is_reached_by_grpc() {
    let running = start().await;
    for (rpc, streaming, _) in PUBLISHED {
        let answer = running.grpc_bytes(&grpc_path(rpc), &[], framed(&protobuf(rpc))).await;
        assert_eq!(answer.grpc_status(), 0, "{rpc}: {answer:?}");
        let messages = answer.body.len();
        assert!(if *streaming { messages > 10 } else { messages >= 5 }, "{rpc}");
        expect_call(&running, Binding::Grpc, rpc, "");
    }
    for other in ["Nope", "getTask", "", "GetTask/x"] {
        let answer = running.grpc_bytes(&grpc_path(other), &[], framed(b"")).await;
        assert_eq!(answer.grpc_status(), 12, "{other}");
        assert_eq!(answer.status_details().details[0].type_url, "type.googleapis.com/google.rpc.ErrorInfo");
    }
    let answer = running.grpc_bytes("/other.Service/GetTask", &[], framed(b"")).await;
    assert_eq!(answer.grpc_status(), 12);
    assert_eq!(running.dummy.take(), []);
}

#[tokio::test]
async fn no_other_verb_or_path_reaches_anything() {
    let running = start_with(|builder| builder.agents(vec!["t1".to_owned()])).await;
    let mut verbs_of: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (_, streaming, paths) in PUBLISHED {
        for (verb, path) in *paths {
            for path in [(*path).to_owned(), format!("/t1{path}")] {
                let verbs = verbs_of.entry(path).or_default();
                verbs.insert(verb);
                if *verb == "GET" && !streaming {
                    verbs.insert("HEAD");
                }
            }
        }
    }
    for (path, allowed) in &verbs_of {
        for verb in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"] {
            if allowed.contains(verb) {
                continue;
            }
            let answer = running.http(verb, path, &[], "").await;
            assert_eq!(answer.status, 405, "{verb} {path}");
            let allow: BTreeSet<_> = answer.header("allow").split(", ").collect();
            assert_eq!(allow, *allowed, "{verb} {path}");
        }
    }
    for (path, verb) in [("/", "GET"), ("/t1", "GET"), ("/t1/", "DELETE")] {
        let answer = running.http(verb, path, &[], "").await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, "POST"), "{verb} {path}");
    }
    let unknown = [
        "/t1/nope",
        "/tasks/x/y",
        "/tasks/x/pushNotificationConfigs/c/d",
        "/message",
        "/message:nope",
        "/tasks:cancel",
        "/t1/t1/tasks/x",
        "/tasks//pushNotificationConfigs",
        "//tasks",
        "/extendedAgentCard:send",
        "/message:send:send",
        "/tasks/%ff",
        "/a/b/c/d/e/f/g/h/i",
    ];
    for path in unknown {
        let answer = running.http("GET", path, &[], "").await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json()["error"]["status"], "UNIMPLEMENTED", "{path}");
    }
    assert_eq!(running.dummy.take(), []);
}

#[tokio::test]
async fn calls_are_counted_by_rpc_binding_and_outcome() {
    let running = start().await;
    running.rpc("GetTask", json!({"id": "x"})).await;
    running.rpc("GetTask", json!({"id": "x"})).await;
    running.rpc("GetTask", json!({"id": "missing"})).await;
    running.rpc("GetTask", json!({})).await;
    running.rpc("Nope", json!({})).await;
    running.http("GET", "/tasks/x", &[], "").await;
    running.http("GET", "/tasks/x:subscribe", &[("a2a-version", "9.0")], "").await;
    running.http("GET", "/t1/nope", &[], "").await;
    running.grpc_bytes(&grpc_path("SubscribeToTask"), &[], framed(&protobuf("SubscribeToTask"))).await;
    running.grpc_bytes(&grpc_path("GetTask"), &[], framed(b"")).await;
    let stats = running.server.call_stats();
    let counts: Vec<_> = stats
        .iter()
        .flat_map(|stats| stats.codes.iter().map(|(code, count)| (stats.rpc, stats.binding, *code, *count)))
        .collect();
    let expected = [
        ("", Binding::HttpJson, "METHOD_NOT_FOUND", 1),
        ("", Binding::HttpJson, "VERSION_NOT_SUPPORTED", 1),
        ("", Binding::JsonRpc, "METHOD_NOT_FOUND", 1),
        ("GetTask", Binding::Grpc, "INVALID_PARAMS", 1),
        ("GetTask", Binding::HttpJson, "OK", 1),
        ("GetTask", Binding::JsonRpc, "INVALID_PARAMS", 1),
        ("GetTask", Binding::JsonRpc, "OK", 2),
        ("GetTask", Binding::JsonRpc, "TASK_NOT_FOUND", 1),
        ("SubscribeToTask", Binding::Grpc, "OK", 1),
    ];
    assert_eq!(counts, expected);
    let handled: Vec<_> = stats.iter().map(|stats| stats.latency.count()).collect();
    assert_eq!(handled, [0, 0, 0, 1, 3, 1], "calls that reached a handler have a duration");
}
