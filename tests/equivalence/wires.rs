//! Sends a case over each binding and reads the answer.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prost::Message as _;
use prost_reflect::{DescriptorPool, Kind};
use serde::Deserialize;
use serde_json::{Value, json};
use tricord::schema;
use tricord_bindings::Binding;
use tricord_bindings::details::{Detail, Status};
use tricord_bindings::wkt::Empty;

use crate::answer::{Answer, Code};
use crate::case::Case;
use crate::protobuf;

/// All bindings, in the order in which a case is sent.
pub(crate) const WIRES: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];

/// The most levels in the JSON of a request.
const MAX_JSON_DEPTH: usize = 64;

/// The longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Agents that a path can name. Other names are only put into the message, because a path might mean something else.
const IN_PATHS: &[&str] = &["kit", "other", "strict", "still", "nope", "KIT"];
/// Words that begin other paths, so that a JSON-RPC endpoint cannot have them. No agent may have such a name.
const IN_LONG_PATHS: &[&str] = &["é", "a/b"];

/// Connections to a server, kept open.
pub(crate) struct Wires {
    http1: Client<HttpConnector, Full<Bytes>>,
    http2: Client<HttpConnector, Full<Bytes>>,
    url: String,
    pool: DescriptorPool,
}

impl Wires {
    pub(crate) fn new(url: &str) -> Self {
        let pool = DescriptorPool::decode(schema::DESCRIPTORS).expect("our descriptors");
        Self {
            http1: Client::builder(TokioExecutor::new()).build_http(),
            http2: Client::builder(TokioExecutor::new()).http2_only(true).build_http(),
            url: url.to_owned(),
            pool,
        }
    }

    /// Returns the request for a case with its placeholders replaced, or `None` if the binding cannot express it.
    pub(crate) fn request(&self, wire: Binding, case: &Case) -> Option<Request<Full<Bytes>>> {
        let mut request = match wire {
            Binding::JsonRpc => self.jsonrpc(case),
            Binding::HttpJson => self.http_json(case)?,
            Binding::Grpc => self.grpc(case)?,
        };
        for (name, value) in &case.headers {
            let bytes: Vec<u8> = value.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
            let name = http::HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(&bytes).ok()?);
        }
        Some(request)
    }

    /// Sends a request and reads the answer, or only the first event of an endless stream. An error is a fault of the
    /// binding.
    pub(crate) async fn send(
        &self,
        wire: Binding,
        case: &Case,
        request: Request<Full<Bytes>>,
        endless: bool,
    ) -> Result<Answer, String> {
        let client = if wire == Binding::Grpc { &self.http2 } else { &self.http1 };
        let answer = async {
            let response = client.request(request).await.map_err(|error| format!("{error:?}"))?;
            match wire {
                Binding::JsonRpc => read_jsonrpc(response, endless).await,
                Binding::HttpJson => read_http_json(response, endless).await,
                Binding::Grpc => read_grpc(case, response, endless).await,
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.map_err(|_| "no answer".to_owned())?
    }

    fn builder(&self, verb: &str, path_and_query: &str) -> http::request::Builder {
        Request::builder().method(verb).uri(format!("{}{path_and_query}", self.url))
    }

    fn jsonrpc(&self, case: &Case) -> Request<Full<Bytes>> {
        let mut params = case.params.clone();
        let scope = scope_of_path(case, &mut params, &[]);
        let query = version_query(case).map(|version| format!("?{version}")).unwrap_or_default();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": case.rpc, "params": params});
        let request = self.builder("POST", &format!("{}{query}", if scope.is_empty() { "/" } else { &scope }));
        request.header("content-type", "application/json").body(Full::from(body.to_string())).expect("a request")
    }

    fn http_json(&self, case: &Case) -> Option<Request<Full<Bytes>>> {
        let rpc = case.rpc();
        let mut params = case.params.clone();
        let mut path = scope_of_path(case, &mut params, IN_LONG_PATHS);
        let mut rest = rpc.path;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}')?;
            let value = params.as_object_mut()?.remove(name)?;
            path.push_str(before);
            path.push_str(&quote(value.as_str().filter(|value| !value.is_empty())?));
            rest = after;
        }
        path.push_str(rest);
        let verb = if rpc.name == "SubscribeToTask" && case.by_get { "GET" } else { rpc.verb };
        let mut query: Vec<String> = version_query(case).into_iter().collect();
        let body = if verb == "POST" {
            params.to_string()
        } else {
            self.query(rpc.request, &params, &mut query)?;
            String::new()
        };
        if !query.is_empty() {
            path.push('?');
            path.push_str(&query.join("&"));
        }
        let request = self.builder(verb, &path);
        let request = if verb == "POST" { request.header("content-type", "application/a2a+json") } else { request };
        Some(request.body(Full::from(body)).expect("a request"))
    }

    /// Returns the members as query parameters, if text can express them.
    fn query(&self, request: &str, params: &Value, query: &mut Vec<String>) -> Option<()> {
        let descriptor = self.pool.get_message_by_name(&format!("lf.a2a.v1.{request}"))?;
        for (name, value) in params.as_object()? {
            let field = descriptor.get_field_by_json_name(name).or_else(|| descriptor.get_field_by_name(name));
            if value.is_null()
                && field.as_ref().is_some_and(|field| name != field.name() && params.get(field.name()).is_some())
            {
                // A query cannot repeat a parameter without a value.
                return None;
            }
            let text: Cow<'_, str> = match (field.map(|field| field.kind()), value) {
                (Some(_), Value::Null) => continue,
                // A query cannot tell strings from booleans.
                (Some(Kind::String), Value::String(text)) => text.into(),
                (Some(Kind::String), _) | (Some(Kind::Bool), Value::String(_)) => return None,
                (Some(Kind::Enum(_)), Value::String(text)) if text.parse::<f64>().is_ok() => return None,
                (_, Value::String(text)) => text.into(),
                (_, Value::Bool(_) | Value::Number(_)) => value.to_string().into(),
                _ => return None,
            };
            query.push(format!("{}={}", quote(name), quote(&text)));
        }
        Some(())
    }

    fn grpc(&self, case: &Case) -> Option<Request<Full<Bytes>>> {
        // gRPC has no path and no query, and no limit on JSON nesting.
        if case.version_in_query.is_some()
            || case.second_tenant.is_some()
            || crate::nests(&case.params) > MAX_JSON_DEPTH
        {
            return None;
        }
        let message = protobuf::encode(&self.pool, case.rpc().request, &case.params)?;
        let mut frame = vec![0];
        frame.extend_from_slice(&u32::try_from(message.len()).ok()?.to_be_bytes());
        frame.extend_from_slice(&message);
        let request = self.builder("POST", &format!("/lf.a2a.v1.A2AService/{}", case.rpc));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        Some(request.body(Full::from(frame)).expect("a request"))
    }
}

