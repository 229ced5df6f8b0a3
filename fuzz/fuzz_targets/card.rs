//! Feeds `card`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tricord_fuzz::card(data);
});
