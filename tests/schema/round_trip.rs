//! Converts random messages from protobuf to JSON and back, and checks that they are unchanged.

use prost::Message as _;
use prost_reflect::DynamicMessage;

use crate::codec::{codec, messages, pool};
use crate::random::{self, Random};

/// Messages of each type.
const EACH: u64 = 200;

#[test]
fn random_messages_of_every_type_are_unchanged_by_json() {
    for descriptor in messages(&pool()) {
        let codec = codec(descriptor.name());
        for seed in 0..EACH {
            let sent = random::message(&descriptor, &mut Random::new(seed));
            let json = (codec.print)(&sent.encode_to_vec());
            let back = (codec.read)(json.as_bytes()).unwrap_or_else(|e| panic!("{} {seed}: {e}\n{json}", codec.name));
            let back = DynamicMessage::decode(descriptor.clone(), back.as_slice()).expect("protobuf of ours is read");
            assert_eq!(back, sent, "{} {seed}\n{json}", codec.name);
        }
    }
}
