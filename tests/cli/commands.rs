//! The `tricord` command itself: output, errors, exit codes.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::peer::{Peer, cut_events, error_answer, event, events, json_answer, piece, status, task, task_event};

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tricord"));
    command.args(args).stdin(Stdio::null());
    for name in ["TRICORD_URL", "TRICORD_TOKEN", "TRICORD_CONFIG"] {
        command.env_remove(name);
    }
    command
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn run(args: &[&str]) -> Ran {
    ran(command(args).output().unwrap())
}

pub(crate) fn run_with_input(args: &[&str], input: &str) -> Ran {
    let mut child = command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

fn parts_of(peer: &Peer) -> Value {
    peer.seen()[0].body["message"]["parts"].clone()
}

#[test]
fn send_shows_the_answer_and_says_how_it_ended() {
    for (state, code) in [
        ("TASK_STATE_COMPLETED", 0),
        ("TASK_STATE_WORKING", 0),
        ("TASK_STATE_FAILED", 1),
        ("TASK_STATE_REJECTED", 1),
        ("TASK_STATE_CANCELED", 1),
        ("TASK_STATE_INPUT_REQUIRED", 5),
        ("TASK_STATE_AUTH_REQUIRED", 5),
    ] {
        let reply = json!({"task": task(state, "the answer")});
        let peer = Peer::http(move |_, _| json_answer(200, &reply));
        let ran = run(&["send", "--url", &peer.url, "hello", "you"]);
        assert_eq!((ran.code, ran.out.as_str()), (code, "the answer\n"), "{}", ran.err);
        assert!(ran.err.starts_with("task t1 (context c1)\n"), "{}", ran.err);
        assert_eq!(parts_of(&peer), json!([{"text": "hello you"}]));
    }
}

#[test]
fn send_takes_files_data_and_ids() {
    let reply = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}});
    let peer = Peer::http(move |_, _| json_answer(200, &reply));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.csv");
    std::fs::write(&file, "x,y").unwrap();
    let ran = run(&[
        "send",
        "-u",
        &peer.url,
        "--file",
        file.to_str().unwrap(),
        "--data",
        "{\"n\": 3}",
        "--task",
        "t1",
        "--context",
        "c1",
        "--message-id",
        "m1",
        "--header",
        "X-A: b",
        "--token",
        "s",
        "--history-length",
        "0",
        "--return-immediately",
        "--accept",
        "text/plain",
    ]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "hi\n"), "{}", ran.err);
    let seen = &peer.seen()[0];
    let expected = json!({
        "message": {
            "messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "ROLE_USER",
            "parts": [
                {"raw": "eCx5", "filename": "a.csv", "mediaType": "text/csv"},
                {"data": {"n": 3}},
            ],
        },
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 0, "returnImmediately": true},
    });
    assert_eq!(seen.body, expected);
    assert_eq!((seen.header("x-a"), seen.header("authorization")), (Some("b"), Some("Bearer s")));
}

#[test]
fn send_reads_standard_input() {
    let reply = json!({"task": task("TASK_STATE_COMPLETED", "")});
    for args in [&["send", "-"][..], &["send"][..]] {
        let reply = reply.clone();
        let peer = Peer::http(move |_, _| json_answer(200, &reply));
        let ran = run_with_input(&[args, &["--url", &peer.url]].concat(), "two\nlines\n");
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(parts_of(&peer), json!([{"text": "two\nlines"}]));
    }
    let ran = run_with_input(&["send", "-"], "");
    assert_eq!((ran.code, ran.err.as_str()), (2, "tricord: nothing to send: the message is empty\n"));
}

#[test]
fn stream_shows_pieces_once_over_a_broken_connection() {
    let script = |request: &crate::peer::Seen| match request.line.as_str() {
        "POST /message:stream" => cut_events(&[
            event("1.1", &task_event("TASK_STATE_SUBMITTED", "")),
            event("1.2", &status("TASK_STATE_WORKING")),
            event("1.3", &piece("one ", false)),
        ]),
        _ => events(&[
            // No ids: a wire that has none sends the task as it stands.
            format!("data: {}\n\n", task_event("TASK_STATE_WORKING", "one two ")),
            format!("data: {}\n\n", piece("three", true)),
            format!("data: {}\n\n", status("TASK_STATE_COMPLETED")),
        ]),
    };
    let peer = Peer::http(move |request, _| script(request));
    let ran = run(&["stream", "--url", &peer.url, "go"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "one two three\n"), "{}", ran.err);
    assert_eq!(ran.err, "task t1 (context c1)\nsubmitted\nworking\ncompleted\n");

    let peer = Peer::http(move |request, _| script(request));
    let ran = run(&["stream", "--json", "--url", &peer.url, "go"]);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((ran.code, lines.len(), ran.err.as_str()), (0, 6, ""));
    assert_eq!(lines[5], status("TASK_STATE_COMPLETED"));
}

#[test]
fn subscribe_goes_on_after_an_event() {
    let peer = Peer::http(|_, _| {
        events(&[event("1.5", &task_event("TASK_STATE_WORKING", "x")), event("1.6", &status("TASK_STATE_FAILED"))])
    });
    let ran = run(&["subscribe", "t1", "--last-event-id", "1.4", "--url", &peer.url]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "x\n"), "{}", ran.err);
    assert_eq!(peer.seen()[0].header("last-event-id"), Some("1.4"));
}

