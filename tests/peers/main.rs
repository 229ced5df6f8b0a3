//! The official clients of other languages, unchanged, against the real binary: one test for each client and binding.
//! Their scripts are `python_client.py` and `js_client.mjs` in `tests/interop`.

#[allow(dead_code, unreachable_pub, reason = "shared with the tests of the wire")]
#[path = "../wire/support.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::Server;

const AGENTS: &str = r#"
[[agents]]
name = "kit"
kind = "conformance"

[[agents]]
name = "other"
kind = "echo"

[[agents]]
name = "strict"
kind = "conformance"

[[agents.card.extensions]]
uri = "https://example.com/extensions/strict"
description = "Every caller has to name it"
required = true
"#;

/// The server of most scenarios, one that pings after 300 ms without events, and one that never pings.
struct Servers {
    usual: Server,
    brisk: Server,
    mute: Server,
}

impl Servers {
    fn start() -> Self {
        let pinging = |every: &str| {
            let server = format!("[server]\nping_interval = \"{every}\"\n");
            Server::start(&format!("{server}[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n"))
        };
        Self { usual: Server::start(AGENTS), brisk: pinging("300ms"), mute: pinging("0") }
    }

    /// Runs all scenarios of a script over one binding. A failure includes the script's output.
    fn passes(&self, program: &str, script: &str, wire: &str) {
        let output = Command::new(program_of_setup(program))
            .arg(root().join("tests/interop").join(script))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args([wire, &self.usual.url, &self.usual.admin, &self.brisk.url, &self.mute.url])
            .output()
            .expect("the script starts");
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script} over {wire}:\n{said}{errors}");
        let passed = said.lines().filter(|line| line.starts_with("ok ")).count();
        assert!(passed > 30, "{script} over {wire} ran {passed} scenarios only:\n{said}{errors}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the interpreter, after checking that the libraries of its scripts are installed.
fn program_of_setup(program: &str) -> PathBuf {
    let (program, needed) = match program {
        "python" => (root().join("target/venv/bin/python"), root().join("target/venv/bin/python")),
        program => (PathBuf::from(program), root().join("target/node/node_modules/@a2a-js/sdk/package.json")),
    };
    assert!(needed.exists(), "{} is missing: run scripts/setup first", needed.display());
    program
}

fn python(wire: &str) {
    Servers::start().passes("python", "python_client.py", wire);
}

fn js(wire: &str) {
    Servers::start().passes("node", "js_client.mjs", wire);
}

#[test]
fn the_python_client_over_jsonrpc() {
    python("JSONRPC");
}

#[test]
fn the_python_client_over_http_json() {
    python("HTTP+JSON");
}

#[test]
fn the_python_client_over_grpc() {
    python("GRPC");
}

#[test]
fn the_js_client_over_jsonrpc() {
    js("JSONRPC");
}

#[test]
fn the_js_client_over_http_json() {
    js("HTTP+JSON");
}

#[test]
fn the_js_client_over_grpc() {
    js("GRPC");
}

/// Lets the agent of a framework call a server, whose card leaves out the GRPC interface as google-adk needs it: it gets a
/// question, answers it once, and sees the end.
fn framework_passes(program: &str, script: &str, arguments: &[&str]) {
    let program = if program.contains('/') { root().join(program) } else { PathBuf::from(program) };
    let server = Server::start(
        "[server]\nadvertise = [\"JSONRPC\", \"HTTP+JSON\"]\n[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n",
    );
    let output = Command::new(&program)
        .arg(root().join("tests/interop").join(script))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(arguments)
        .arg(&server.url)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}: run scripts/setup first", program.display()));
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("ok "), "{script} {arguments:?}:\n{said}{errors}");
}

#[test]
fn google_adk_asks_its_user_once() {
    framework_passes("target/frameworks/bin/python", "frameworks.py", &["google-adk"]);
}

#[test]
fn microsofts_agent_framework_asks_its_user_once() {
    framework_passes("target/frameworks/bin/python", "frameworks.py", &["agent-framework"]);
}

#[test]
fn mastra_asks_its_user_once() {
    framework_passes("node", "mastra.mjs", &[]);
}
