//! Starts that cannot work: one clear line, exit code 2, and nothing left behind.

use std::net::TcpListener;
use std::process::Command;

use tempfile::TempDir;

/// Runs `tricord serve` in a directory until it ends by itself; the code and what it said.
fn serve(dir: &TempDir, args: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_tricord"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(args)
        .current_dir(dir.path())
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    assert!(out.stdout.is_empty(), "it said that it serves: {}", String::from_utf8_lossy(&out.stdout));
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

/// Asserts one line of error with all of `words` and exit code 2, from `serve` and from `check-config`.
fn is_refused_and_reported_by_check(dir: &TempDir, args: &[&str], words: &[&str]) {
    refuses(dir, args, words);
    let mut check = Command::new(env!("CARGO_BIN_EXE_tricord"));
    let out = check.arg("check-config").args(args).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
}

/// Asserts one line of error with all of `words` and exit code 2.
fn refuses(dir: &TempDir, args: &[&str], words: &[&str]) {
    let (code, said) = serve(dir, args);
    assert_eq!(code, Some(2), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{args:?}: more than a line: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?}: no {word:?} in: {said}");
    }
}

#[test]
fn a_start_that_cannot_work_ends_with_one_line_and_exit_code_2() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let out = Command::new(env!("CARGO_BIN_EXE_tricord"))
        .args(["serve", "--listen", &address])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.lines().count() == 1 && said.contains(&address) && said.contains("in use"), "{said}");

    is_refused_and_reported_by_check(&dir, &["--exec", "no-such-program --flag"], &["no-such-program", "not found"]);
    refuses(&dir, &["--store", "sqlite:missing/folder/t.db"], &["missing/folder", "does not exist"]);
    file("not.db", &"this is no database ".repeat(100));
    refuses(&dir, &["--store", "sqlite:not.db"], &["not.db", "not a database"]);
    refuses(&dir, &["--store", "mysql:x"], &["mysql:x", "sqlite:"]);
    refuses(&dir, &["--config", "missing.toml"], &["missing.toml"]);

    file("cert.pem", "no certificate");
    file("key.pem", "no key");
    file("tls.toml", "[server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    is_refused_and_reported_by_check(&dir, &["--config", "tls.toml"], &["certificate"]);
    file("tls2.toml", "[server.tls]\ncert = \"absent.pem\"\nkey = \"key.pem\"\n");
    is_refused_and_reported_by_check(&dir, &["--config", "tls2.toml"], &["absent.pem"]);
    for (variable, word) in
        [("\"A=B\" = \"x\"", "A=B"), ("\"\" = \"x\"", "cannot be the name"), ("A = \"a\\u0000b\"", "NUL")]
    {
        let agent = "[[agents]]\nkind = \"exec\"\ncommand = [\"sh\"]\n[agents.environment]";
        file("variable.toml", &format!("{agent}\n{variable}\n"));
        is_refused_and_reported_by_check(&dir, &["--config", "variable.toml"], &["variable.toml:5", word]);
    }
}

#[test]
fn a_store_that_another_server_holds_or_a_newer_version_wrote_is_refused() {
    let dir = TempDir::new().unwrap();
    let url = format!("sqlite:{}", dir.path().join("t.db").display());
    let open = || {
        tricord::internals::store::Store::open(&tricord::internals::store::Options::new(url.parse().unwrap())).unwrap()
    };
    let held = open();
    refuses(&dir, &["--store", "sqlite:t.db"], &["t.db", "another process"]);
    drop(held);
    let newer = rusqlite::Connection::open(dir.path().join("t.db")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    refuses(&dir, &["--store", "sqlite:t.db"], &["t.db", "newer version"]);
}
