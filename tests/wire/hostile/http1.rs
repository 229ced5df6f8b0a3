//! Malformed or abusive HTTP/1.1.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{PATIENCE, Target, lossy};
use crate::raw::{connect, say};

/// The accepted outcomes.
enum Expect {
    /// The first answer has one of these statuses.
    Status(&'static [u16]),
    /// An answer that blames the client, or no answer.
    Refusal,
    /// This many successful answers.
    Good(usize),
}
use Expect::{Good, Refusal, Status};

/// Returns a POST with these header lines and this body, without checking them.
fn post(path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\n{headers}\r\n");
    [head.as_bytes(), body.as_ref()].concat()
}

/// Returns a POST with this body and its correct length.
fn sized(path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    post(path, &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()), body)
}

/// Returns a GET with these header lines.
fn get(target: impl AsRef<[u8]>, headers: &str) -> Vec<u8> {
    let rest = format!(" HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\n{headers}\r\n");
    [b"GET ", target.as_ref(), rest.as_bytes()].concat()
}

fn rpc(params: &str) -> Vec<u8> {
    sized("/", format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{params}}}"#))
}

fn cut_off() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let whole = sized("/message:send", say("echo cut").to_string());
    let head = whole.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    vec![
        ("a truncated request line", b"POST /mess".to_vec(), Refusal),
        ("a truncated header", whole[..head - 5].to_vec(), Refusal),
        ("no body", whole[..head + 4].to_vec(), Refusal),
        ("a truncated body", whole[..whole.len() - 3].to_vec(), Refusal),
        ("a truncated chunk", post("/message:send", "transfer-encoding: chunked\r\n", "ff\r\n{\"mess"), Refusal),
        ("no last chunk", post("/message:send", "transfer-encoding: chunked\r\n", "2\r\n{}\r\n"), Refusal),
        ("cut trailers", post("/message:send", "transfer-encoding: chunked\r\n", "2\r\n{}\r\n0\r\nx: "), Refusal),
    ]
}

fn miscounted() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let length = |length: &str| post("/message:send", &format!("content-length: {length}\r\n"), "{}");
    let chunks = |body: &str| post("/message:send", "transfer-encoding: chunked\r\n", body);
    vec![
        ("a negative length", length("-1"), Status(&[400])),
        ("a length with a sign", length("+2"), Status(&[400])),
        ("a length that is a word", length("two"), Status(&[400])),
        ("a length without digits", length(""), Status(&[400])),
        ("a length beyond 64 bits", length("99999999999999999999999"), Status(&[400, 413])),
        ("the largest length", length("18446744073709551615"), Status(&[400, 413, 431])),
        ("a large length", length("1000000000000"), Status(&[413])),
        ("two lengths", post("/message:send", "content-length: 2\r\ncontent-length: 3\r\n", "{}"), Status(&[400])),
        ("a list of lengths", length("2, 3"), Status(&[400])),
        ("a length that is too small", length("1"), Refusal),
        ("a chunk size that is not a number", chunks("xyz\r\n{}\r\n0\r\n\r\n"), Refusal),
        ("a negative chunk size", chunks("-2\r\n{}\r\n0\r\n\r\n"), Refusal),
        ("a chunk size beyond 64 bits", chunks("fffffffffffffffff\r\n{}\r\n0\r\n\r\n"), Refusal),
        ("a chunk without an end", chunks("2\r\n{}0\r\n\r\n"), Refusal),
        ("a long chunk extension", chunks(&format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(100_000))), Refusal),
        ("long trailers", chunks(&format!("2\r\n{{}}\r\n0\r\nx: {}\r\n\r\n", "x".repeat(100_000))), Refusal),
        ("an unknown coding", post("/", "transfer-encoding: gzip\r\n", "{}"), Refusal),
        ("chunks inside chunks", post("/", "transfer-encoding: chunked, chunked\r\n", "0\r\n\r\n"), Refusal),
        ("a GET with a body", get("/livez", "content-length: 5\r\n"), Refusal),
    ]
}

