//! The command line against a real server: every command on every wire, a server that dies under a stream, a command as
//! agent, TLS, the store's file.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::commands::{Ran, command, run};

/// A running server; it is killed when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts `tricord serve` in a directory and waits until it says where it is.
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tricord"))
            .arg("serve")
            .args(args)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(dir.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("the server ended before it was ready").unwrap();
            if let Some(rest) = line.trim_start().strip_prefix("card") {
                break rest.trim().trim_end_matches("/.well-known/agent-card.json").to_owned();
            }
        };
        // Read on, so that the server never writes into a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const KIT: [&str; 2] = ["--agent-kind", "conformance"];

fn task_id(ran: &Ran) -> &str {
    let line = ran.err.lines().find_map(|line| line.strip_prefix("task ")).expect("a line that names the task");
    line.split(' ').next().unwrap()
}

#[test]
fn every_command_works_on_every_wire() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path(), &[&KIT[..], &["--listen", "127.0.0.1:0"]].concat());
    for wire in ["grpc", "jsonrpc", "http"] {
        let call = |args: &[&str]| run(&[args, &["--url", &server.url, "--binding", wire]].concat());
        let expect = |args: &[&str], code: i32, out: &str| {
            let ran = call(args);
            assert_eq!((ran.code, ran.out.as_str()), (code, out), "{wire} {args:?}: {}", ran.err);
            ran
        };
        let sent = expect(&["send", "echo", "hi"], 0, "hi\n");
        let id = task_id(&sent);
        let got: Value = serde_json::from_str(&call(&["get", id, "--json"]).out).unwrap();
        assert_eq!(got["status"]["state"], "TASK_STATE_COMPLETED");
        let refused = expect(&["cancel", id], 3, "");
        assert!(
            refused.err.contains("TASK_NOT_CANCELABLE") && refused.err.contains("already ended"),
            "{}",
            refused.err
        );

        expect(&["stream", "--message-id", "tck-stream-chunked-1", "go"], 0, "chunk-1 chunk-2\n");
        expect(&["send", "fail"], 1, "");
        expect(&["send", "reject"], 1, "");
        expect(&["send", "msg", "hello"], 0, "hello\n");
        let asked = call(&["send", "ask"]);
        assert_eq!(asked.code, 5, "{wire}: {}", asked.err);
        assert!(!asked.out.is_empty());
        let id = task_id(&asked);
        assert_eq!(call(&["send", "--task", id, "an answer"]).code, 0);
        assert!(call(&["list", "--state", "completed"]).out.contains(id));

        let slow = call(&["send", "--return-immediately", "slow", "30"]);
        let id = task_id(&slow);
        let canceled = call(&["cancel", id]);
        assert_eq!((canceled.code, canceled.err.ends_with("canceled\n")), (0, true), "{wire}: {}", canceled.err);
        let ended = call(&["subscribe", id]);
        assert_eq!((ended.code, ended.err.contains("UNSUPPORTED_OPERATION")), (3, true), "{wire}: {}", ended.err);
        assert_eq!(call(&["get", "none"]).code, 3);
        assert_eq!(call(&["send", "slow 30", "--timeout", "200ms"]).code, 4);
    }
}

#[test]
fn a_stream_goes_on_when_the_server_was_killed_and_started_again() {
    for wire in ["grpc", "jsonrpc", "http"] {
        let dir = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let args = [&KIT[..], &["--listen", &listen]].concat();
        let mut server = Server::start(dir.path(), &args);
        let mut client = command(&["stream", "--url", &server.url, "--binding", wire, "slow 60"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut notes = BufReader::new(client.stderr.take().unwrap());
        let mut line = String::new();
        while line != "working\n" {
            line.clear();
            assert_ne!(notes.read_line(&mut line).unwrap(), 0, "{wire}: it ended before the task worked");
        }
        server.kill();
        let _second = Server::start(dir.path(), &args);
        let mut rest = String::new();
        notes.read_to_string(&mut rest).unwrap();
        // The server's own rule: a run that a crash cut off fails.
        assert!(rest.starts_with("failed: "), "{wire}: {rest}");
        assert_eq!(client.wait().unwrap().code(), Some(1), "{wire}");
    }
}

#[test]
fn a_command_is_served_as_agent() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path(), &["--exec", "tr a-z A-Z", "--store", "memory:", "--listen", "127.0.0.1:0"]);
    let ran = run(&["send", "--url", &server.url, "hello"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "HELLO\n"), "{}", ran.err);
}

