//! Tests of HELLO and WELCOME: what a correct peer sends is read back, and everything else is
//! rejected without a panic.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;
use stoker_wire::{Hello, MAX_HELLO, Role, Welcome, WireError, check_name};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(0x5708e5),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

prop_compose! {
    fn hello()(
        role in select(vec![Role::Client, Role::Worker, Role::Gateway]),
        (name, pid, token) in (".{0,20}", any::<Option<u32>>(), option::of(".{0,9}")),
        calls in vec("[a-z]{1,9}\\.[a-z]{1,9}", 0..9),
        jobs in vec("[a-z]{1,9}|\\*", 0..3),
        slots in option::of(1u16..=1000),
        soft_cancel in any::<bool>(),
        uid in any::<Option<u32>>(),
    ) -> Hello {
        let idempotent = calls.iter().take(2).cloned().collect();
        Hello {
            v: vec![1],
            role, name, pid, token, uid, calls, idempotent, jobs, slots, soft_cancel,
            ..Hello::default()
        }
    }
}

/// Checks what the server relies on after it has accepted a HELLO.
fn assert_sound(hello: &Hello) {
    assert!(hello.v.contains(&1));
    assert!((1..=1000).contains(&hello.slots.unwrap_or(1)));
    assert!(hello.calls.len() + hello.jobs.len() <= Hello::MAX_NAMES);
    for name in hello.calls.iter().chain(&hello.idempotent) {
        assert!(check_name(name.as_bytes()).is_ok());
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn hello_round_trip(hello in hello()) {
        let json = serde_json::to_vec(&hello).expect("JSON");
        prop_assert_eq!(Hello::parse(&json), Ok(hello));
    }

    #[test]
    fn edited_hello_never_panics(
        hello in hello(), edits in vec((any::<Index>(), any::<u8>()), 1..4), end in any::<Index>(),
    ) {
        let mut json = serde_json::to_vec(&hello).expect("JSON");
        for (at, byte) in edits {
            let at = at.index(json.len());
            json[at] = byte;
        }
        for bytes in [&json[..], &json[..end.index(json.len())]] {
            if let Ok(hello) = Hello::parse(bytes) {
                assert_sound(&hello);
            }
        }
    }

    #[test]
    fn noise_never_panics(
        bytes in vec(any::<u8>(), 0..99),
        json in "\\{(\"(v|role|calls|slots|x)\":(1|\\[1\\]|\"worker\"|null|\\[\\{\\}\\]|-1|1e9|\\{\\}),?){0,5}\\}",
    ) {
        for bytes in [&bytes[..], json.as_bytes()] {
            if let Ok(hello) = Hello::parse(bytes) {
                assert_sound(&hello);
            }
        }
    }
}

#[test]
fn hello_is_bounded() {
    let hello = |name: usize| {
        format!(
            r#"{{"v":[1],"role":"client","name":"{}"}}"#,
            "x".repeat(name)
        )
    };
    let rest = hello(0).len();
    assert!(Hello::parse(hello(MAX_HELLO - rest).as_bytes()).is_ok());
    let (len, max) = (MAX_HELLO + 1, MAX_HELLO);
    let refused = Hello::parse(hello(len - rest).as_bytes());
    assert_eq!(refused, Err(WireError::TooLong { len, max }));

    let worker = |calls: usize| {
        let hello = Hello {
            v: vec![1],
            calls: vec!["a.b".into(); calls],
            ..Hello::default()
        };
        serde_json::to_vec(&hello).expect("JSON")
    };
    assert!(Hello::parse(&worker(Hello::MAX_NAMES)).is_ok());
    assert_eq!(
        Hello::parse(&worker(Hello::MAX_NAMES + 1)),
        Err(WireError::TooManyNames(Hello::MAX_NAMES + 1))
    );
}

#[test]
fn deeply_nested_json_is_rejected() {
    for open in ["[", "{\"x\":"] {
        let deep = format!("{{\"v\":[1],\"x\":{}", open.repeat(12_000));
        assert_eq!(Hello::parse(deep.as_bytes()), Err(WireError::BadHello));
    }
}

#[test]
fn welcome_round_trip() {
    let welcome = Welcome {
        v: 1,
        max_frame: 1 << 20,
        max_inflight: 64,
        ..Welcome::default()
    };
    let json = serde_json::to_string(&welcome).expect("JSON");
    assert_eq!(json, r#"{"v":1,"max_frame":1048576,"max_inflight":64}"#);
    assert_eq!(
        serde_json::from_str::<Welcome>(&json).expect("JSON"),
        welcome
    );
}
