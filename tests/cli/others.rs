//! The command line against an agent that other people's library serves.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::commands::run;

/// An agent of an official library; it is ended when dropped.
struct Other {
    child: Child,
    url: String,
}

impl Other {
    /// Runs a script of `tests/interop`, once what it needs is there.
    fn start(program: &Path, needed: &str, script: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let needed = root.join("target").join(needed);
        assert!(needed.exists(), "{} is missing: run scripts/setup first", needed.display());
        let script = root.join("tests/interop").join(script);
        let mut child = Command::new(program).arg(script).stdout(Stdio::piped()).spawn().expect("the script starts");
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
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/venv/bin/python");
    is_called_on_every_wire(&Other::start(&python, "venv/bin/python", "agent_server.py"));
}

#[test]
fn agents_of_the_js_library_are_called_on_every_wire() {
    is_called_on_every_wire(&Other::start(Path::new("node"), "node/node_modules/@a2a-js/sdk", "agent_server.mjs"));
}

fn is_called_on_every_wire(other: &Other) {
    for wire in ["grpc", "jsonrpc", "http"] {
        let call = |args: &[&str]| run(&[args, &["--url", &other.url, "--binding", wire, "--timeout", "30s"]].concat());
        let expect = |args: &[&str], code: i32, out: &str, err: &str| {
            let ran = call(args);
            assert_eq!((ran.code, ran.out.as_str()), (code, out), "{wire} {args:?}: {}", ran.err);
            assert!(ran.err.contains(err), "{wire} {args:?}: {}", ran.err);
        };
        let task = |args: &[&str]| {
            let ran = call(&[args, &["--json"]].concat());
            let sent: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{wire} {args:?}: {}", ran.err));
            sent["task"]["id"].as_str().expect("a task").to_owned()
        };
        expect(&["send", "hello", "you"], 0, "hello you \n", "completed");
        expect(&["stream", "one", "two", "three"], 0, "one two three \n", "working");
        expect(&["send", "say", "hi"], 0, "hi\n", "");
        expect(&["stream", "say", "hi"], 0, "hi\n", "");
        expect(&["send", "ask"], 5, "which?\n", "input-required");
        let asked = task(&["send", "ask"]);
        expect(&["stream", "--task", &asked, "the", "blue", "one"], 0, "the blue one \n", "completed");
        expect(&["get", "none"], 3, "", "TASK_NOT_FOUND");
        expect(&["send", "--task", "none", "x"], 3, "", "TASK_NOT_FOUND");
        let id = task(&["send", "--return-immediately", "slow", "and", "steady"]);
        expect(&["subscribe", &id], 0, "slow and steady \n", "completed");
        expect(&["cancel", &id], 3, "", "TASK_NOT_CANCELABLE");
        expect(&["subscribe", &id], 3, "", "UNSUPPORTED_OPERATION");
        assert!(call(&["list", "--state", "completed"]).out.contains(&id), "{wire}");
        let long = format!("slow {}", "word ".repeat(100));
        let id = task(&["send", "--return-immediately", &long]);
        let canceled = call(&["cancel", &id]);
        assert_eq!((canceled.code, canceled.err.ends_with("canceled\n")), (0, true), "{wire}: {}", canceled.err);
    }
}
