//! The JSON of a HELLO: what is accepted keeps its promises and is read the same when written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoker_wire::{Hello, MAX_HELLO, check_name};

fuzz_target!(|body: &[u8]| {
    let Ok(hello) = Hello::parse(body) else {
        return;
    };
    assert!(hello.v.contains(&1) && (1..=1000).contains(&hello.slots.unwrap_or(1)));
    assert!(hello.calls.len() + hello.jobs.len() <= Hello::MAX_NAMES);
    for name in hello.calls.iter().chain(&hello.idempotent) {
        assert!(check_name(name.as_bytes()).is_ok());
    }
    let json = serde_json::to_vec(&hello).expect("JSON");
    // Defaults are written out and control characters escaped, which may pass the limit.
    if json.len() <= MAX_HELLO {
        assert_eq!(Hello::parse(&json), Ok(hello));
    }
});
