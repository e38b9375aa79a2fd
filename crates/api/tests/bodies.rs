//! Random bodies of requests: runs the functions of the fuzz targets for a bounded number of cases.

use proptest::prelude::*;
use serde_json::{Value, json};
use stoker_api::accepted_by;
use stoker_api::job::ExportedJob;

const OPS: &[&str] = &[
    "show", "list", "count", "groups", "export", "import", "retry", "cancel", "discard", "suspend",
    "release", "move", "edit", "find", "pause", "resume", "set", "scale", "reload",
];

const FIELDS: &[&str] = &[
    "id",
    "note",
    "queue",
    "state",
    "states",
    "type",
    "error",
    "fingerprint",
    "key",
    "older_ms",
    "limit",
    "after",
    "newest",
    "for",
    "all",
    "per_second",
    "to",
    "body",
    "codec",
    "jobs",
    "weight",
    "reserve",
    "reset",
    "pool",
    "min",
    "max",
    "stat",
];

fn value() -> impl Strategy<Value = Value> {
    let id = "01a201ad-5d6a-7000-8333-7b94f1bed438";
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..1_001).prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!(id)),
        Just(json!("mails")),
        Just(json!("failed")),
        Just(json!("33f320d8f5fa2e50")),
        Just(json!(["failed", "ready"])),
        Just(json!([{"queue": "mails", "body": "x", "key_hex": "ff"}])),
        Just(json!({"a": [1, {"b": null}]})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn accepted_requests_round_trip(
        op in prop::sample::select(OPS),
        fields in prop::collection::hash_map(prop::sample::select(FIELDS), value(), 0..5),
    ) {
        let mut body = json!(fields);
        body["op"] = op.into();
        prop_assert!(accepted_by(body.to_string().as_bytes()) <= 5);
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(accepted_by(&body) <= 5);
        ExportedJob::parse(&body).ok();
    }

    #[test]
    fn importable_jobs_round_trip(
        fields in prop::collection::hash_map(
            prop::sample::select(&["state", "priority", "attempt", "options", "error", "key", "key_hex", "meta", "body"][..]),
            value(), 0..5,
        ),
    ) {
        let mut job = json!(fields);
        job["queue"] = "mails".into();
        if let Ok(read) = ExportedJob::parse(job.to_string().as_bytes()) {
            let json = serde_json::to_vec(&read).expect("JSON");
            prop_assert_eq!(ExportedJob::parse(&json), Ok(read));
        }
    }
}

#[test]
fn common_requests_are_accepted() {
    for body in [
        r#"{"op":"cancel","queue":"mails","state":"failed"}"#,
        r#"{"op":"list","after":null,"limit":1000,"newest":true}"#,
        r#"{"op":"count","for":"retry","id":"01a201ad-5d6a-7000-8333-7b94f1bed438"}"#,
        r#"{"op":"import","jobs":[{"queue":"mails","options":{"tries":2,"backoff_ms":[10],"unique":{"key":"u7"}}}]}"#,
        r#"{"op":"set","queue":"mails","limit":"none"}"#,
        r#"{"op":"scale","pool":"app","min":1,"max":4}"#,
    ] {
        assert_eq!(accepted_by(body.as_bytes()), 1, "{body}");
    }
}