fn stray() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let header = |bytes: &[u8]| {
        let line = [b"GET /tasks HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\nx: ", bytes, b"\r\n\r\n"];
        line.concat()
    };
    vec![
        ("a NUL in a header", header(b"a\0b"), Status(&[400])),
        ("a bell in a header", header(b"a\x07b"), Status(&[400])),
        ("a lone CR in a header", header(b"a\rb"), Status(&[400])),
        ("a folded header", header(b"a\r\n b"), Status(&[400])),
        ("bytes beyond ASCII in a header", header(b"\xff\xfe"), Good(1)),
        ("a space in a header's name", get("/tasks", "a b: c\r\n"), Status(&[400])),
        ("a NUL in a target", get("/tasks/a\0b", ""), Status(&[400])),
        ("a percent-encoded NUL in a target", get("/tasks/a%00b", ""), Status(&[404])),
        ("a percent-encoded line break in a target", get("/tasks/a%0d%0ax:y", ""), Status(&[404])),
        ("invalid UTF-8 in a target", get(b"/tasks/\xff", ""), Status(&[400, 404])),
        ("percent-encoded invalid UTF-8 in a target", get("/tasks/%ff", ""), Status(&[400, 404])),
        ("percent-encoded invalid UTF-8 in a query", get("/tasks?contextId=%ff%fe", ""), Good(1)),
        ("half a percent-encoding", get("/tasks/%f", ""), Status(&[400, 404])),
        ("dots in a target", get("/tasks/../../etc/passwd", ""), Status(&[400, 404])),
        ("an empty target", get("", ""), Status(&[400])),
        ("a target that is not a path", get("x:y", ""), Status(&[400, 404, 405, 421])),
        ("an asterisk as the target", get("*", ""), Status(&[400, 404])),
        ("invalid UTF-8 in a body", sized("/message:send", b"{\"message\":\"\xff\"}"), Status(&[400])),
        (
            "invalid UTF-8 in an envelope",
            sized("/", b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"GetTask\"}"),
            Status(&[200]),
        ),
        ("a version that is not ASCII", get("/tasks", "a2a-version: \u{e9}\r\n"), Good(1)),
        (
            "a method of a thousand letters",
            format!("{} / HTTP/1.1\r\nhost: localhost\r\n\r\n", "X".repeat(1000)).into(),
            Status(&[400, 404, 405]),
        ),
        ("HTTP/0.9", b"GET /livez\r\n\r\n".to_vec(), Refusal),
        ("an invalid HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(), Refusal),
        ("a response instead of a request", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(), Status(&[400])),
    ]
}

