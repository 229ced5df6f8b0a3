//! Runs scripts in Python and JavaScript, which use libraries of others for the same protocol.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a script of `tests/interop` with Python or Node, depending on its extension, and returns its output.
pub(crate) fn run(script: &str, input: &[u8]) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (program, modules) = match script.ends_with(".py") {
        true => (root.join("target/venv/bin/python"), root.join("target/venv")),
        false => ("node".into(), root.join("target/node/node_modules")),
    };
    assert!(modules.exists(), "{} is missing: run scripts/setup first", modules.display());
    let mut child = Command::new(&program)
        .arg(root.join("tests/interop").join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the script starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input = input.to_owned();
    // The script may write before it has read everything, so input and output have to proceed together.
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the script ends");
    let fed = feeder.join().expect("the feeder does not panic");
    assert!(output.status.success(), "{script} failed ({fed:?}):\n{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
