//! Feeds `proto_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tricord_fuzz::proto_json(data);
});