/// Returns the path with the tenant in it, and removes the tenant from the message.
fn scope_of_path(case: &Case, params: &mut Value, more: &[&str]) -> String {
    if let Some(second) = &case.second_tenant {
        return format!("/{}", quote(second));
    }
    let named = params.get("tenant").and_then(Value::as_str);
    let named = named.filter(|name| IN_PATHS.contains(name) || more.contains(name));
    match named.map(quote) {
        Some(name) if case.tenant_in_path => {
            params.as_object_mut().map(|params| params.remove("tenant"));
            format!("/{name}")
        }
        _ => String::new(),
    }
}

fn version_query(case: &Case) -> Option<String> {
    case.version_in_query.as_ref().map(|version| format!("A2A-Version={}", quote(version)))
}

/// Encodes text for a path or query: every byte but letters and digits as `%XX`.
fn quote(text: &str) -> String {
    let byte =
        |byte| if u8::is_ascii_alphanumeric(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

/// Reads a body, or only its first event.
async fn collect(response: Response<Incoming>, endless: bool) -> Result<(http::response::Parts, Bytes), String> {
    let (mut head, mut body) = response.into_parts();
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the answer broke off: {error:?}"))?;
        match frame.into_data() {
            Ok(data) => all.extend_from_slice(&data),
            Err(frame) => head.headers.extend(frame.into_trailers().unwrap_or_default()),
        }
        if endless && !all.is_empty() {
            break;
        }
    }
    Ok((head, all.into()))
}

fn header<'a>(head: &'a http::response::Parts, name: &str) -> &'a str {
    head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn documents(head: &http::response::Parts, body: &Bytes, endless: bool) -> Result<Vec<Value>, String> {
    let parse = |text: &[u8]| {
        serde_json::from_slice(text).map_err(|error| format!("{error}: {:?}", String::from_utf8_lossy(text)))
    };
    if header(head, "content-type") != "text/event-stream" {
        return Ok(vec![parse(body)?]);
    }
    let lines = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
    lines.take(if endless { 1 } else { usize::MAX }).map(parse).collect()
}