#[test]
fn get_and_cancel_show_the_task() {
    let peer = Peer::http(|request, _| match request.line.as_str() {
        "GET /tasks/t1?historyLength=1" => json_answer(200, &task("TASK_STATE_FAILED", "some text")),
        "POST /tasks/t1:cancel" => json_answer(200, &task("TASK_STATE_CANCELED", "")),
        other => panic!("{other}"),
    });
    let ran = run(&["get", "t1", "--history-length", "1", "-u", &peer.url]);
    assert_eq!(ran.out, "task     t1\ncontext  c1\nstate    failed\n\nartifact a\n    some text\n");
    assert_eq!(ran.code, 0);
    let ran = run(&["cancel", "t1", "-u", &peer.url]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "task t1 (context c1)\ncanceled\n"));
    let ran = run(&["cancel", "t1", "--json", "-u", &peer.url]);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["status"]["state"], "TASK_STATE_CANCELED");
}

#[test]
fn list_shows_pages() {
    let page = |token: &str| json!({"tasks": [task("TASK_STATE_INPUT_REQUIRED", "")], "nextPageToken": token, "pageSize": 1, "totalSize": 2});
    let script = move |request: &crate::peer::Seen| match request.line.contains("pageToken=p2") {
        false => json_answer(200, &page("p2")),
        true => json_answer(200, &page("")),
    };
    let peer = Peer::http(move |request, _| script(request));
    let ran = run(&["list", "-n", "1", "--state", "input-required", "-u", &peer.url]);
    assert_eq!(ran.out, "t1  input-required    c1\n");
    assert_eq!(ran.err, "1 of 2 tasks; next page: --page-token p2\n");
    assert_eq!(peer.seen()[0].line, "GET /tasks?historyLength=0&pageSize=1&status=TASK_STATE_INPUT_REQUIRED");
    let ran = run(&["list", "--all", "--json", "-u", &peer.url]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 2));
}

#[test]
fn card_is_shown() {
    let peer = Peer::http(|_, _| unreachable!());
    let ran = run(&["card", &peer.url]);
    assert!(ran.out.starts_with("Peer 1\n  Plays a script\n\ninterfaces\n  HTTP+JSON   http://"), "{}", ran.out);
    let card: Value = serde_json::from_str(&run(&["card", "--json", &peer.url]).out).unwrap();
    assert_eq!(card["name"], "Peer");
}

#[test]
fn errors_say_what_to_do() {
    let peer = Peer::http(|_, _| error_answer(404, "TASK_NOT_FOUND", "no task x"));
    let ran = run(&["get", "x", "-u", &peer.url]);
    let expected = "tricord: no task x (TASK_NOT_FOUND, HTTP status 404)\n  `tricord list` shows your tasks\n";
    assert_eq!((ran.code, ran.err.as_str()), (3, expected));

    let ran = run(&["get", "x", "-u", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.starts_with("tricord: cannot reach http://127.0.0.1:1: Connection refused\n"), "{}", ran.err);

    for args in [
        &["get"][..],
        &["get", "x", "-u", "nowhere"],
        &["get", "x", "--timeout", "5"],
        &["get", "x", "--header", "nothing"],
        &["send", "--data", "{"],
        &["send", "--file", "/does/not/exist"],
        &["nonsense"],
    ] {
        let ran = run(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
        assert!(!ran.err.is_empty());
    }
}

#[test]
fn a_timeout_ends_the_wait() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let ran = run(&["get", "x", "--timeout", "100ms", "-u", &url]);
    assert_eq!((ran.code, ran.err.lines().next()), (4, Some("tricord: no answer within 100ms")));
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let long = "x".repeat(1 << 20);
    let peer = Peer::http(move |_, _| json_answer(200, &task("TASK_STATE_COMPLETED", &long)));
    let mut child = command(&["get", "t1", "--json", "-u", &peer.url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn check_config_reports_all_problems_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.toml");
    std::fs::write(&path, "[server]\nlisten = 8080\n[[agents]]\nkind = 'conformance'\nname = 'tasks'\n").unwrap();
    let file = path.to_str().unwrap();
    let ran = run(&["check-config", "--config", file]);
    let expected = format!(
        "tricord: {file}:2: server.listen: takes a string, not a whole number\n\
         {file}:5: agents[0].name: \"tasks\" is a path of the server itself: choose another name\n"
    );
    assert_eq!((ran.code, ran.err), (2, expected));

    std::fs::write(&path, "[[agents]]\nkind = 'conformance'\nname = 'kit'\n").unwrap();
    let ran = run(&["check-config", "--config", file, "--store", "memory:", "--listen", "127.0.0.1:0"]);
    let expected =
        format!("{file} is valid\nlisten  127.0.0.1:0\nstore   memory:\nagent   kit (conformance, the default)\n");
    assert_eq!((ran.code, ran.out), (0, expected));

    let ran = run(&["check-config", "--config", "/does/not/exist"]);
    assert_eq!((ran.code, ran.err.starts_with("tricord: cannot read /does/not/exist: ")), (2, true));
    let ran = run(&["check-config", "--exec", "python3 'open"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains("check-config") && ran.out.contains("return-immediately"), "{shell}");
    }
}

#[test]
fn store_commands_need_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("none.db").display());
    for args in [&["check"][..], &["stats"], &["restored"], &["backup", "/dev/null/x"]] {
        let ran = run(&[&["store", "--store", &url][..], args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("no such store"), "{}", ran.err);
    }
}
