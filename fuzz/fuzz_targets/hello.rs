//! The JSON of a HELLO: an accepted HELLO is valid, and is the same after it is written and parsed again.
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
    // Written JSON contains defaults and escaped control characters, which may exceed the limit.
    if json.len() <= MAX_HELLO {
        assert_eq!(Hello::parse(&json), Ok(hello));
    }
});
