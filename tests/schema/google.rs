//! Google's own JSON library for protobuf reads what we print, and we read what it prints.

use std::fmt::Write as _;

use base64_simd::STANDARD;
use prost::Message as _;
use prost_reflect::DynamicMessage;

use crate::codec::{codec, messages, pool};
use crate::random::{self, Random};
use crate::venv;

/// Messages of each type.
const EACH: u64 = 40;

#[test]
fn googles_library_and_ours_read_each_others_json() {
    let mut input = String::new();
    let mut sent = Vec::new();
    for descriptor in messages(&pool()) {
        for seed in 1000..1000 + EACH {
            let message = random::message(&descriptor, &mut Random::new(seed));
            let protobuf = message.encode_to_vec();
            let json = (codec(descriptor.name()).print)(&protobuf);
            writeln!(input, "{}\t{}\t{json}", descriptor.name(), STANDARD.encode_to_string(&protobuf)).unwrap();
            sent.push((descriptor.clone(), message, json));
        }
    }
    // The script checks that Google's library reads our JSON as the same message, and prints its own JSON.
    let output = String::from_utf8(venv::run("protojson.py", input.as_bytes())).expect("JSON is UTF-8");
    let answers: Vec<_> = output.lines().collect();
    assert_eq!(answers.len(), sent.len(), "expected an answer for each message");
    for (theirs, (descriptor, message, ours)) in answers.iter().zip(sent) {
        let name = descriptor.name();
        let read = (codec(name).read)(theirs.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}\n{theirs}"));
        let read = DynamicMessage::decode(descriptor.clone(), read.as_slice()).expect("protobuf of ours is read");
        assert_eq!(read, message, "{name}\ntheirs {theirs}\nours   {ours}");
    }
}
