//! A disk that is full or fails: each operator's command ends within a deadline, and OK means that its effect is
//! durable.

use super::config;
use crate::arena::{Arena, count};
use crate::bounds::Bounds;
use crate::case::Group;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use stoker_testkit::failing::{self, Call, Fault, Place};
use stoker_testkit::{Client, Request, procs};

const JOBS: u64 = 20;

fn commands() -> Vec<(&'static str, &'static str, Value)> {
    let mut found = vec![
        (
            "pause",
            "stoker.queue",
            json!({"op": "pause", "queue": "r", "create": true}),
        ),
        (
            "resume",
            "stoker.queue",
            json!({"op": "resume", "queue": "q"}),
        ),
        (
            "set",
            "stoker.queue",
            json!({"op": "set", "queue": "q", "weight": 7}),
        ),
        (
            "move",
            "stoker.job",
            json!({"op": "move", "queue": "q", "to": "r"}),
        ),
        (
            "import",
            "stoker.job",
            json!({"op": "import", "jobs": [{"queue": "q", "body": "ok"}]}),
        ),
    ];
    for op in ["cancel", "suspend", "release", "retry", "discard"] {
        found.push((op, "stoker.job", json!({"op": op, "queue": "q"})));
    }
    found
}

pub(crate) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for (fault, what) in [
        (failing::FULL_UNTIL_HEALED, "full"),
        (failing::IO_UNTIL_HEALED, "broken"),
    ] {
        for (name, method, ask) in commands() {
            let bounds = Bounds {
                seconds: 60.0,
                ..Bounds::NO_ADMIN
            };
            let group = Group::new("A3", format!("{name} on a {what} disk")).bounds(bounds);
            let quick = what == "full" && name == "cancel";
            let group = group.attack(move |arena| command(arena, fault, method, &ask));
            groups.push(if quick { group } else { group.slow() });
        }
    }
    groups
}

fn command(arena: &mut Arena, fault: Fault, method: &str, ask: &Value) {
    let write = Call {
        sort: "write".to_owned(),
        file: "jobs.db-wal".to_owned(),
        number: 1,
    };
    let config = config(Path::new("store/jobs.db"));
    let setup = arena.setup().config(&config).failing(&write, fault);
    arena.start(setup);
    let mut client = arena.client();
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "queue": "q", "create": true}),
    );
    for _ in 0..JOBS {
        client.push(&Request::push("q", "note ran"));
    }
    let before = states(&mut client);
    std::fs::write(Place(arena.app().dir.path()).arm(), "").expect("it can be written");
    let began = Instant::now();
    let answered = client.try_call_server(method, ask);
    let took = began.elapsed();
    assert!(took < stoker_testkit::limit(12.0), "it took {took:?}");
    let shown = answered.is_ok().then(|| states(&mut client));
    // The server dies, and the disk recovers: only durable changes are left.
    procs::kill(arena.app().server());
    std::fs::write(Place(arena.app().dir.path()).heal(), "").expect("it can be written");
    stoker_testkit::until("the next server", || {
        Client::try_connect(&arena.app().socket()).map(drop)
    });
    let mut client = arena.client();
    let after = states(&mut client);
    match shown {
        Some(shown) => assert_eq!(after, shown, "it answered OK, and that is durable"),
        None => assert_eq!(
            after["jobs"], before["jobs"],
            "it was refused, and no job has gone"
        ),
    }
}

/// The state that commands change: how many jobs are in each state, and the settings of the queue. A job that was
/// resumed may have run meanwhile.
fn states(client: &mut Client) -> Value {
    let mut unfinished = 0;
    for state in [
        "ready",
        "running",
        "delayed",
        "retrying",
        "suspended",
        "done",
        "failed",
    ] {
        unfinished += count(client, &json!({"queue": "q", "state": state}));
    }
    let queue = client.queue("q");
    let paused = client.call_server("stoker.queue", &json!({"op": "list"}));
    let is_paused = |name: &str| {
        let all = paused["queues"].as_array().cloned().unwrap_or_default();
        all.iter()
            .any(|queue| queue["name"] == name && queue["paused"] == true)
    };
    stoker_testkit::pause(Duration::from_millis(1));
    json!({"jobs": unfinished, "cancelled": queue["cancelled"], "weight": queue["weight"],
        "suspended": queue["suspended"], "paused": [is_paused("q"), is_paused("r")]})
}
