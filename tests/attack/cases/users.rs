//! Another user of the machine: what it must not be able to do, read or guess.

use crate::arena::{Arena, pause};
use crate::bounds::Bounds;
use crate::case::Group;
use serde_json::{Value, json};
use std::process::Child;
use stoker_testkit::{App, Request, Spawn, as_nobody, bad_worker, pool_of, procs, until};
use stoker_wire::{Codec, Key, Status};

const SECRET: &str = "hunter2";
const CONFIG: &str = "workers = 1\n[queue.q]\n[stoker]\nsocket_mode = \"0666\"";

pub(crate) fn groups() -> Vec<Group> {
    let config = || pool_of("serve", CONFIG);
    let mut steer = Group::new("A5", "another user steers").config(config());
    for (method, ask) in administrators() {
        let op = ask["op"].as_str().unwrap_or_default().to_owned();
        steer.add(format!("{method} {op}"), move |arena| {
            denied(arena, method, &ask);
        });
    }
    let read = Group::new("A5", "another user reads")
        .config(config())
        .case("a waiting job by its id", |arena| {
            let id = secret_job(arena);
            hidden(arena, "stoker.job", &json!({"op": "show", "id": id}));
        })
        .case("a line of a job's history", |arena| {
            let id = secret_job(arena);
            hidden(
                arena,
                "stoker.job",
                &json!({"op": "show", "id": id, "note": 1}),
            );
        })
        .case("a failed job's error", failed_job)
        .case("a running job among the workers", running_job)
        .case("its own job", own_job)
        .case("a unique key of somebody else", |arena| {
            guessed(arena, Key::UNIQUE);
        })
        .case("an idempotency key of somebody else", |arena| {
            guessed(arena, Key::IDEMPOTENCY);
        })
        .case("a call that is too large to be read", large_body);
    vec![steer, read, foreign_pool("calls"), foreign_pool("queues")]
}

fn administrators() -> Vec<(&'static str, Value)> {
    let id = "01a201ad-5d6a-7000-8333-7b94f1bed438";
    let mut found = Vec::new();
    for op in [
        "list", "export", "count", "groups", "retry", "cancel", "discard", "suspend", "release",
    ] {
        found.push(("stoker.job", json!({"op": op, "queue": "q"})));
    }
    found.push(("stoker.job", json!({"op": "move", "queue": "q", "to": "r"})));
    found.push(("stoker.job", json!({"op": "edit", "id": id, "body": "x"})));
    found.push((
        "stoker.job",
        json!({"op": "import", "jobs": [{"queue": "q", "body": "x"}]}),
    ));
    for op in ["find", "pause", "resume"] {
        found.push(("stoker.queue", json!({"op": op, "queue": "q"})));
    }
    found.push((
        "stoker.queue",
        json!({"op": "set", "queue": "q", "weight": 9}),
    ));
    found.push((
        "stoker.pool",
        json!({"op": "scale", "pool": "p", "min": 1, "max": 9}),
    ));
    found.push(("stoker.pool", json!({"op": "reload"})));
    found.push(("stoker.quarantine", json!({"op": "list"})));
    found.push(("stoker.quarantine", json!({"op": "show", "id": "1"})));
    found
}

/// The answer to the user nobody; `None` if this user can't become nobody.
fn request_as_nobody(arena: &Arena, method: &str, ask: &Value) -> Option<stoker_testkit::Received> {
    let request = Request::call(method, ask.to_string()).codec(Codec::JSON);
    as_nobody(|| arena.client().request(&request))
}

fn denied(arena: &mut Arena, method: &str, ask: &Value) {
    let id = secret_job(arena);
    let Some(answer) = request_as_nobody(arena, method, ask) else {
        return;
    };
    assert_eq!(
        answer.status(),
        Status::PERMISSION_DENIED,
        "{}",
        answer.text()
    );
    assert!(!answer.text().contains(SECRET) && !answer.text().contains(&id));
    let job = arena.client().job(&id);
    assert_eq!(
        (&job["state"], &job["queue"]),
        (&json!("ready"), &json!("q")),
        "it was not touched"
    );
}

fn hidden(arena: &mut Arena, method: &str, ask: &Value) {
    let Some(answer) = request_as_nobody(arena, method, ask) else {
        return;
    };
    assert!(!answer.text().contains(SECRET), "{}", answer.text());
}

/// A job of Stoker's own user that waits in a paused queue.
fn secret_job(arena: &mut Arena) -> String {
    let mut client = arena.client();
    pause(&mut client, "q");
    client.push(&Request::push("q", format!("ok {SECRET}")))
}

fn failed_job(arena: &mut Arena) {
    let mut client = arena.client();
    let id = client.push(&Request::push(
        "fails",
        format!("stdout {SECRET};fail 64 {SECRET}"),
    ));
    client.job_in(&id, "failed");
    hidden(arena, "stoker.job", &json!({"op": "show", "id": id}));
}

