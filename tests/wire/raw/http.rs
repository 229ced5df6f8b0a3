//! HTTP as bytes: one connection for each request, without retries and without following redirects.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// The time limit of an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// Returns a header as text, or an empty text without it.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the body as text, even if it is not UTF-8.
    pub(crate) fn text_lossy(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Returns the address in a server's URL, without the base path.
pub(crate) fn authority(url: &str) -> &str {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap()
}

/// A plain connection.
pub(crate) async fn connect(url: &str) -> TcpStream {
    TcpStream::connect(authority(url)).await.unwrap()
}

/// Sends one request with exactly these headers: no version and no media type are added.
pub(crate) async fn http(url: &str, verb: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
    let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    read_all(open(url, verb, path, &headers, body).await).await
}

/// Sends one request and returns the answer before its body is read.
pub(crate) async fn open(
    url: &str,
    verb: &str,
    path: &str,
    headers: &[(String, String)],
    body: impl Into<Bytes>,
) -> Response<Incoming> {
    let io = TokioIo::new(connect(url).await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(verb).uri(path).header("host", authority(url));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = sender.send_request(request.body(Full::new(body.into())).unwrap());
    tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time").unwrap()
}

/// Reads an answer to its end.
pub(crate) async fn read_all(response: Response<Incoming>) -> Reply {
    let (head, body) = response.into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("the whole answer in time").unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    Reply { status: head.status.as_u16(), headers: head.headers, trailers, body: body.to_bytes() }
}

/// Returns verb, path and body of a method with these parameters.
pub(crate) fn route(method: &str, params: &Value, agent: Option<&str>) -> (&'static str, String, Option<String>) {
    let (verb, template) = match method {
        "SendMessage" => ("POST", "/message:send"),
        "SendStreamingMessage" => ("POST", "/message:stream"),
        "GetTask" => ("GET", "/tasks/{id}"),
        "ListTasks" => ("GET", "/tasks"),
        "CancelTask" => ("POST", "/tasks/{id}:cancel"),
        "SubscribeToTask" => ("GET", "/tasks/{id}:subscribe"),
        "CreateTaskPushNotificationConfig" => ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
        "GetTaskPushNotificationConfig" => ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "ListTaskPushNotificationConfigs" => ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
        "DeleteTaskPushNotificationConfig" => ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "GetExtendedAgentCard" => ("GET", "/extendedAgentCard"),
        other => panic!("no route for {other}"),
    };
    let mut params = params.as_object().cloned().unwrap_or_default();
    let mut path = template.to_owned();
    for name in ["id", "taskId"] {
        let place = format!("{{{name}}}");
        if path.contains(&place) {
            let value = params.remove(name).unwrap_or_default();
            path = path.replace(&place, value.as_str().unwrap_or_default());
        }
    }
    let tenant = params.remove("tenant").and_then(|tenant| tenant.as_str().map(str::to_owned));
    if let Some(tenant) = agent.map(str::to_owned).or(tenant).filter(|tenant| !tenant.is_empty()) {
        path = format!("/{tenant}{path}");
    }
    if verb == "POST" {
        return (verb, path, Some(Value::Object(params).to_string()));
    }
    let mut query = form_encoded(&params);
    if !query.is_empty() {
        query.insert(0, '?');
    }
    (verb, path + &query, None)
}

fn form_encoded(params: &serde_json::Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let quote = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte.into()),
                _ => out.push_str(&format!("%{byte:02X}")),
            }
            out
        })
    };
    params.iter().map(|(name, value)| format!("{name}={}", quote(&text(value)))).collect::<Vec<_>>().join("&")
}
