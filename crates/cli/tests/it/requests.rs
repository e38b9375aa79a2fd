//! Invalid requests to the server's own methods: each is rejected with the reason, and nothing is done.

use crate::start;
use serde_json::{Value, json};
use stoker_testkit::{App, Client, Request};
use stoker_wire::{Codec, Key, Status};

/// A server with three waiting jobs.
fn with_waiting_jobs() -> (App, Client) {
    let app = start("workers = 1\n[queue.mails]\n[queue.other]");
    let mut client = app.client();
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "create": true, "queue": "mails"}),
    );
    for key in ["a", "b", "c"] {
        client.push(&Request::push("mails", "ok").key(key));
    }
    (app, client)
}

#[track_caller]
fn rejected(client: &mut Client, name: &str, ask: &Value) -> String {
    let refused = client.try_call_server(name, ask);
    let refused = refused
        .err()
        .unwrap_or_else(|| panic!("{ask} was accepted"));
    assert_eq!(refused.status(), Status::INVALID_ARGUMENT, "{ask}");
    refused.text()
}

// Issue 9, A7: each of these used to mean the whole queue, or all jobs.
#[test]
fn a_filter_with_a_wrong_type_or_an_unknown_name_changes_no_job() {
    let (_app, mut client) = with_waiting_jobs();
    let wrong = [
        (
            json!({"queue": "mails", "key": 42}),
            "invalid \"key\": expected a string of 1 to 200 bytes, got 42; write \"42\"",
        ),
        (
            json!({"queue": "mails", "older_ms": "7d"}),
            "invalid \"older_ms\": expected a whole number of milliseconds, such as 604800000 for 7 days, got \"7d\"",
        ),
        (
            json!({"queue": "mails", "stat": "failed"}),
            "unknown field \"stat\": did you mean 'state'?",
        ),
        (
            json!({"queue": "mails", "type": null}),
            "invalid \"type\": expected a string of 1 to 255 bytes, got null; omit the field instead",
        ),
        (
            json!({"queue": "mails", "error": ""}),
            "invalid \"error\": expected a string of 1 to",
        ),
        (
            json!({"queue": "mails", "state": ["failed"]}),
            "invalid \"state\": expected one of ready, running,",
        ),
        (
            json!({"queue": "mails", "states": []}),
            "invalid \"states\": expected a list of one or more items",
        ),
        (json!({"queue": "mails", "states": []}), "got an empty list"),
        (
            json!({"queue": "mails", "states": ["failed", 7]}),
            "invalid \"states\"",
        ),
        (
            json!({"states": ["running"]}),
            "ask for running jobs with \"state\": \"running\"",
        ),
        (
            json!({"state": "failed", "states": ["ready"]}),
            "give either \"state\" or \"states\"",
        ),
        (
            json!({"queue": "mails", "fingerprint": 7}),
            "invalid \"fingerprint\": expected a fingerprint",
        ),
        (json!({"queue": 7}), "invalid \"queue\""),
        (
            json!({"all": "yes"}),
            "invalid \"all\": expected true or false",
        ),
        (json!({"all": false}), "name one job by \"id\", or many by"),
        (
            json!({"id": 7, "queue": "mails"}),
            "invalid \"id\": expected a job's id",
        ),
        (
            json!({"id": "01900000-0000-7000-8000-000000000000", "queue": "mails"}),
            "either one job by \"id\", or many by a filter",
        ),
        (json!({}), "name one job by \"id\", or many by"),
    ];
    for op in ["cancel", "discard", "retry", "suspend", "release", "move"] {
        for (fields, why) in &wrong {
            let mut ask = fields.clone();
            ask["op"] = op.into();
            if op == "move" {
                ask["to"] = "other".into();
            }
            let text = rejected(&mut client, "stoker.job", &ask);
            assert!(text.contains(why), "{ask}: {text}");
        }
    }
    let list = json!({"op": "list", "queue": "mails", "stat": "failed"});
    rejected(&mut client, "stoker.job", &list);
    assert_eq!(client.queue("mails")["ready"], 3, "none was touched");
}

// Issue 9, A7: the operation itself used to be guessed too.
#[test]
fn an_operation_must_be_named_and_a_field_may_be_given_once() {
    let (_app, mut client) = with_waiting_jobs();
    for (ask, why) in [
        (
            json!({"queue": "mails"}),
            "stoker.job needs the field \"op\": one of show, list",
        ),
        (
            json!({"op": 7}),
            "invalid \"op\": expected the name of an operation",
        ),
        (json!({"op": null}), "needs the field \"op\""),
        (
            json!({"op": "cancle", "queue": "mails"}),
            "did you mean 'cancel'?",
        ),
    ] {
        let text = rejected(&mut client, "stoker.job", &ask);
        assert!(text.contains(why), "{ask}: {text}");
    }
    for body in [
        r#"{"op": "cancel", "queue": "other", "queue": "mails"}"#,
        r#"{"op": "cancel", "queue": "mails"} {}"#,
        r#"["cancel"]"#,
        "null",
    ] {
        let answer = client.request(&Request::call("stoker.job", body).codec(Codec::JSON));
        assert_eq!(answer.status(), Status::INVALID_ARGUMENT, "{body}");
    }
    assert_eq!(client.queue("mails")["ready"], 3, "none was touched");
}

