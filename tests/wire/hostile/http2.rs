//! Malformed HTTP/2 frames, and floods of valid ones.

use super::{Target, lossy};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// The payload of the last PING.
const MARK: &[u8; 8] = b"the mark";

fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a literal header without indexing.
fn header(name: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name.as_bytes(), value.as_ref()] {
        out.extend(length(text.len()));
        out.extend_from_slice(text);
    }
    out
}

/// Returns a length in HPACK's encoding: seven bits, then the rest in groups of seven.
fn length(mut length: usize) -> Vec<u8> {
    if length < 127 {
        return vec![length as u8];
    }
    length -= 127;
    let mut out = vec![127];
    while length >= 128 {
        out.push((length % 128 + 128) as u8);
        length /= 128;
    }
    out.push(length as u8);
    out
}

fn headers(list: &[(&str, &str)]) -> Vec<u8> {
    list.iter().flat_map(|(name, value)| header(name, value)).collect()
}

/// Returns the headers of a request for an unknown task.
fn request() -> Vec<u8> {
    let pseudo = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/tasks/x")];
    headers(&[&pseudo[..], &[("a2a-version", "1.0")]].concat())
}

fn with(name: &str, value: &str) -> Vec<u8> {
    [request(), header(name, value)].concat()
}

fn post(length: &str) -> Vec<u8> {
    headers(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/message:send"),
        ("a2a-version", "1.0"),
        ("content-length", length),
    ])
}

/// Returns a request in one frame.
fn ask(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
}

fn repeat(count: u32, one: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(one).collect()
}

