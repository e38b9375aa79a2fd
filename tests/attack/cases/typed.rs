//! Requests to the server's own methods with fields of a wrong type, with unknown names, too long, and too deep: each
//! is rejected, and no job changes.

use crate::arena::{Arena, count, pause};
use crate::bounds::Bounds;
use crate::case::Group;
use serde_json::{Value, json};
use stoker_testkit::{Client, Request, pool_of};
use stoker_wire::{Codec, Status};

/// The type of a field.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Number,
    Flag,
    List,
}

/// A valid request, and its fields besides `op`.
struct ApiRequest {
    method: &'static str,
    right: Value,
    fields: Vec<(&'static str, Type)>,
}

type Fields = &'static [(&'static str, Type)];

const FILTER: Fields = &[
    ("queue", Type::Text),
    ("state", Type::Text),
    ("states", Type::List),
    ("type", Type::Text),
    ("error", Type::Text),
    ("fingerprint", Type::Text),
    ("key", Type::Text),
    ("older_ms", Type::Number),
];

fn requests() -> Vec<ApiRequest> {
    let mut found = Vec::new();
    for op in [
        "retry", "cancel", "discard", "suspend", "release", "move", "count", "list", "export",
        "groups",
    ] {
        let mut fields = FILTER.to_vec();
        let mut right = json!({"op": op, "queue": "q"});
        match op {
            "retry" => fields.push(("per_second", Type::Number)),
            "move" => {
                right["to"] = json!("other");
                fields.push(("to", Type::Text));
            }
            "list" | "export" => fields.extend([("limit", Type::Number), ("after", Type::Text)]),
            "groups" => fields.push(("limit", Type::Number)),
            _ => {}
        }
        if !matches!(op, "count" | "list" | "export" | "groups") {
            fields.extend([("id", Type::Text), ("all", Type::Flag)]);
        }
        found.push(ApiRequest {
            method: "stoker.job",
            right,
            fields,
        });
    }
    let other: [(&'static str, Value, Fields); 8] = [
        (
            "stoker.job",
            json!({"op": "show", "id": "?"}),
            &[("id", Type::Text), ("note", Type::Number)],
        ),
        (
            "stoker.job",
            json!({"op": "edit", "id": "?", "body": "x"}),
            &[
                ("id", Type::Text),
                ("body", Type::Text),
                ("codec", Type::Number),
            ],
        ),
        (
            "stoker.queue",
            json!({"op": "find", "queue": "q"}),
            &[("queue", Type::Text)],
        ),
        (
            "stoker.queue",
            json!({"op": "pause", "queue": "q"}),
            &[("queue", Type::Text)],
        ),
        (
            "stoker.queue",
            json!({"op": "resume", "queue": "q"}),
            &[("queue", Type::Text)],
        ),
        (
            "stoker.queue",
            json!({"op": "set", "queue": "q"}),
            &[
                ("queue", Type::Text),
                ("weight", Type::Number),
                ("reserve", Type::Number),
                ("limit", Type::Number),
                ("reset", Type::Flag),
            ],
        ),
        (
            "stoker.pool",
            json!({"op": "scale", "pool": "p", "min": 1, "max": 1}),
            &[
                ("pool", Type::Text),
                ("min", Type::Number),
                ("max", Type::Number),
            ],
        ),
        (
            "stoker.quarantine",
            json!({"op": "show", "id": "1"}),
            &[("id", Type::Text)],
        ),
    ];
    for (method, right, fields) in other {
        found.push(ApiRequest {
            method,
            right,
            fields: fields.to_vec(),
        });
    }
    found
}

fn wrong(kind: Type) -> Vec<Value> {
    let deep = (0..200).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    let mut values = vec![json!({}), json!({"a": 1}), deep];
    values.extend(match kind {
        Type::Text => vec![json!(42), json!(true), json!([]), json!(["q"])],
        Type::Number => vec![
            json!("7"),
            json!("7d"),
            json!(-1),
            json!(1.5),
            json!(1e300),
            json!(true),
            json!([]),
        ],
        Type::Flag => vec![json!("yes"), json!(1), json!([])],
        Type::List => vec![
            json!("ready"),
            json!(7),
            json!(true),
            json!([1]),
            json!([["ready"]]),
        ],
    });
    values
}

pub(crate) fn groups() -> Vec<Group> {
    let config = || pool_of("serve", "workers = 1\n[queue.q]\n[queue.other]");
    let mut groups = Vec::new();
    for request in requests() {
        let op = request.right["op"].as_str().unwrap_or_default();
        let name = format!("{} {op}", request.method);
        let mut group = Group::new("A7", name).config(config());
        let method = request.method;
        for (field, kind) in &request.fields {
            for value in wrong(*kind) {
                let text = value.to_string();
                let name = format!("{field} = {text:.30}");
                let mut ask = request.right.clone();
                ask[*field] = value;
                group.add(name, move |arena| {
                    refused(arena, method, ask.to_string().as_bytes());
                });
            }
            // A misspelled name is not ignored.
            let mut ask = request.right.clone();
            ask[format!("{field}_")] = json!("x");
            group.add(format!("unknown field {field}_"), move |arena| {
                refused(arena, method, ask.to_string().as_bytes());
            });
            let twice = format!(
                "{},\"{field}\":\"a\",\"{field}\":\"b\"}}",
                open(&request.right)
            );
            group.add(format!("{field} twice"), move |arena| {
                refused(arena, method, twice.as_bytes());
            });
        }
        groups.push(group);
    }
    groups.push(destructive_nulls().config(config()));
    groups.extend([bodies(), names(config())]);
    groups
}

/// An object without its closing brace.
fn open(object: &Value) -> String {
    let mut text = object.to_string();
    text.pop();
    text
}

/// A client whose variable was never set, and is sent as null, must not affect more jobs than intended.
fn destructive_nulls() -> Group {
    let mut group = Group::new("A7", "a filter that is null");
    for op in ["retry", "cancel", "discard", "suspend", "release"] {
        for (field, _) in FILTER.iter().skip(1) {
            let ask = json!({"op": op, "queue": "q", *field: null});
            group.add(format!("{op} with {field}"), move |arena| {
                refused(arena, "stoker.job", ask.to_string().as_bytes());
            });
        }
    }
    group
}

type Body = fn() -> Vec<u8>;

/// Requests that are not JSON objects.
fn bodies() -> Group {
    let mut group = Group::new("A7", "bodies of own methods")
        .config(pool_of("serve", "workers = 1\n[queue.q]"));
    // Large bodies are only created when they are sent.
    let bodies: [(&str, Body); 11] = [
        ("null", || b"null".to_vec()),
        ("a list", || b"[]".to_vec()),
        ("a number", || b"42".to_vec()),
        ("a text", || b"\"list\"".to_vec()),
        ("half an object", || {
            b"{\"op\":\"cancel\",\"queue\":".to_vec()
        }),
        ("two objects", || {
            b"{\"op\":\"count\"}{\"op\":\"count\"}".to_vec()
        }),
        ("bytes that are not UTF-8", || {
            b"{\"op\":\"count\",\"queue\":\"\xff\xfe\"}".to_vec()
        }),
        ("100,000 levels of lists", || {
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into()
        }),
        ("20,000 levels of objects", || {
            format!("{}1{}", "{\"op\":".repeat(20_000), "}".repeat(20_000)).into()
        }),
        ("300 KB in a name", || {
            format!(
                "{{\"op\":\"count\",\"queue\":\"{}\"}}",
                "q".repeat(300 << 10)
            )
            .into()
        }),
        ("8 MB of spaces", || {
            format!("{{\"op\":\"count\"{}}}", " ".repeat(8 << 20)).into()
        }),
    ];
    for (name, body) in bodies {
        for method in [
            "stoker.job",
            "stoker.queue",
            "stoker.worker",
            "stoker.pool",
            "stoker.quarantine",
        ] {
            group.add(format!("{method}: {name}"), move |arena| {
                refused(arena, method, &body());
            });
        }
    }
    group.bounds(Bounds {
        rss_mb: 192,
        ..Bounds::USUAL
    })
}

/// Impossible names of queues and pools.
fn names(config: String) -> Group {
    let mut group = Group::new("A10", "impossible names in own methods").config(config);
    let long = "x".repeat(256);
    for (what, name) in [
        ("empty", ""),
        ("a space", "a b"),
        ("an escape sequence", "a\u{1b}[2Jb"),
        ("a line feed", "a\nb"),
        ("a zero", "a\0b"),
        ("not ASCII", "käse"),
        ("256 characters", &*long),
        ("a typo", "qq"),
    ] {
        for (method, ask) in [
            ("stoker.queue", json!({"op": "pause", "queue": name})),
            ("stoker.queue", json!({"op": "resume", "queue": name})),
            (
                "stoker.queue",
                json!({"op": "set", "queue": name, "weight": 2}),
            ),
            ("stoker.job", json!({"op": "cancel", "queue": name})),
            (
                "stoker.job",
                json!({"op": "move", "queue": "q", "to": name}),
            ),
            (
                "stoker.job",
                json!({"op": "import", "jobs": [{"queue": name, "body": "x"}]}),
            ),
            (
                "stoker.pool",
                json!({"op": "scale", "pool": name, "min": 1, "max": 1}),
            ),
        ] {
            let op = ask["op"].as_str().unwrap_or_default();
            // An import may create a queue, as a push may.
            if (op == "import" || op == "move") && what == "a typo" {
                continue;
            }
            group.add(format!("{method} {op}: {what}"), move |arena| {
                let before = queues(&mut arena.client());
                refused(arena, method, ask.to_string().as_bytes());
                assert_eq!(queues(&mut arena.client()), before, "no queue was made");
            });
        }
    }
    group
}

fn queues(client: &mut Client) -> usize {
    let found = client.call_server("stoker.queue", &json!({"op": "list"}));
    found["queues"].as_array().map_or(0, Vec::len)
}

const JOBS: u64 = 5;

/// Checks that the request is rejected with a reason, and that no job has changed.
#[track_caller]
fn refused(arena: &mut Arena, method: &str, body: &[u8]) {
    let mut client = arena.client();
    let waiting = json!({"queue": "q", "states": ["ready", "delayed", "suspended"]});
    pause(&mut client, "q");
    for _ in count(&mut client, &waiting)..JOBS {
        client.push(&Request::push("q", "ok"));
    }
    let answer = client.request(&Request::call(method, body).codec(Codec::JSON));
    assert_ne!(
        answer.status(),
        Status::OK,
        "answered {:.200}",
        answer.text()
    );
    let typed = [
        Status::INVALID_ARGUMENT,
        Status::NOT_FOUND,
        Status::UNIMPLEMENTED,
        Status::RESOURCE_EXHAUSTED,
        Status::FAILED_PRECONDITION,
    ];
    assert!(
        typed.contains(&answer.status()),
        "{} {}",
        answer.status().name(),
        answer.text()
    );
    assert!(!answer.text().is_empty(), "it says why");
    assert_eq!(count(&mut client, &waiting), JOBS, "no job was touched");
}
