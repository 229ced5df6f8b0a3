//! A second version of the protocol over the same service: other methods and paths, another spelling of a field, another
//! form of errors. The service is not told.

use std::any::Any;

use http::Method;
use serde_json::{Value, json};
use tricord::protocol::{CONTENT_TYPE_NOT_SUPPORTED, PROTOCOL, VERSION_NOT_SUPPORTED};
use tricord::schema::codec::SchemaCodec;
use tricord::schema::{StreamResponse, Task};
use tricord_bindings::codec::{JsonMessage, Params};
use tricord_bindings::query::Route;
use tricord_bindings::{Codec, Error, Output, Protocol, Rpc};

use crate::support::{Answer, Running, grpc_path, start_with, task};

/// The protocol with two versions, of which a request without one means the older.
static TWO_VERSIONS: Protocol = Protocol {
    error_domain: "a2a-protocol.org",
    version_header: http::HeaderName::from_static("a2a-version"),
    version_header_label: "A2A-Version",
    codecs: &[&SchemaCodec, &OldCodec],
    absent_version: "0.2",
    extensions_header: http::HeaderName::from_static("a2a-extensions"),
    media_type: "application/a2a+json",
    version_not_supported: &VERSION_NOT_SUPPORTED,
    content_type_not_supported: &CONTENT_TYPE_NOT_SUPPORTED,
    describe: |_, _| {},
};

/// A version whose methods are called like `tasks/get`, whose paths begin with `/v0`, and which writes `id` as `ID`.
#[derive(Debug)]
struct OldCodec;

impl Codec for OldCodec {
    fn version(&self) -> &'static str {
        "0.2"
    }

    fn slot(&self) -> usize {
        1
    }

    fn grpc_rpc(&self, _: &str) -> Option<&'static Rpc> {
        None
    }

    fn jsonrpc_rpc(&self, method: &str) -> Option<&'static Rpc> {
        SchemaCodec.jsonrpc_rpc(match method {
            "tasks/get" => "GetTask",
            "tasks/resubscribe" => "SubscribeToTask",
            _ => return None,
        })
    }

    fn http_route<'p>(&self, verb: &Method, path: &'p str) -> Route<'p> {
        path.strip_prefix("/v0").map_or(Route::NotFound, |path| SchemaCodec.http_route(verb, path))
    }

    fn read_json(&self, _: &'static Rpc, json: &[u8], params: &mut dyn Params) -> Result<(), Error> {
        let mut value: Value = serde_json::from_slice(json).map_err(|_| Error::invalid("", "not JSON"))?;
        rename(&mut value, "ID", "id");
        params.read_json(value.to_string().as_bytes())
    }

    fn write_json(&self, message: &dyn JsonMessage, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut json = Vec::new();
        message.write_json(&mut json)?;
        let mut value: Value = serde_json::from_slice(&json).map_err(|_| Error::internal())?;
        let any: &dyn Any = message;
        value["kind"] = match (any.is::<Task>(), any.is::<StreamResponse>()) {
            (true, _) => "task".into(),
            (_, true) => "event".into(),
            _ => Value::Null,
        };
        rename(&mut value, "id", "ID");
        out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn write_jsonrpc_error(&self, _: &Protocol, error: &Error, out: &mut Vec<u8>) {
        let error = json!({"code": error.kind().jsonrpc, "message": error.message(), "reason": error.kind().reason});
        out.extend_from_slice(error.to_string().as_bytes());
    }

    fn write_http_error(&self, _: &Protocol, error: &Error, out: &mut Vec<u8>) {
        let error = json!({"title": error.message(), "reason": error.kind().reason});
        out.extend_from_slice(error.to_string().as_bytes());
    }
}

fn rename(value: &mut Value, from: &str, to: &str) {
    let Some(object) = value.as_object_mut() else { return };
    if let Some(moved) = object.remove(from) {
        object.insert(to.to_owned(), moved);
    }
}

const OLD: (&str, &str) = ("a2a-version", "0.2");

async fn start() -> Running {
    assert_eq!(PROTOCOL.codecs.len(), 1, "this test has the only second codec");
    start_with(|builder| builder.protocol(&TWO_VERSIONS)).await
}

async fn old_rpc(running: &Running, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    running.http("POST", "/", &[OLD, ("content-type", "application/json")], body).await
}

