//! A server of one request per connection that answers what the test says, to the byte.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// `POST /message:send`
    pub(crate) line: String,
    /// In lower case, with their values: `accept: text/event-stream`.
    pub(crate) headers: Vec<String>,
    /// The body as JSON; null if there is none.
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// The peer; it listens until the test process ends.
pub(crate) struct Peer {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Peer {
    /// Answers with a card of these interfaces (binding and path), and other requests by `answer`, which gets the
    /// request and how many came before it.
    pub(crate) fn new(interfaces: &[(&str, &str)], answer: impl Fn(&Seen, usize) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let card = card(&url, interfaces);
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut BufReader::new(stream.try_clone().unwrap())) else { continue };
                let reply = if request.line == "GET /.well-known/agent-card.json" {
                    json_answer(200, &card)
                } else {
                    let before = log.lock().unwrap().len();
                    let reply = answer(&request, before);
                    log.lock().unwrap().push(request);
                    reply
                };
                // A client that has gone is what some tests are about.
                let _ = stream.write_all(reply.as_bytes());
            }
        });
        Self { url, seen }
    }

    /// A peer with an HTTP+JSON interface.
    pub(crate) fn http(answer: impl Fn(&Seen, usize) -> String + Send + 'static) -> Self {
        Self::new(&[("HTTP+JSON", "")], answer)
    }

    /// What came so far, the card aside.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn card(url: &str, interfaces: &[(&str, &str)]) -> Value {
    let interface = |(binding, path): &(&str, &str)| {
        let url =
            if *binding == "GRPC" { url.trim_start_matches("http://").to_owned() } else { format!("{url}{path}") };
        json!({"url": url, "protocolBinding": binding, "protocolVersion": "1.0"})
    };
    json!({
        "name": "Peer", "description": "Plays a script", "version": "1",
        "supportedInterfaces": interfaces.iter().map(interface).collect::<Vec<_>>(),
        "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
    })
}

fn read(reader: &mut impl BufRead) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let first = lines.remove(0);
    let headers: Vec<String> = lines
        .into_iter()
        .map(|line| match line.split_once(": ") {
            Some((name, value)) => format!("{}: {value}", name.to_ascii_lowercase()),
            None => line,
        })
        .collect();
    let length =
        headers.iter().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = first.trim_end_matches(" HTTP/1.1").to_owned();
    Some(Seen { line, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}

/// A whole answer.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

pub(crate) fn json_answer(status: u16, body: &Value) -> String {
    answer(status, "content-type: application/json\r\n", &body.to_string())
}

/// An error in the shape of HTTP+JSON.
pub(crate) fn error_answer(status: u16, reason: &str, message: &str) -> String {
    json_answer(status, &error(status, reason, message))
}

pub(crate) fn error(status: u16, reason: &str, message: &str) -> Value {
    let info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org",
    });
    json!({"error": {"code": status, "status": "X", "message": message, "details": [info]}})
}

/// A stream of events that ends as it should.
pub(crate) fn events(events: &[String]) -> String {
    format!("{}0\r\n\r\n", cut_events(events))
}

/// A stream of events whose connection breaks after them.
pub(crate) fn cut_events(events: &[String]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = events.iter().map(|event| format!("{:x}\r\n{event}\r\n", event.len()));
    head.to_owned() + &chunks.collect::<String>()
}

/// One event with its id.
pub(crate) fn event(id: &str, data: &Value) -> String {
    format!("id: {id}\ndata: {data}\n\n: ping\n")
}

pub(crate) fn task(state: &str, artifact: &str) -> Value {
    let artifacts = if artifact.is_empty() { json!([]) } else { json!([artifact_of(artifact)]) };
    json!({"id": "t1", "contextId": "c1", "status": {"state": state}, "artifacts": artifacts})
}

pub(crate) fn task_event(state: &str, artifact: &str) -> Value {
    json!({"task": task(state, artifact)})
}

pub(crate) fn piece(text: &str, append: bool) -> Value {
    json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "artifact": artifact_of(text), "append": append}})
}

pub(crate) fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": state}}})
}

fn artifact_of(text: &str) -> Value {
    json!({"artifactId": "a", "parts": [{"text": text}]})
}