/// The inputs, with their names.
fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let odd = |n: u32| 2 * n + 1;
    let small = header("x", "y");
    vec![
        ("a good request", ask(1, &request())),
        (
            "requests that are reset at once",
            repeat(3000, |n| [ask(odd(n), &request()), frame(RST_STREAM, 0, odd(n), 8_u32.to_be_bytes())].concat()),
        ),
        (
            "requests that are stream errors",
            repeat(3000, |n| [ask(odd(n), &request()), frame(WINDOW_UPDATE, 0, odd(n), 0_u32.to_be_bytes())].concat()),
        ),
        ("more requests than streams", repeat(3000, |n| frame(HEADERS, END_HEADERS, odd(n), post("10")))),
        (
            "headers that never end",
            [frame(HEADERS, END_STREAM, 1, request()), repeat(20_000, |_| frame(CONTINUATION, 0, 1, &small))].concat(),
        ),
        (
            "empty pieces of headers",
            [frame(HEADERS, END_STREAM, 1, request()), repeat(50_000, |_| frame(CONTINUATION, 0, 1, ""))].concat(),
        ),
        (
            "headers of a megabyte",
            [
                frame(HEADERS, END_STREAM, 1, request()),
                repeat(99, |_| frame(CONTINUATION, 0, 1, header("x", "y".repeat(10_000)))),
                frame(CONTINUATION, END_HEADERS, 1, &small),
            ]
            .concat(),
        ),
        (
            "one header of sixty kilobytes",
            [
                frame(HEADERS, END_STREAM, 1, &with("x", &"y".repeat(60_000))[..16_000]),
                frame(CONTINUATION, 0, 1, &with("x", &"y".repeat(60_000))[16_000..32_000]),
                frame(CONTINUATION, 0, 1, &with("x", &"y".repeat(60_000))[32_000..48_000]),
                frame(CONTINUATION, END_HEADERS, 1, &with("x", &"y".repeat(60_000))[48_000..]),
            ]
            .concat(),
        ),
        (
            "a dynamic table that is filled and referenced",
            [
                ask(1, &[request(), vec![0x40, 1, b'x'], length(4000), vec![b'y'; 4000]].concat()),
                repeat(50, |n| ask(odd(n + 1), &[request(), vec![0xbe; 4000]].concat())),
            ]
            .concat(),
        ),
        (
            "frames between header fragments",
            [frame(HEADERS, END_STREAM, 1, request()), frame(PING, 0, 0, [0; 8])].concat(),
        ),
        ("a continuation without headers", frame(CONTINUATION, END_HEADERS, 1, &small)),
        ("an index outside the table", ask(1, &[0xff, 0xff, 0xff, 0xff, 0x7f])),
        ("an invalid Huffman code", ask(1, &[0x00, 0x81, 0xff, 0x84, 0xff, 0xff, 0xff, 0xff])),
        ("a length beyond the block", ask(1, &[0x00, 0x7f, 0xff, 0xff, 0xff, 0x07])),
        ("a capital letter in a name", ask(1, &with("X-Y", "z"))),
        ("a header of HTTP/1", ask(1, &with("connection", "close"))),
        ("a NUL in a header", ask(1, &with("x", "a\0b"))),
        ("a line break in a header", ask(1, &with("x", "a\r\nb: c"))),
        ("an unknown pseudo header", ask(1, &with(":what", "x"))),
        ("a pseudo header at the end", ask(1, &with(":path", "/livez"))),
        ("no path", ask(1, &headers(&[(":method", "GET"), (":scheme", "http"), (":authority", "localhost")]))),
        ("an empty path", ask(1, &headers(&[(":method", "GET"), (":scheme", "http"), (":path", "")]))),
        ("no method", ask(1, &headers(&[(":scheme", "http"), (":path", "/tasks/x")]))),
        ("a status in a request", ask(1, &headers(&[(":status", "200")]))),
        ("no headers", ask(1, &[])),
        (
            "a body shorter than its content-length",
            [frame(HEADERS, END_HEADERS, 1, post("10")), frame(DATA, END_STREAM, 1, "{}")].concat(),
        ),
        (
            "a body longer than its content-length",
            [frame(HEADERS, END_HEADERS, 1, post("1")), frame(DATA, END_STREAM, 1, "{}")].concat(),
        ),
        (
            "a length that is a word",
            [frame(HEADERS, END_HEADERS, 1, post("x")), frame(DATA, END_STREAM, 1, "{}")].concat(),
        ),
        (
            "a body that is reset",
            [
                frame(HEADERS, END_HEADERS, 1, post("10")),
                frame(DATA, 0, 1, "{"),
                frame(RST_STREAM, 0, 1, 8_u32.to_be_bytes()),
            ]
            .concat(),
        ),
        (
            "trailers without END_STREAM",
            [frame(HEADERS, END_HEADERS, 1, post("2")), frame(HEADERS, END_HEADERS, 1, &small)].concat(),
        ),
        (
            "empty pieces of a body",
            [frame(HEADERS, END_HEADERS, 1, post("2")), repeat(50_000, |_| frame(DATA, 0, 1, ""))].concat(),
        ),
        (
            "more body than the window",
            [frame(HEADERS, END_HEADERS, 1, post("10000000")), repeat(400, |_| frame(DATA, 0, 1, [b' '; 16_384]))]
                .concat(),
        ),
        ("padding longer than its frame", frame(HEADERS, END_HEADERS | PADDED, 1, [&[255], &request()[..20]].concat())),
        ("data on stream zero", frame(DATA, 0, 0, "{}")),
        ("data on an unknown stream", frame(DATA, 0, 7, "{}")),
        ("headers on stream zero", ask(0, &request())),
        ("a stream id of the server", ask(2, &request())),
        ("a stream below the last", [ask(9, &request()), ask(3, &request())].concat()),
        ("a stream twice", [ask(1, &request()), ask(1, &request())].concat()),
        ("the last stream that there can be", ask(0x7fff_ffff, &request())),
        ("a reset of an unknown stream", frame(RST_STREAM, 0, 5, 8_u32.to_be_bytes())),
        (
            "a reset that is too short",
            [frame(HEADERS, END_HEADERS, 1, post("2")), frame(RST_STREAM, 0, 1, [0])].concat(),
        ),
        ("a stream that depends on itself", [frame(PRIORITY, 0, 1, [0, 0, 0, 1, 0]), ask(1, &request())].concat()),
        ("priorities of everything", repeat(20_000, |n| frame(PRIORITY, 0, odd(n), [0, 0, 0, 0, 0]))),
        ("a promise", frame(PUSH_PROMISE, END_HEADERS, 1, [&[0, 0, 0, 2], &request()[..]].concat())),
        ("a window update of zero", [ask(1, &request()), frame(WINDOW_UPDATE, 0, 0, 0_u32.to_be_bytes())].concat()),
        ("a window beyond 31 bits", repeat(2, |_| frame(WINDOW_UPDATE, 0, 0, 0x7fff_ffff_u32.to_be_bytes()))),
        ("no window for the answer", [frame(SETTINGS, 0, 0, [0, 4, 0, 0, 0, 0]), ask(1, &request())].concat()),
        ("settings beyond limits", frame(SETTINGS, 0, 0, [0, 5, 0xff, 0xff, 0xff, 0xff])),
        ("settings with half an entry", frame(SETTINGS, 0, 0, [0, 4, 0])),
        ("settings on a stream", frame(SETTINGS, 0, 1, "")),
        (
            "settings again and again",
            repeat(5000, |n| frame(SETTINGS, 0, 0, [&[0, 4], &(n + 1).to_be_bytes()[..]].concat())),
        ),
        ("acknowledgements of no settings", repeat(1000, |_| frame(SETTINGS, ACK, 0, ""))),
        ("many pings", repeat(20_000, |_| frame(PING, 0, 0, [0; 8]))),
        ("a ping that is too long", frame(PING, 0, 0, [0; 9])),
        ("a request after GOAWAY", [frame(GOAWAY, 0, 0, [0; 8]), ask(1, &request())].concat()),
        ("frames of an unknown kind", repeat(20_000, |_| frame(0x77, 0xff, 1, "what"))),
        ("a frame beyond the limit", [&[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1], &[0; 100_000][..]].concat()),
        ("a frame that is cut off", ask(1, &request())[..20].to_vec()),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_http2_gets_an_answer_that_blames_the_client() {
    let target = Target::start();
    for (name, frames) in cases() {
        let beginning = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, "")[..]].concat();
        let sent = [beginning, frames, frame(PING, 0, 0, MARK)].concat();
        // A truncated frame cannot be answered.
        let cut_off = name == "a frame that is cut off";
        let has = |bytes: &[u8], kinds: &[u8]| read(bytes).iter().any(|(kind, ..)| kinds.contains(kind));
        let enough = |bytes: &[u8]| {
            let marked = read(bytes).iter().any(|(kind, _, payload)| *kind == PING && payload == MARK);
            cut_off || has(bytes, &[GOAWAY]) || (marked && (name != "a good request" || has(bytes, &[HEADERS])))
        };
        let received = target.exchange(name, sent, enough).await;
        let answers = read(&received);
        assert!(!answers.is_empty(), "{name}: no answer, not even settings: {}", lossy(&received));
        for (kind, _, payload) in &answers {
            // The static table's entry for `:status: 500`.
            assert!(*kind != HEADERS || payload.first() != Some(&0x8e), "{name}: an internal error");
        }
        if name == "a good request" {
            let headers = answers.iter().find(|(kind, ..)| *kind == HEADERS).expect("an answer");
            assert_eq!(headers.2[0], 0x8d, "404, by its number in the static table");
            assert!(answers.iter().any(|(kind, _, payload)| *kind == PING && payload == MARK), "{answers:?}");
        }
        target.is_well(name).await;
    }
    target.serves().await;
}

/// Returns the frames of an answer: kind, stream, payload.
fn read(mut bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        frames.push((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload.to_vec()));
        bytes = rest;
    }
    frames
}