#[tokio::test]
async fn each_version_has_its_own_names_and_spellings_on_json_rpc() {
    let running = start().await;
    for id in ["x", "shared"] {
        let old = old_rpc(&running, "tasks/get", json!({"ID": id})).await.json();
        assert_eq!((&old["result"]["ID"], &old["result"]["kind"]), (&json!(id), &json!("task")), "{old}");
        let new = running.rpc("GetTask", json!({"id": id})).await.json();
        assert_eq!((&new["result"]["id"], &new["result"]["kind"]), (&json!(id), &Value::Null), "{new}");
    }
    let seen: Vec<_> = running.dummy.take().into_iter().map(|seen| (seen.rpc, seen.about)).collect();
    assert_eq!(seen, ["x", "x", "shared", "shared"].map(|id| ("GetTask", id.to_owned())));
    assert_eq!(old_rpc(&running, "GetTask", json!({})).await.json()["error"]["reason"], "METHOD_NOT_FOUND");
    assert_eq!(running.rpc("tasks/get", json!({})).await.json()["error"]["code"], -32601);
}

#[tokio::test]
async fn each_version_has_its_own_paths_and_spellings_on_http_json() {
    let running = start().await;
    assert_eq!(running.http("GET", "/v0/tasks/x", &[OLD], "").await.json()["ID"], "x");
    assert_eq!(running.http("GET", "/tasks/x", &[], "").await.json()["id"], "x");
    let headers = [OLD, ("content-type", "application/json")];
    let cancelled = running.http("POST", "/v0/tasks/x:cancel", &headers, r#"{"ID":"x"}"#).await;
    assert_eq!(cancelled.json()["kind"], "task", "{}", cancelled.text());
    assert_eq!(running.http("GET", "/tasks/x", &[OLD], "").await.status, 404);
    // To the newer version, the beginning of the older one's paths is the name of an agent.
    assert_eq!(running.http("GET", "/v0/tasks/x", &[], "").await.status, 400);
    // A request without a version means the older one.
    assert_eq!(running.http("GET", "/v0/tasks/x", &[("a2a-version", "")], "").await.json()["ID"], "x");
}

#[tokio::test]
async fn each_version_has_its_own_form_of_errors() {
    let running = start().await;
    let error = old_rpc(&running, "tasks/get", json!({"ID": "missing"})).await.json();
    assert_eq!(error["error"], json!({"code": -32001, "message": "no such task", "reason": "TASK_NOT_FOUND"}));
    let answer = running.http("GET", "/v0/tasks/missing", &[OLD], "").await;
    assert_eq!((answer.status.as_u16(), answer.json()["reason"].clone()), (404, json!("TASK_NOT_FOUND")));
    // Checks before the version are told in the form of the version that is asked for, and of the newest if there is none.
    let text = ("content-type", "text/plain");
    let refused = running.http("POST", "/v0/message:send", &[OLD, text], "x").await.json();
    assert_eq!(refused["reason"], "CONTENT_TYPE_NOT_SUPPORTED");
    let refused = running.http("GET", "/tasks/x", &[("a2a-version", "7.0")], "").await.json();
    assert_eq!(refused["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
    assert!(refused["error"]["message"].as_str().unwrap().contains("1.0 or 0.2"), "{refused}");
}

#[tokio::test]
async fn each_version_has_its_own_events() {
    let running = start().await;
    let old = running.http("GET", "/v0/tasks/x:subscribe", &[OLD], "").await;
    assert_eq!(old.text().matches(r#""kind":"event""#).count(), 2, "{}", old.text());
    let new = running.http("GET", "/tasks/x:subscribe", &[], "").await;
    assert_eq!(new.text().matches("kind").count(), 0, "{}", new.text());
    assert_eq!(new.text().matches("data: ").count(), 2);
    let failed = running.http("GET", "/v0/tasks/fails:subscribe", &[OLD], "").await;
    assert!(failed.text().contains(r#""reason":"TASK_NOT_FOUND""#), "{}", failed.text());
}

#[tokio::test]
async fn a_version_without_grpc_has_no_methods_there() {
    let running = start().await;
    let request = tricord::schema::GetTaskRequest { id: "x".into(), ..Default::default() };
    assert_eq!(running.grpc(&grpc_path("GetTask"), &[OLD], &request).await.grpc_status(), 12);
    assert_eq!(running.grpc(&grpc_path("GetTask"), &[], &request).await.grpc_status(), 0);
}

#[test]
fn an_encoded_message_keeps_the_json_of_each_codec() {
    let message = tricord_bindings::Encoded::new(task("x"));
    // The first use is not kept, the second is, the third is a copy.
    for _ in 0..3 {
        let (mut new, mut old) = (Output::new(None), Output::new(None));
        message.write_json(&SchemaCodec, &mut new).unwrap();
        message.write_json(&OldCodec, &mut old).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&new.into_vec()).unwrap()["id"], "x");
        assert_eq!(serde_json::from_slice::<Value>(&old.into_vec()).unwrap()["ID"], "x");
    }
}
