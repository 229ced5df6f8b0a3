//! Calls without a client library: every binding as bytes, so that a test sees what a client in any language sees.
//!
//! [`ask`] says one thing to a server over any wire; its [`Answer`] is held against the schema and the error table
//! before a test gets to see it, so that every test of this binary watches both.

mod answer;
mod events;
mod grpc;
mod http;
mod params;
mod schema;
mod sse;

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::support::{Server, WIRES};

pub(crate) use answer::{Answer, Refusal};
pub(crate) use events::{Event, Events, parts_text};
pub(crate) use http::{PATIENCE, Reply, connect, http, open, read_all};
pub(crate) use params::{fresh, say, say_at_once, say_to, with};
pub(crate) use schema::{normal, output};

/// A call that is not sent yet.
#[derive(Debug, Clone)]
#[must_use]
pub(crate) struct Ask {
    url: String,
    wire: Binding,
    method: String,
    params: Value,
    headers: Vec<(String, String)>,
    version: Option<String>,
    id: Option<Value>,
    agent: Option<String>,
    text: Option<String>,
}

/// Asks for `method` over a wire; on HTTP+JSON the verb and path come from the parameters.
pub(crate) fn ask(url: &str, wire: Binding, method: &str, params: Value) -> Ask {
    Ask {
        url: url.to_owned(),
        wire,
        method: method.to_owned(),
        params,
        headers: Vec::new(),
        version: Some("1.0".to_owned()),
        id: Some(json!(1)),
        agent: None,
        text: None,
    }
}

impl Server {
    /// Asks the server's default agent.
    pub(crate) fn ask(&self, wire: Binding, method: &str, params: Value) -> Ask {
        ask(&self.url, wire, method, params)
    }

    /// Reads a task.
    pub(crate) async fn task(&self, wire: Binding, id: &str) -> Value {
        self.ask(wire, "GetTask", json!({"id": id})).send().await.ok()
    }

    /// Reads a task of an agent.
    pub(crate) async fn task_of(&self, wire: Binding, agent: &str, id: &Value) -> Value {
        self.ask(wire, "GetTask", json!({"id": id, "tenant": agent})).send().await.ok()
    }

    /// Sends words and gives the task that comes of them.
    pub(crate) async fn make(&self, wire: Binding, words: &str) -> Value {
        self.ask(wire, "SendMessage", say(words)).send().await.ok()["task"].take()
    }
}

impl Ask {
    /// Adds a header or metadata.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets another version, or none.
    pub(crate) fn version(mut self, version: Option<&str>) -> Self {
        self.version = version.map(str::to_owned);
        self
    }

    /// Sets the id of a JSON-RPC request; `None` for a notification. The other wires have none.
    pub(crate) fn id(mut self, id: impl Into<Option<Value>>) -> Self {
        self.id = id.into();
        self
    }

    /// Selects an agent by its path segment; over gRPC by the tenant.
    pub(crate) fn agent(mut self, agent: &str) -> Self {
        self.agent = Some(agent.to_owned());
        self
    }

    /// Sets the parameters as text, for content that a JSON value cannot hold.
    pub(crate) fn params_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Makes the call and reads the answer to its end.
    pub(crate) async fn send(&self) -> Answer {
        let reply = read_all(self.begin().await).await;
        Answer::read(self.wire, &self.method, &self.id, self.describe(), reply)
    }

    /// Calls a method that does not exist.
    pub(crate) async fn send_unknown(&self) -> Answer {
        assert_eq!(self.wire, Binding::JsonRpc, "only there is a method a name");
        let reply = read_all(self.begin().await).await;
        Answer::read(self.wire, "GetTask", &self.id, self.describe(), reply)
    }

    /// Makes a streaming call. An error is returned as an answer.
    pub(crate) async fn open(&self) -> Result<Events, Box<Answer>> {
        let response = self.begin().await;
        if Events::begins(self.wire, &response) {
            return Ok(Events::new(self.wire, &self.id, self.describe(), response));
        }
        let reply = read_all(response).await;
        Err(Box::new(Answer::read(self.wire, &self.method, &self.id, self.describe(), reply)))
    }

    /// Makes a streaming call that must succeed.
    pub(crate) async fn stream(&self) -> Events {
        self.open().await.unwrap_or_else(|answer| panic!("no stream: {answer:?}"))
    }

    fn describe(&self) -> String {
        let params: String = self.params.to_string().chars().take(300).collect();
        format!("{} {} {params} {:?}", self.wire, self.method, self.headers)
    }

    async fn begin(&self) -> ::http::Response<hyper::body::Incoming> {
        let mut headers = self.headers.clone();
        if let Some(version) = &self.version {
            headers.push(("a2a-version".to_owned(), version.clone()));
        }
        let named = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        match self.wire {
            Binding::Grpc => {
                let mut params = self.params.clone();
                if let Some(agent) = &self.agent {
                    params["tenant"] = json!(agent);
                }
                grpc::call(&self.url, &self.method, &params, &headers).await
            }
            Binding::JsonRpc => {
                let params = self.text.clone().unwrap_or_else(|| self.params.to_string());
                let id = self.id.as_ref().map(|id| format!("\"id\":{id},")).unwrap_or_default();
                let body = format!(
                    "{{\"jsonrpc\":\"2.0\",{id}\"method\":{},\"params\":{params}}}",
                    Value::String(self.method.clone())
                );
                if !named("content-type") {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                let path = self.agent.as_ref().map_or("/".to_owned(), |agent| format!("/{agent}"));
                open(&self.url, "POST", &path, &headers, body).await
            }
            Binding::HttpJson => {
                let (verb, path, body) = http::route(&self.method, &self.params, self.agent.as_deref());
                let body = self.text.clone().or(body).unwrap_or_default();
                if !body.is_empty() && !named("content-type") {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                open(&self.url, verb, &path, &headers, body).await
            }
        }
    }
}

/// Checks JSON against the schema of a method's answer.
#[track_caller]
pub(crate) fn check_answer(method: &str, value: &Value) {
    schema::check(&schema::output(method), value, method);
}

/// Runs the same code over every binding at the same time.
pub(crate) async fn on_every_wire<F: Future<Output = ()>>(body: impl Fn(Binding) -> F) {
    futures::future::join_all(WIRES.map(body)).await;
}

/// Sends bytes to a gRPC path and returns the status of the answer.
pub(crate) async fn grpc_refusal(url: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Refusal {
    let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let reply = read_all(grpc::send(url, path, &headers, grpc::framed(body)).await).await;
    let ending = grpc::ending(&reply.trailers).or_else(|| grpc::ending(&reply.headers)).expect("a status");
    answer::of_ending(ending, path)
}

/// Sends messages to a gRPC path and returns the response before its body is read.
pub(crate) async fn grpc_open(url: &str, path: &str, messages: &[&[u8]]) -> ::http::Response<hyper::body::Incoming> {
    let body: Vec<u8> = messages.iter().flat_map(|message| grpc::framed(message)).collect();
    grpc::send(url, path, &[], body.into()).await
}