fn twice_and_much() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let many = |count: usize, one: &str| one.repeat(count);
    let nested = |open: &str, close: &str, depth| format!("{}{}", many(depth, open), many(depth, close));
    vec![
        ("two versions", get("/tasks", "a2a-version: 0.3\r\n"), Good(1)),
        (
            "two media types",
            post(
                "/tasks/x:cancel",
                "content-type: application/json\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n",
                "{}",
            ),
            Status(&[404]),
        ),
        ("two hosts", get("/livez", "host: localhost\r\n"), Status(&[400])),
        ("no host", b"GET /livez HTTP/1.1\r\n\r\n".to_vec(), Status(&[400])),
        ("a line feed alone", b"GET /livez HTTP/1.1\nhost: localhost\r\n\r\n".to_vec(), Status(&[400])),
        ("a line feed alone at the end", b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\n".to_vec(), Status(&[400])),
        (
            "a length and a coding",
            post("/message:send", "content-length: 5\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n"),
            Status(&[400]),
        ),
        (
            "a coding and a length",
            post("/message:send", "transfer-encoding: chunked\r\ncontent-length: 5\r\n", "0\r\n\r\n"),
            Status(&[400]),
        ),
        ("a version with an underscore", get("/tasks", "a2a_version: 0.3\r\n"), Status(&[400])),
        ("a key with an underscore", get("/tasks", "idempotency_key: a\r\n"), Status(&[400])),
        (
            "two keys and two cursors",
            get("/tasks", "idempotency-key: a\r\nidempotency-key: b\r\nlast-event-id: 1.1\r\nlast-event-id: x\r\n"),
            Good(1),
        ),
        ("an unknown expectation", get("/livez", "expect: a miracle\r\n"), Status(&[200, 417])),
        (
            "a hundred thousand parameters",
            get(format!("/tasks?{}", many(100_000, "a=b&")), ""),
            Status(&[400, 414, 431]),
        ),
        ("as many parameters as headers may hold", get(format!("/tasks?{}", many(15_000, "a=b&")), ""), Good(1)),
        ("one parameter many times", get(format!("/tasks?{}", many(3_000, "pageSize=1&")), ""), Status(&[400])),
        ("a huge id in a path", get(format!("/tasks/{}", many(50_000, "x")), ""), Status(&[404])),
        ("a path of many parts", get(many(20_000, "/x"), ""), Status(&[404])),
        ("a huge id of a task", rpc(&format!(r#"{{"id":"{}"}}"#, many(1_000_000, "x"))), Status(&[200])),
        (
            "a hundred thousand members",
            rpc(&format!(r#"{{{}"id":"x"}}"#, (0..100_000).map(|n| format!(r#""k{n}":1,"#)).collect::<String>())),
            Status(&[200]),
        ),
        (
            "a huge id of a call",
            sized("/", format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"GetTask"}}"#, many(100_000, "x"))),
            Status(&[200]),
        ),
        (
            "a huge name of a method",
            sized("/", format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, many(100_000, "x"))),
            Status(&[200]),
        ),
        ("arrays that are never closed", sized("/message:send", many(100_000, "[")), Status(&[400])),
        ("arrays that are never closed, too many", sized("/message:send", many(1_000_000, "[")), Status(&[413])),
        ("objects that are never closed", sized("/", many(300_000, r#"{"a":"#)), Status(&[200])),
        ("arrays in arrays", rpc(&nested("[", "]", 100_000)), Status(&[200])),
        (
            "values in values",
            sized(
                "/message:send",
                format!(r#"{{"metadata":{}}}"#, nested(r#"{"a":"#, "}", 100_000).replace(":}", ":0}")),
            ),
            Status(&[400]),
        ),
        (
            "a number of a million digits",
            rpc(&format!(r#"{{"id":"x","historyLength":{}}}"#, many(1_000_000, "9"))),
            Status(&[200]),
        ),
        (
            "a fraction of a million digits",
            rpc(&format!(r#"{{"id":"x","historyLength":0.{}}}"#, many(1_000_000, "1"))),
            Status(&[200]),
        ),
        ("a million escapes", rpc(&format!(r#"{{"id":"{}"}}"#, many(1_000_000, "\\u0000"))), Status(&[200])),
        (
            "a hundred thousand parts",
            sized("/message:send", format!(r#"{{"message":{{"parts":[{}{{}}]}}}}"#, many(100_000, "{},"))),
            Status(&[400]),
        ),
        ("many extensions", get("/tasks", &format!("a2a-extensions: {}\r\n", many(10_000, "a,b,"))), Good(1)),
        (
            "a hundred extensions a line",
            get("/tasks", &many(60, &format!("a2a-extensions: {}\r\n", many(100, "a, b,")))),
            Good(1),
        ),
        (
            "many requests at once",
            [
                many(500, "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes(),
                get("/tasks", "connection: close\r\n"),
            ]
            .concat(),
            Good(501),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_http1_gets_an_answer_that_blames_the_client() {
    let target = Target::start();
    let mut wrong = Vec::new();
    for (name, sent, expect) in [cut_off(), miscounted(), stray(), twice_and_much()].into_iter().flatten() {
        // Truncated requests end at once. The others wait for their answers.
        let answers = match expect {
            Refusal => 0,
            Status(_) => 1,
            Good(count) => count,
        };
        let received = target.exchange(name, sent, |received| statuses(received).len() >= answers).await;
        let statuses = statuses(&received);
        let refused = statuses.iter().all(|status| *status < 500);
        assert!(refused, "{name}: {statuses:?}: {}", lossy(&received));
        let fits = match expect {
            Status(expected) => statuses.first().is_some_and(|status| expected.contains(status)),
            Good(count) => statuses == vec![200; count],
            Refusal => true,
        };
        if !fits {
            wrong.push(format!("{name}: {statuses:?}: {}", lossy(&received)));
        }
        target.is_well(name).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    target.serves().await;
}

/// Returns the statuses of consecutive answers.
fn statuses(received: &[u8]) -> Vec<u16> {
    let mut found = Vec::new();
    for at in memchr::memmem::find_iter(received, b"HTTP/1.1 ") {
        let digits = received.get(at + 9..at + 12).and_then(|digits| std::str::from_utf8(digits).ok());
        found.extend(digits.and_then(|digits| digits.parse::<u16>().ok()));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_unfinished_requests_do_not_block_other_clients() {
    let target = Target::start();
    let beginnings: [&[u8]; 4] = [
        b"",
        b"POST /message:send HT",
        b"POST /message:send HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\nx-",
        b"POST /message:send HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\ncontent-length: 1000\r\n\r\n{\"mess",
    ];
    let mut waiting = Vec::new();
    for n in 0..400 {
        let mut stream = connect(&target.0.url).await;
        stream.write_all(beginnings[n % beginnings.len()]).await.unwrap();
        waiting.push(stream);
    }
    for round in 0..3 {
        for stream in &mut waiting {
            // Some of them send a byte now and then. It does not matter whether the server still reads it.
            let _ = stream.write_all(b"x").await;
        }
        target.is_well(&format!("round {round}")).await;
    }
    target.serves().await;
    drop(waiting);
    target.is_well("they left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_do_not_block_other_clients() {
    let target = Target::start();
    let list = get("/tasks?includeArtifacts=true", "").repeat(300);
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&target.0.url).await;
        let _ = tokio::time::timeout(PATIENCE, stream.write_all(&list)).await;
        deaf.push(stream);
    }
    target.is_well("unread answers").await;
    // A client that starts reading late gets its answers in order.
    let mut first = vec![0; 12];
    deaf[0].read_exact(&mut first).await.unwrap();
    assert_eq!(first, b"HTTP/1.1 200");
    target.serves().await;
}
