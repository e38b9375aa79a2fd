//! The attackers of a mix. Each one does a little and returns; it is called again until the mix ends. Attackers expect
//! no answers: the honest jobs and the watcher check the server.

use crate::random::Random;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use stoker_testkit::{App, Request, frame, pause};
use stoker_wire::{Encode, Type};

pub(super) struct Attacker {
    pub(super) name: &'static str,
    pub(super) attack: fn(&App, &mut Random),
}

const HELLO: &[u8] = br#"{"v":[1],"role":"client"}"#;

pub(super) const ATTACKERS: &[Attacker] = &[
    Attacker {
        name: "silent connections",
        attack: |app, random| connections(app, random, 0),
    },
    Attacker {
        name: "half frames",
        attack: |app, random| connections(app, random, 9),
    },
    Attacker {
        name: "noise",
        attack: noise,
    },
    Attacker {
        name: "unread answers",
        attack: |app, _| send(app, &vec![Request::call("k.run", "big 3000000"); 20], 300),
    },
    Attacker {
        name: "killed workers",
        attack: |app, _| send(app, &vec![Request::call("k.run", "kill"); 4], 100),
    },
    Attacker {
        name: "hanging calls",
        attack: |app, _| send(app, &vec![Request::call("k.run", "silence"); 4], 300),
    },
    Attacker {
        name: "flooded logs",
        attack: |app, _| send(app, &[Request::call("k.run", "flood-stdout 20000")], 100),
    },
    Attacker {
        name: "broken protocol",
        attack: broken_protocol,
    },
    Attacker {
        name: "failing jobs",
        attack: |app, _| send(app, &vec![Request::push("evil", "fail 64 no"); 50], 50),
    },
    Attacker {
        name: "large pushes",
        attack: |app, _| {
            send(
                app,
                &vec![Request::push("evil", vec![b' '; 2_000_000]); 5],
                100,
            );
        },
    },
    Attacker {
        name: "names without end",
        attack: names,
    },
    Attacker {
        name: "reloads",
        attack: |app, _| own(app, "stoker.pool", &json!({"op": "reload"}), 100),
    },
    Attacker {
        name: "resizing",
        attack: |app, random| {
            let size = 1 + random.below(4);
            own(
                app,
                "stoker.pool",
                &json!({"op": "scale", "pool": "p", "min": size, "max": size}),
                50,
            );
        },
    },
    Attacker {
        name: "pauses",
        attack: |app, _| {
            own(
                app,
                "stoker.queue",
                &json!({"op": "pause", "queue": "q"}),
                20,
            );
            own(
                app,
                "stoker.queue",
                &json!({"op": "resume", "queue": "q"}),
                20,
            );
        },
    },
    Attacker {
        name: "wrong requests",
        attack: wrong_requests,
    },
    Attacker {
        name: "questions",
        attack: |app, _| {
            send(
                app,
                &vec![Request::call("stoker.worker", r#"{"op":"list"}"#); 200],
                20,
            );
        },
    },
    Attacker {
        name: "calls that nobody waits for",
        attack: |app, _| send(app, &vec![Request::call("k.run", "ok"); 50], 0),
    },
];

/// Sends requests on a connection that is closed after `ms` milliseconds, whether the answers were read or not.
fn send(app: &App, asks: &[Request], ms: u64) {
    let Some(mut client) = stoker_testkit::Client::try_connect_to(&app.socket()) else {
        return;
    };
    client.send_all(asks);
    pause(Duration::from_millis(ms));
}

fn own(app: &App, method: &str, ask: &Value, ms: u64) {
    send(app, &[Request::call(method, ask.to_string())], ms);
}

fn hello() -> Vec<u8> {
    frame(Encode {
        body: HELLO,
        ..Encode::new(Type::Hello, 0)
    })
}

/// 100 connections that send this many bytes of a HELLO, and stay open for a moment.
fn connections(app: &App, random: &mut Random, bytes: usize) {
    let open = |_| {
        let mut stream = UnixStream::connect(app.socket()).ok()?;
        stream.write_all(&hello()[..bytes]).ok();
        Some(stream)
    };
    let held: Vec<_> = (0..100).map(open).collect();
    pause(Duration::from_millis(50 + random.below(100) as u64));
    drop(held);
}

/// Sends a HELLO, and then random bytes.
fn noise(app: &App, random: &mut Random) {
    let Ok(mut stream) = UnixStream::connect(app.socket()) else {
        return;
    };
    let mut bytes = hello();
    bytes.extend((0..200).map(|_| random.next() as u8));
    stream.write_all(&bytes).ok();
    pause(Duration::from_millis(2));
}

fn broken_protocol(app: &App, random: &mut Random) {
    let script = random.pick(&[
        "garbage",
        "wrong-id",
        "reply-twice",
        "half-frame;silence",
        "goaway",
        "returned",
    ]);
    send(app, &[Request::call("k.run", script)], 100);
}

fn names(app: &App, random: &mut Random) {
    let asks: Vec<Request> = (0..20)
        .map(|_| Request::push(&format!("n{}", random.below(100_000)), "ok"))
        .collect();
    send(app, &asks, 20);
}

fn wrong_requests(app: &App, random: &mut Random) {
    let op = random.pick(&["cancel", "retry", "discard", "move", "list", "?"]);
    let field = random.pick(&["queue_", "key", "older_ms", "states", "to", "id"]);
    let value = random.pick(&["42", "[]", "{}", "null", "true", "\"7d\"", "1e999", "["]);
    let body = format!("{{\"op\":\"{op}\",\"queue\":\"evil\",\"{field}\":{value}}}");
    send(app, &[Request::call("stoker.job", body)], 1);
}
