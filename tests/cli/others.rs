//! The command line against an agent that other people's library serves.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::commands::run;

/// An agent of the official Python library; it is ended when dropped.
struct Other {
    child: Child,
    url: String,
}

impl Other {
    fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = root.join("target/venv/bin/python");
        assert!(python.exists(), "{} is missing: run scripts/setup first", python.display());
        let script = root.join("tests/interop/agent_server.py");
        let mut child = Command::new(python).arg(script).stdout(Stdio::piped()).spawn().expect("Python starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(!url.is_empty(), "the agent ended before it was ready");
        Self { child, url: url.trim().to_owned() }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn agents_of_the_python_library_are_called_on_every_wire() {
    let other = Other::start();
    for wire in ["grpc", "jsonrpc", "http"] {
        let call = |args: &[&str]| run(&[args, &["--url", &other.url, "--binding", wire, "--timeout", "30s"]].concat());
        let expect = |args: &[&str], code: i32, out: &str, err: &str| {
            let ran = call(args);
            assert_eq!((ran.code, ran.out.as_str()), (code, out), "{wire} {args:?}: {}", ran.err);
            assert!(ran.err.contains(err), "{wire} {args:?}: {}", ran.err);
        };
        expect(&["send", "hello", "you"], 0, "hello you \n", "completed");
        expect(&["stream", "one", "two", "three"], 0, "one two three \n", "working");
        expect(&["send", "ask"], 5, "which?\n", "input-required");
        expect(&["get", "none"], 3, "", "TASK_NOT_FOUND");
        expect(&["send", "--task", "none", "x"], 3, "", "TASK_NOT_FOUND");
        let sent: Value =
            serde_json::from_str(&call(&["send", "--return-immediately", "--json", "slow", "and", "steady"]).out)
                .unwrap();
        let id = sent["task"]["id"].as_str().expect("a task");
        expect(&["subscribe", id], 0, "slow and steady \n", "completed");
        expect(&["cancel", id], 3, "", "TASK_NOT_CANCELABLE");
        assert!(call(&["list", "--state", "completed"]).out.contains(id), "{wire}");
    }
}
