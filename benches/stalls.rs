//! How long small calls wait while large ones are worked on: `cargo bench --bench stalls`.
//!
//! A server runs as a child process. One client reads a small task repeatedly: first alone, then beside eight clients that
//! send messages of 10 MiB with 200,000 keys, then beside eight that read a task of 40 MiB. The eight have a low priority,
//! because all of this shares the machine's processors.

#![allow(clippy::print_stdout)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CONFIG: &str = "[store]\nurl = \"memory:\"\n[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n";

/// How long each measurement takes.
const TIME: Duration = Duration::from_secs(10);

fn main() {
    let (server, address) = start();
    let small = send(&address, r#"{"text":"echo small"}"#);
    let large = send(&address, &format!(r#"{{"text":"chunks 40"}},{{"text":"{}"}}"#, "x".repeat(1 << 20)));
    println!("p50 and p99 of a small GetTask over HTTP+JSON, in ms");
    report("alone", &address, &small, None);
    let keys: Vec<_> = (0..200_000).map(|n| format!("\"{n:040}\":{n}")).collect();
    let message = format!(r#"{{"text":"echo large"}},{{"data":{{{}}}}}"#, keys.join(","));
    report("beside 8 clients that send 10 MiB", &address, &small, Some(post(&message)));
    let read = format!("GET /tasks/{large} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\n\r\n");
    report("beside 8 clients that read 40 MiB", &address, &small, Some(read.into_bytes()));
    drop(server);
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> (Server, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("tricord.toml");
    std::fs::write(&config, CONFIG).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tricord"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .env("TMPDIR", dir.path())
        .env("TRICORD_LOG__ACCESS", "false")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.trim_start().strip_prefix("listen")?.trim().to_owned()));
    std::thread::spawn(move || {
        lines.for_each(drop);
        drop(dir);
    });
    (Server(child), address.expect("the server tells where it listens"))
}

fn post(parts: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{parts}]}},"configuration":{{"historyLength":0}}}}"#
    );
    let head = format!(
        "POST /message:send HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// Sends a message and returns the id of its task.
fn send(address: &str, parts: &str) -> String {
    let mut peer = Peer::connect(address);
    let (status, body) = peer.ask(&post(parts));
    let answer: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(status, 200, "{answer}");
    answer["task"]["id"].as_str().expect("a task").to_owned()
}

/// Measures small calls, beside eight clients that send these requests.
fn report(what: &str, address: &str, task: &str, others: Option<Vec<u8>>) {
    let (stop, answered, refused) = <(Arc<AtomicBool>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let others = others.map(Arc::new);
    let threads: Vec<_> = others
        .into_iter()
        .flat_map(|request| std::iter::repeat_n(request, 8))
        .map(|request| {
            let (address, stop) = (address.to_owned(), stop.clone());
            let (answered, refused) = (answered.clone(), refused.clone());
            std::thread::spawn(move || {
                // They are on the server's processors. What they take there is not what is measured.
                let _ = rustix::process::nice(19);
                let mut peer = Peer::connect(&address);
                while !stop.load(Ordering::Relaxed) {
                    let (status, _) = peer.ask(&request);
                    if status == 200 { &answered } else { &refused }.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let small = format!("GET /tasks/{task} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\n\r\n").into_bytes();
    let mut peer = Peer::connect(address);
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < TIME {
        let asked = Instant::now();
        let (status, _) = peer.ask(&small);
        assert_eq!(status, 200);
        times.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a client"));
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let (answered, refused) = (answered.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    println!(
        "{what:36} {:7.2} {:7.2}   most {:7.2}   ({} calls; large ones: {answered} answered, {refused} refused)",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}

/// A connection that asks one thing after the other.
struct Peer(BufReader<TcpStream>);

impl Peer {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("an option of the socket");
        Self(BufReader::new(stream))
    }

    /// Returns the status and the body of the answer, which has a length.
    fn ask(&mut self, request: &[u8]) -> (u16, Vec<u8>) {
        self.0.get_mut().write_all(request).expect("the request is taken");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut length = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).expect("a header");
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("the body");
        (status, body)
    }
}
