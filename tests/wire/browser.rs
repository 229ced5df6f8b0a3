//! Pages of another origin in a real browser. `tests/interop/browser.mjs` has their script and expectations.

use std::path::Path;
use std::process::Command;

use crate::support::{Server, free_port};

#[test]
fn s21_a_page_can_call_and_stream_only_from_an_allowed_origin() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(root.join("target/node/node_modules/playwright-core").exists(), "run scripts/setup first");
    let port = free_port();
    let server = Server::start(&format!(
        "[server]\ncors_origins = [\"http://127.0.0.1:{port}\"]\n[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n\
         [[agents.card.extensions]]\nuri = \"https://example.com/extensions/mood\"\n"
    ));
    let ran = Command::new("node")
        .arg(root.join("tests/interop/browser.mjs"))
        .args([&server.url, &port.to_string()])
        .env("TMPDIR", server.dir())
        .output()
        .unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}{errors}");
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), 23, "{said}{errors}");
}
