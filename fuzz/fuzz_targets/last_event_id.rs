//! Feeds `last_event_id`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tricord_fuzz::last_event_id(data);
});