// Issue 9, A7: `codec` used to be cut to eight bits, `limit` and `per_second` to the allowed range.
#[test]
fn a_number_out_of_range_is_rejected_and_not_clamped() {
    let (_app, mut client) = with_waiting_jobs();
    let delay = Request::push("mails", "ok").meta(Key::DELAY, 600_000_u64.to_be_bytes());
    let id = client.push(&delay);
    for (name, ask) in [
        (
            "stoker.job",
            json!({"op": "edit", "id": id, "body": "1", "codec": 257}),
        ),
        ("stoker.job", json!({"op": "list", "limit": 1001})),
        ("stoker.job", json!({"op": "list", "limit": -1})),
        (
            "stoker.job",
            json!({"op": "retry", "all": true, "per_second": 1_000_001}),
        ),
        ("stoker.job", json!({"op": "show", "id": id, "note": 0})),
        (
            "stoker.queue",
            json!({"op": "set", "queue": "mails", "weight": 4_294_967_297_u64}),
        ),
        (
            "stoker.queue",
            json!({"op": "set", "queue": "mails", "reset": 1}),
        ),
        ("stoker.queue", json!({"op": "set", "queue": "mails"})),
        ("stoker.queue", json!({"op": "list", "queue": "mails"})),
        ("stoker.pool", json!({"op": "reload", "pool": 7})),
        ("stoker.pool", json!({"op": "reload", "pol": "p"})),
    ] {
        rejected(&mut client, name, &ask);
    }
    assert_eq!(client.job(&id)["body"], "ok");
}

// Found with issue 9, A7: a name that no frame can carry became a queue, and delivering its jobs ended the server.
#[test]
fn no_request_creates_a_queue_with_an_invalid_name() {
    let (app, mut client) = with_waiting_jobs();
    let long = "q".repeat(256);
    for name in ["", "a b", "q\n", &long] {
        for ask in [
            json!({"op": "move", "all": true, "to": name}),
            json!({"op": "import", "jobs": [{"queue": name}]}),
        ] {
            rejected(&mut client, "stoker.job", &ask);
        }
        for op in ["pause", "find", "set"] {
            let ask = json!({"op": op, "queue": name});
            rejected(&mut client, "stoker.queue", &ask);
        }
    }
    let queues = app
        .client()
        .call_server("stoker.queue", &json!({"op": "list"}));
    let names = queues["queues"].as_array().expect("queues");
    let names: Vec<&str> = names
        .iter()
        .filter_map(|queue| queue["name"].as_str())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| stoker_wire::check_name(name.as_bytes()).is_ok())
    );
}

// Issue 9, A4: the bodies of the server's own methods have a limit, except those that carry payloads.
#[test]
fn a_long_request_is_rejected_unless_it_carries_payloads() {
    let (_app, mut client) = with_waiting_jobs();
    let long = "x".repeat(257 << 10);
    let text = rejected(
        &mut client,
        "stoker.job",
        &json!({"op": "list", "queue": long}),
    );
    assert!(text.contains("the limit is 262144"), "{text}");
    let delay = Request::push("mails", "ok").meta(Key::DELAY, 600_000_u64.to_be_bytes());
    let id = client.push(&delay);
    client.call_server("stoker.job", &json!({"op": "edit", "id": id, "body": long}));
    let job = json!({"queue": "mails", "body": long, "state": "suspended"});
    client.call_server("stoker.job", &json!({"op": "import", "jobs": [job]}));
}

// Issue 9, A7, on the command line.
#[test]
fn an_empty_filter_on_the_command_line_is_rejected_before_it_is_sent() {
    let (app, mut client) = with_waiting_jobs();
    for args in [
        ["--queue", ""],
        ["--key", ""],
        ["--type", ""],
        ["--state", ""],
        ["--older", ""],
        ["--fingerprint", "xyz"],
    ] {
        let args = [&["jobs", "cancel", "--yes"][..], &args].concat();
        let output = app.cli(&args);
        assert_eq!(output.code, 2, "{args:?}: {}", output.stderr);
    }
    assert_eq!(client.queue("mails")["ready"], 3, "none was touched");
}
