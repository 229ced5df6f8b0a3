//! The tasks on the server before the comparison, and the placeholders by which cases name them.
//!
//! Every run creates new values for the placeholders, so that a printed case can be sent to another server. `@live` is
//! a task that waits for input, a separate one for each binding and case. `@key` is an idempotency key, the same for a
//! case over all bindings. All other tasks have ended and are only read.

use std::collections::HashMap;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::case::Case;

/// The agents: two that get messages, one whose lists never change, one that requires an extension.
pub(crate) const CONFIG: &str = r#"
[store]
url = "memory:"

[log]
level = "error"

[[agents]]
name = "kit"
kind = "conformance"
[[agents.card.extensions]]
uri = "urn:one"

[[agents]]
name = "other"
kind = "echo"

[[agents]]
name = "still"
kind = "conformance"

[[agents]]
name = "strict"
kind = "conformance"
[[agents.card.extensions]]
uri = "urn:one"
required = true
[[agents.card.extensions]]
uri = "urn:two"
"#;

/// The values of the placeholders.
pub(crate) struct World {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    means: HashMap<String, String>,
}

impl World {
    /// Creates tasks in every state.
    pub(crate) async fn make(url: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut world = World { client, url: url.to_owned(), means: HashMap::new() };
        let done = world.send("kit", json!({}), "chunks 3").await;
        for (name, words) in [("done", ""), ("failed", "fail"), ("rejected", "reject")] {
            let task = if words.is_empty() { done.clone() } else { world.send("kit", json!({}), words).await };
            world.name(name, &task);
        }
        world.means.insert("@upper.id".to_owned(), id(&done).to_uppercase());
        let task = world.send("kit", json!({}), "ask").await;
        let task = world.call("CancelTask", json!({"tenant": "kit", "id": id(&task)}), "").await;
        world.name("canceled", &task);
        let mut task = world.send("kit", json!({}), "tck-multi-turn").await;
        for words in ["more", "still more", "done"] {
            task = world.send("kit", json!({"taskId": id(&task)}), words).await;
        }
        world.name("long", &task);
        let task = world.send("other", json!({}), "hi").await;
        world.name("foreign", &task);
        for n in 0..12 {
            let context = if n % 3 == 0 { "still-a" } else { "still-b" };
            let words = ["echo one", "fail", "ask", "chunks 2"][n % 4];
            let task = world.send("still", json!({"contextId": context}), words).await;
            if n == 0 {
                world.name("still", &task);
            }
        }
        for (name, filter) in [("@token", json!({})), ("@token.of-a", json!({"contextId": "still-a"}))] {
            let mut list = filter;
            list["tenant"] = json!("still");
            list["pageSize"] = json!(2);
            let page = world.call("ListTasks", list, "").await;
            world.means.insert(name.to_owned(), text(&page["nextPageToken"]));
        }
        let used = uuid::Uuid::now_v7().to_string();
        let first = json!({"message": {"messageId": "first", "role": "ROLE_USER", "parts": [{"text": "echo used"}]}});
        world.call("SendMessage", first, &used).await;
        world.means.insert("@used".to_owned(), used);
        let generation = world.generation().await;
        world.means.insert("@event".to_owned(), format!("{generation}.2"));
        world.means.insert("@event.last".to_owned(), format!("{generation}.6"));
        world
    }

    /// Returns a case as it is sent over one binding. `fresh` has the values that were created for it alone.
    pub(crate) fn resolve(&self, case: &Case, fresh: &HashMap<String, String>) -> Case {
        fn inside(value: &mut Value, name: &str, means: &impl Fn(&str, &str) -> Option<String>) {
            match value {
                Value::String(text) => {
                    if let Some(meant) = means(name, text) {
                        *text = meant;
                    }
                }
                Value::Array(list) => list.iter_mut().for_each(|value| inside(value, name, means)),
                Value::Object(members) => members.iter_mut().for_each(|(name, value)| inside(value, name, means)),
                _ => {}
            }
        }
        let means = |name: &str, text: &str| match fresh.get(text) {
            // Values that differ between bindings only replace names that the server resolves, not content that it
            // returns.
            Some(fresh) => ["id", "taskId", "contextId", ""].contains(&name).then(|| fresh.clone()),
            None => self.means.get(text).cloned(),
        };
        let mut case = case.clone();
        inside(&mut case.params, "", &means);
        for (_, value) in &mut case.headers {
            if let Some(meant) = means("", value) {
                *value = meant;
            }
        }
        case
    }

    /// Creates the values that a case needs for itself over one binding.
    pub(crate) async fn fresh(&self, case: &Case, key: &str) -> HashMap<String, String> {
        let mut fresh = HashMap::from([("@key".to_owned(), key.to_owned())]);
        if case.names("@live") {
            let task = self.send("kit", json!({}), "ask").await;
            fresh.insert("@live.id".to_owned(), text(&task["id"]));
            fresh.insert("@live.context".to_owned(), text(&task["contextId"]));
        }
        fresh
    }

    fn name(&mut self, name: &str, task: &Value) {
        for (member, of) in [("id", "id"), ("contextId", "context")] {
            self.means.insert(format!("@{name}.{of}"), text(&task[member]));
        }
    }

    async fn send(&self, tenant: &str, more: Value, words: &str) -> Value {
        let mut message = more;
        message["messageId"] = json!(uuid::Uuid::now_v7().to_string());
        message["role"] = json!("ROLE_USER");
        message["parts"] = json!([{"text": words}]);
        self.call("SendMessage", json!({"tenant": tenant, "message": message}), "").await["task"].take()
    }

    /// Makes a valid call over JSON-RPC.
    async fn call(&self, method: &str, params: Value, key: &str) -> Value {
        let body = self.post(method, &params, key).await;
        let mut answer: Value = serde_json::from_slice(&body).expect("JSON comes back");
        assert!(answer["error"].is_null(), "{method} {params}: {answer}");
        answer["result"].take()
    }

    async fn post(&self, method: &str, params: &Value, key: &str) -> Bytes {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let request = Request::post(&self.url).header("content-type", "application/json").header("a2a-version", "1.0");
        let request = request.header("idempotency-key", key);
        let response = self.client.request(request.body(Full::from(body)).expect("a request")).await;
        response.expect("an answer").into_body().collect().await.expect("a whole answer").to_bytes()
    }

    /// Returns the store's generation, which is part of every event id.
    async fn generation(&self) -> String {
        let message = json!({"messageId": "g", "role": "ROLE_USER", "parts": [{"text": "echo hi"}]});
        let body = self.post("SendStreamingMessage", &json!({"message": message}), "").await;
        let body = String::from_utf8_lossy(&body);
        let id = body.lines().find_map(|line| line.strip_prefix("id: ")).expect("events have ids");
        id.split_once('.').expect("an id has two numbers").0.to_owned()
    }
}

fn id(task: &Value) -> &str {
    task["id"].as_str().expect("a task has an id")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}