fn running_job(arena: &mut Arena) {
    let gate = arena.app().dir.gate("gate");
    let mut client = arena.client();
    let id = client.push(&Request::push("runs", format!("gate gate;ok {SECRET}")));
    let held = gate.wait_for_worker();
    let answer = request_as_nobody(arena, "stoker.worker", &json!({"op": "list"}));
    drop(held);
    gate.open();
    client.job_in(&id, "done");
    let Some(answer) = answer else { return };
    assert!(
        !answer.text().contains(SECRET) && !answer.text().contains(&id),
        "{}",
        answer.text()
    );
}

/// The user who pushed a job may see it.
fn own_job(arena: &mut Arena) {
    pause(&mut arena.client(), "q");
    let shown = as_nobody(|| {
        let mut client = arena.client();
        let id = client.push(&Request::push("q", "ok mine"));
        client.job(&id)
    });
    let Some(shown) = shown else { return };
    assert_eq!(
        (&shown["state"], &shown["body"]),
        (&json!("ready"), &json!("ok mine"))
    );
}

/// A user who does not own the job that has a key is rejected, and does not get the job's id.
fn guessed(arena: &mut Arena, key: Key) {
    let mut client = arena.client();
    pause(&mut client, "q");
    let id = client.push(&Request::push("q", format!("ok {SECRET}")).meta(key, "guess"));
    let push = Request::push("q", "ok").meta(key, "guess");
    let Some(answer) = as_nobody(|| arena.client().request(&push)) else {
        return;
    };
    assert_ne!(answer.status(), Status::OK, "{}", answer.text());
    assert!(!answer.text().contains(&id), "{}", answer.text());
}

/// The permission is checked before 15 MB of JSON are read.
fn large_body(arena: &mut Arena) {
    let body = format!("{{\"op\":\"list\"{}", " ".repeat(15_000_000));
    let request = Request::call("stoker.job", body).codec(Codec::JSON);
    let Some(answer) = as_nobody(|| arena.client().request(&request)) else {
        return;
    };
    let typed = [
        Status::PERMISSION_DENIED,
        Status::INVALID_ARGUMENT,
        Status::RESOURCE_EXHAUSTED,
    ];
    assert!(
        typed.contains(&answer.status()),
        "{} {}",
        answer.status().name(),
        answer.text()
    );
}

/// A worker of another user, with the token of its own pool, gets no tasks of another pool.
fn foreign_pool(what: &'static str) -> Group {
    let intruder =
        "[pool.open]\ntoken = \"known\"\nworkers = 1\n[stoker]\nsocket_mode = \"0666\"\n";
    let config = pool_of("serve", format!("workers = 1\n{intruder}"));
    let group = Group::new("A8", format!("a worker of another pool takes {what}"));
    group.bounds(Bounds::USUAL).attack(move |arena| {
        let setup = arena.setup().config(&config);
        // No worker has joined the other pool yet, so not all pools are ready.
        arena.take(setup.launch());
        let app = arena.app();
        until("the own worker is ready", || {
            (app.workers().len() == 1).then_some(())
        });
        let Some(worker) = connect_worker_as_nobody(
            app,
            "pool open;token known;jobs *,mails;hello;note in;serve",
        ) else {
            return;
        };
        let mut client = app.client();
        let mine = app.pids();
        // The intruder answers with its own text if it gets a task.
        match what {
            "calls" => (0..60).for_each(|_| {
                let answer = client.request(&Request::call("t.run", "tell"));
                let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                assert!(
                    !told["worker"].is_null(),
                    "a spawned worker has a name: {}",
                    answer.text()
                );
            }),
            _ => {
                let ids: Vec<String> = (0..60)
                    .map(|_| client.push(&Request::push("mails", "note-told")))
                    .collect();
                ids.iter().for_each(|id| drop(client.job_in(id, "done")));
                let notes = app.dir.notes();
                let told = notes
                    .iter()
                    .filter_map(|note| serde_json::from_str::<Value>(note).ok());
                assert!(
                    told.into_iter().all(|told| !told["worker"].is_null()),
                    "only the pool's own workers ran them"
                );
            }
        }
        assert_eq!(
            app.pids().iter().filter(|pid| mine.contains(pid)).count(),
            mine.len()
        );
        end(worker);
    })
}

/// A worker of the user `nobody`. It runs from a copy, because that user may not be able to enter the build directory.
fn connect_worker_as_nobody(app: &App, script: &str) -> Option<Child> {
    let copy = app.dir.file("intruder");
    std::fs::copy(bad_worker(), &copy).expect("the directory takes a copy");
    let worker = as_nobody(|| {
        let spawn = Spawn::new(&copy)
            .args(&[script])
            .env("STOKER_SOCKET", app.socket());
        spawn.within(app.dir.path()).start()
    })?;
    until("it is in, or refused", || {
        let is_in = app.workers().iter().any(|worker| worker["pool"] == "open");
        (is_in || !procs::is_alive(worker.id() as i32)).then_some(())
    });
    Some(worker)
}

fn end(mut worker: Child) {
    worker.kill().ok();
    worker.wait().ok();
}