#[test]
fn calls_are_logged_if_the_access_log_is_on() {
    for (access, lines) in [("true", 2), ("false", 0)] {
        let dir = TempDir::new().unwrap();
        let file = format!("[log]\naccess = {access}\nformat = 'json'\n[store]\nurl = 'memory:'\n");
        std::fs::write(dir.path().join("t.toml"), file).unwrap();
        let mut server = Server::start(dir.path(), &["--config", "t.toml", "--listen", "127.0.0.1:0"]);
        assert_eq!(run(&["send", "--url", &server.url, "--binding", "grpc", "hello"]).code, 0);
        assert_eq!(run(&["get", "--url", &server.url, "--binding", "http", "none"]).code, 3);
        // A server that stops in order writes its last lines.
        let pid = rustix::process::Pid::from_raw(server.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        server.child.wait().unwrap();
        let log = std::fs::read_to_string(dir.path().join("stderr")).unwrap();
        let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let calls: Vec<_> = log.iter().filter(|line| line["target"] == "access").collect();
        assert_eq!(calls.len(), lines, "{log:?}");
        if let [sent, got] = calls.as_slice() {
            assert_eq!((&sent["rpc"], &sent["binding"]), (&"SendMessage".into(), &"grpc".into()));
            assert_eq!((&sent["code"], &got["code"]), (&"OK".into(), &"TASK_NOT_FOUND".into()));
            assert_eq!((&sent["agent"], &sent["state"]), (&"echo".into(), &"TASK_STATE_COMPLETED".into()));
            assert!(sent["ms"].as_f64().unwrap() > 0.0 && sent["task"].as_str().unwrap().len() == 36, "{sent}");
            assert_eq!(got["task"], "none");
        }
    }
}

#[test]
fn a_configuration_that_cannot_be_served_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let ran = run(&["serve", "--store", "memory:", "--listen", &listen]);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains(&listen), "{}", ran.err);
    let ran = run(&["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--exec", "/does/not/exist"]);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("/does/not/exist"), "{}", ran.err);
}

#[test]
fn tls_is_spoken_on_every_wire_and_strangers_are_refused() {
    let dir = TempDir::new().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = "[server.tls]\ncert = 'cert.pem'\nkey = 'key.pem'\n[store]\nurl = 'memory:'\n";
    std::fs::write(dir.path().join("t.toml"), file).unwrap();
    let listen = format!("127.0.0.1:{port}");
    let url = format!("https://localhost:{port}");
    let _server = Server::start(dir.path(), &["--config", "t.toml", "--listen", &listen, "--public-url", &url]);
    for wire in ["grpc", "jsonrpc", "http"] {
        let mut trusting = command(&["send", "--url", &url, "--binding", wire, "hello"]);
        let output = trusting.env("SSL_CERT_FILE", dir.path().join("cert.pem")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n", "{wire}: {output:?}");
    }
    let ran = run(&["send", "--url", &url, "hello"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("certificate"), "{}", ran.err);
}

#[test]
fn the_stores_file_is_looked_after() {
    let dir = TempDir::new().unwrap();
    let mut server = Server::start(dir.path(), &["--listen", "127.0.0.1:0"]);
    assert_eq!(run(&["send", "--url", &server.url, "hello"]).code, 0);
    let url = format!("sqlite:{}", dir.path().join("tricord.db").display());
    let copy = dir.path().join("copy.db");
    let store = |args: &[&str]| run(&[&["store", "--store", &url][..], args].concat());

    let stats: Value = serde_json::from_str(&store(&["stats", "--json"]).out).unwrap();
    assert_eq!(stats["tasks"], serde_json::json!({"completed": 1}));
    let checked = store(&["check"]);
    assert!(checked.code == 0 && checked.out.starts_with("1 tasks, "), "{}{}", checked.out, checked.err);
    assert_eq!(store(&["backup", copy.to_str().unwrap()]).code, 0);
    let again = store(&["backup", copy.to_str().unwrap()]);
    assert_eq!((again.code, again.err.is_empty()), (2, false));
    let busy = store(&["restored"]);
    assert!(busy.code == 2 && busy.err.contains("open"), "{}", busy.err);

    server.kill();
    assert_eq!(store(&["restored"]).code, 0);
    let later: Value = serde_json::from_str(&store(&["stats", "--json"]).out).unwrap();
    assert_eq!(later["generation"], stats["generation"].as_u64().unwrap() + 1);
}
