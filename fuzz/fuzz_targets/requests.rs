//! The JSON of the broker's own methods: what is accepted is read the same when written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let _ = stoker_api::accepted_by(body);
});
