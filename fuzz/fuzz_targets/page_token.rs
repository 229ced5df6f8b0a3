//! Feeds `page_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tricord_fuzz::page_token(data);
});