fn accepted(head: &http::response::Parts, events: Vec<Value>) -> Answer {
    Answer::Accepted { events, extensions: header(head, "a2a-extensions").to_owned() }
}

fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap_or_default()
}

fn details(json: &Value) -> Result<Vec<Detail>, String> {
    Vec::<Detail>::deserialize(json).map_err(|error| format!("{error}: {json}"))
}

async fn read_jsonrpc(response: Response<Incoming>, endless: bool) -> Result<Answer, String> {
    let (head, body) = collect(response, endless).await?;
    let mut events = Vec::new();
    for mut document in documents(&head, &body, endless)? {
        if document["jsonrpc"] != "2.0" || document["id"] != 1 {
            return Err(format!("no answer to this request: {document}"));
        }
        if let Some(error) = document.get("error") {
            let code = error["code"].as_i64().unwrap_or_default();
            if head.status != 200 && code != -32600 {
                return Err(format!("{} for {error}", head.status));
            }
            return Answer::refused(Code::JsonRpc(code), message(error), &details(&error["data"])?);
        }
        events.push(document["result"].take());
    }
    Ok(accepted(&head, events))
}

async fn read_http_json(response: Response<Incoming>, endless: bool) -> Result<Answer, String> {
    let (head, body) = collect(response, endless).await?;
    let documents = documents(&head, &body, endless)?;
    match documents.first().and_then(|document| document.get("error")) {
        Some(error) => {
            if error["code"] != head.status.as_u16() {
                return Err(format!("{} for {error}", head.status));
            }
            Answer::refused(Code::Http(head.status.as_u16()), message(error), &details(&error["details"])?)
        }
        None if head.status == 200 => Ok(accepted(&head, documents)),
        None => Err(format!("{}: {documents:?}", head.status)),
    }
}

async fn read_grpc(case: &Case, response: Response<Incoming>, endless: bool) -> Result<Answer, String> {
    let (head, body) = collect(response, endless).await?;
    let mut rest = &body[..];
    let mut events = Vec::new();
    while let Some((start, more)) = rest.split_at_checked(5) {
        let length = u32::from_be_bytes([start[1], start[2], start[3], start[4]]) as usize;
        let Some((message, more)) = more.split_at_checked(length) else { break };
        events.push(print(&case.rpc, message).map_err(|error| format!("{error}: {message:?}"))?);
        rest = more;
        if endless {
            return Ok(accepted(&head, events));
        }
    }
    match header(&head, "grpc-status").parse() {
        Ok(0) => Ok(accepted(&head, events)),
        Ok(code) => {
            let status = header(&head, "grpc-status-details-bin").trim_end_matches('=');
            let status = base64_simd::STANDARD_NO_PAD.decode_to_vec(status).map_err(|error| error.to_string())?;
            let status = Status::decode(status.as_slice()).map_err(|error| error.to_string())?;
            if i64::from(status.code) != code || header(&head, "grpc-message").is_empty() {
                return Err(format!("status {code} with {status:?} and {:?}", header(&head, "grpc-message")));
            }
            Answer::refused(Code::Grpc(code), &status.message, &status.unpack())
                .map_err(|error| format!("{error}: {}", header(&head, "grpc-message")))
        }
        Err(_) => Err(format!("no grpc-status: {head:?}")),
    }
}

/// Converts a protobuf answer to JSON.
fn print(rpc: &str, protobuf: &[u8]) -> Result<Value, String> {
    fn of<M: prost::Message + Default + serde::Serialize>(protobuf: &[u8]) -> Result<Value, String> {
        let message = M::decode(protobuf).map_err(|error| error.to_string())?;
        serde_json::to_value(&message).map_err(|error| error.to_string())
    }
    match rpc {
        "SendMessage" => of::<schema::SendMessageResponse>(protobuf),
        "SendStreamingMessage" | "SubscribeToTask" => of::<schema::StreamResponse>(protobuf),
        "GetTask" | "CancelTask" => of::<schema::Task>(protobuf),
        "ListTasks" => of::<schema::ListTasksResponse>(protobuf),
        "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig" => {
            of::<schema::TaskPushNotificationConfig>(protobuf)
        }
        "ListTaskPushNotificationConfigs" => of::<schema::ListTaskPushNotificationConfigsResponse>(protobuf),
        "GetExtendedAgentCard" => of::<schema::AgentCard>(protobuf),
        _ => of::<Empty>(protobuf),
    }
}
