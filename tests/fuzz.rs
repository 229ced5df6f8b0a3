//! Runs the fuzz targets of `fuzz/` on stable Rust, on their corpora and on random changes of them.
//!
//! `TRICORD_FUZZ_ITERATIONS` is the number of inputs for each target, `TRICORD_FUZZ_SEED` the seed. An input that
//! breaks a target is printed as a byte string and written to `target/fuzz/<target>` for `cargo fuzz run`.

#![allow(clippy::print_stdout, reason = "how much was tried is part of the result")]

#[path = "shared/random.rs"]
mod random;
#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use random::Random;
use targets::{TARGETS, Target};

/// The most accepted inputs that are kept for further changes, besides the corpus.
const KEPT: usize = 300;
/// The most bytes in an input.
const LONGEST: usize = 4096;

/// Fragments of the texts that the targets read.
const WORDS: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"1e999",
    b"-0",
    b"\\u0000",
    b"\\ud800",
    b"0.1",
    b"9223372036854775808",
    b"%",
    b"%2F",
    b"%00",
    b"%ff",
    b"&",
    b"=",
    b"+",
    b"/",
    b"?",
    b"#",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"data: ",
    b"id: ",
    b"event: ",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xff",
    b"\0",
    b"1.0",
    b"0.3",
    b".",
    b"\"role\":2",
    b"\"jsonrpc\":\"2.0\"",
    b"\"id\":",
    b"\"params\":",
    b"message",
    b"tasks",
    b":cancel",
    b":send",
    b"kit",
    b"\"tenant\":\"kit\"",
    b"\"metadata\":{}",
    b"\"data\":null",
    b"\"parts\":[{}]",
    b"TASK_STATE_FAILED",
    b"2020-01-01T00:00:00Z",
    b"GET ",
    b"POST ",
    b"content-type: application/json\n",
    b"content-type: application/grpc\n",
    b"a2a-version: 1.0\n",
    b"\x7f\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x0a\x02",
    b"\x12\x00",
    b"\x2a\x04",
    b"\x32\x00",
];

#[test]
fn no_input_breaks_a_fuzz_target() {
    let number = |name: &str, or| std::env::var(name).map_or(or, |value| value.parse().expect("a number"));
    let iterations = number("TRICORD_FUZZ_ITERATIONS", 15_000);
    let seed = number("TRICORD_FUZZ_SEED", 1);
    println!("{iterations} inputs a target, seed {seed}");
    // The default hook would print a report for every input that is tried while shrinking.
    let fed: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            TARGETS.iter().map(|(name, target)| scope.spawn(move || feed(name, *target, iterations, seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the driver does not panic")).collect()
    });
    let broken: Vec<_> = fed.into_iter().flatten().collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Runs one target and returns the report of an input that breaks it, if there is one.
fn feed(name: &str, target: Target, iterations: u64, seed: u64) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<_> = folder.read_dir().expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut pool: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).expect("an input")).collect();
    let corpus = pool.len();
    let mut random =
        Random::new(seed ^ name.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())));
    let (started, mut accepted) = (Instant::now(), 0);
    for number in 0..iterations {
        let input = match pool.get(number as usize) {
            Some(input) if number < corpus as u64 => input.clone(),
            _ => changed(&pool, &mut random),
        };
        match catch_unwind(AssertUnwindSafe(|| target(&input))) {
            Ok(false) => {}
            Ok(true) => {
                accepted += 1;
                if pool.len() < corpus + KEPT {
                    pool.push(input);
                } else {
                    let at = corpus + random.below(KEPT);
                    pool[at] = input;
                }
            }
            Err(_) => return Some(broken(name, target, &input)),
        }
    }
    println!("{name:13} {iterations} inputs, {accepted} accepted, {:?}", started.elapsed());
    None
}

/// Makes the input smaller, writes it to a file and returns the report.
fn broken(name: &str, target: Target, input: &[u8]) -> String {
    let breaks = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| target(input))).is_err();
    let mut input = input.to_vec();
    let mut piece = input.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at + piece <= input.len() {
            let smaller = [&input[..at], &input[at + piece..]].concat();
            if breaks(&smaller) { input = smaller } else { at += piece }
        }
        piece /= 2;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz").join(name);
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("broken"), &input));
    format!("{name} is broken by b\"{}\" (kept: {})", input.escape_ascii(), kept.is_ok())
}

/// Returns an input from the pool, changed in a few places.
fn changed(pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = pool[random.below(pool.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(input.len() + 1);
        let to = at + random.below((input.len() - at).min(16) + 1);
        match random.below(8) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.next() as u8,
            2 => drop(input.drain(at..to)),
            3 => {
                let piece = input[at..to].to_vec();
                let times = random.pick(&[1, 1, 2, 40]);
                drop(input.splice(at..at, piece.repeat(times)));
            }
            4 => {
                let other = &pool[random.below(pool.len())];
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            5 => {
                let other = &pool[random.below(pool.len())];
                let from = random.below(other.len() + 1);
                let until = from + random.below(other.len() - from + 1);
                drop(input.splice(at..to, other[from..until].iter().copied()));
            }
            _ => drop(input.splice(at..to, random.pick(WORDS).iter().copied())),
        }
    }
    input.truncate(LONGEST);
    input
}
