//! Defects that a single case demonstrates.

use crate::arena::{Arena, drained, pause, resume};
use crate::bounds::Bounds;
use crate::case::Group;
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::time::Duration;
use stoker_testkit::{Client, Dir, Request, Spawn, frame, pool_of, procs, until};
use stoker_wire::{Encode, Key, Status, Type};

pub(crate) fn groups() -> Vec<Group> {
    let config = || pool_of("serve", "workers = 1\n[queue.q]");
    let mut groups = hellos(config());
    groups.push(
        Group::new("A14", "a worker that serves a socket its parent opened")
            .bounds(Bounds::USUAL)
            .attack(handed_over),
    );
    groups.push(
        Group::new("A21", "two unanswered pushes with one id")
            .config(config())
            .attack(one_id),
    );
    groups.push(
        Group::new("A21", "memory of a task's children")
            .config(memory_config())
            .attack(children_of_task),
    );
    groups.push(Group::new("A21", "the environment of another user").attack(environment));
    groups.push(
        Group::new("A21", "the server's name for ps")
            .config(config())
            .attack(|arena| {
                let name = std::fs::read_to_string(format!("/proc/{}/comm", arena.app().server()));
                let name = name.expect("it runs");
                assert!(name.contains("stoker"), "it is called {name}");
            }),
    );
    groups.push(
        Group::new("A21", "store show of a running server")
            .config(config())
            .attack(|arena| {
                let (elsewhere, socket) = (Dir::new(), arena.app().socket().display().to_string());
                arena.client().push(&Request::push("q", "ok"));
                let output =
                    arena.stoker(elsewhere.path(), &["store", "show", "--socket", &socket]);
                let says = format!("{}{}", output.stdout, output.stderr);
                let store = arena.app().dir.file("stoker.db").display().to_string();
                assert!(
                    output.code != 0 || says.contains(&store),
                    "it does not show another store: {says}"
                );
            }),
    );
    groups.push(
        Group::new("A23", "a job that stop_grace cut off has a history")
            .bounds(Bounds::NO_ADMIN)
            .attack(cut_off),
    );
    groups.push(
        Group::new("A23", "last words of an idle worker")
            .config(config())
            .attack(idle_words),
    );
    groups.push(
        Group::new("A23", "one death of a held-back delivery")
            .config(pool_of(
                "serve",
                "workers = 1\n[queue.q]\nack = \"delivery\"",
            ))
            .attack(|arena| {
                let mut client = arena.client();
                client.push(&Request::push("q", "kill"));
                drained(&mut client, "q");
                until("a worker is there again", || {
                    (arena.app().workers().len() == 1).then_some(())
                });
                assert_eq!(arena.app().pool()["restarts"], 1);
            }),
    );
    groups.push(
        Group::new("A27", "a call of a queue's name says that it is a queue")
            .config(config())
            .attack(|arena| {
                let output = arena.app().cli(&["call", "q.run", "{}"]);
                assert_ne!(output.code, 0);
                let mut client = arena.client();
                let answer = client.request(&Request::call("q", "{}"));
                assert_ne!(answer.status(), Status::OK);
                assert!(
                    format!("{}{}", answer.text(), output.stderr).contains("queue"),
                    "{}",
                    answer.text()
                );
            }),
    );
    groups.push(
        Group::new("A27", "a worker that never serves")
            .bounds(Bounds::NO_ADMIN)
            .attack(|arena| {
                let setup = arena
                    .setup()
                    .config("[pool.p]\ncommand = [\"true\"]\nworkers = 1\n");
                arena.take(setup.launch());
                let line = arena.app().wait_for_log("p-1*exit code 0");
                assert!(
                    line.contains("HELLO") || line.contains("run()"),
                    "it says what was missing: {line}"
                );
            }),
    );
    groups.push(
        Group::new("A29", "a running job shows its attempt")
            .config(config())
            .attack(|arena| {
                let gate = arena.app().dir.gate("gate");
                let mut client = arena.client();
                let id = client.push(&Request::push("q", "gate gate"));
                let held = gate.wait_for_worker();
                assert_eq!(client.job(&id)["attempt"], 1);
                drop(held);
                gate.open();
            }),
    );
    groups.push(
        Group::new("A29", "past due dates run in their order")
            .config(config())
            .attack(due_order),
    );
    groups.push(
        Group::new("A29", "a queue's size after each job")
            .config(config())
            .attack(sizes),
    );
    groups
}

/// HELLOs with impossible content.
fn hellos(config: String) -> Vec<Group> {
    let mut group = Group::new("A21", "a HELLO").config(config);
    let long = "x".repeat(70_000);
    let many: Vec<String> = (0..1_001).map(|n| format!("m{n}.run")).collect();
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let worker = |more: Value| {
        let mut hello = json!({"v": [1], "role": "worker", "pool": "p", "jobs": ["q"]});
        let fields = more.as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .for_each(|(key, value)| hello[key] = value);
        hello.to_string()
    };
    for (name, body) in [
        ("of no version", json!({"v": []}).to_string()),
        ("of version 2", json!({"v": [2]}).to_string()),
        ("whose version is a text", json!({"v": "1"}).to_string()),
        ("of slots 0", worker(json!({"slots": 0}))),
        ("of slots 1001", worker(json!({"slots": 1_001}))),
        ("of slots -1", worker(json!({"slots": -1}))),
        ("of 1,001 methods", worker(json!({"calls": many}))),
        (
            "of a method without a service",
            worker(json!({"calls": ["run"]})),
        ),
        (
            "of the broker's own method",
            worker(json!({"calls": ["stoker.push"]})),
        ),
        ("of a queue with a space", worker(json!({"jobs": ["a b"]}))),
        (
            "of a queue with an escape sequence",
            worker(json!({"jobs": ["a\u{1b}[2J"]})),
        ),
        (
            "of another role",
            json!({"v": [1], "role": "king"}).to_string(),
        ),
        ("of no pool", worker(json!({"pool": "nowhere"}))),
        ("of 70 KB", format!("{{\"v\":[1],\"name\":\"{long}\"}}")),
        ("of 5,000 levels", format!("{{\"v\":[1],\"name\":{deep}}}")),
        ("that is a list", "[1]".to_owned()),
        (
            "that pulls with two slots",
            worker(json!({"pull": true, "slots": 2})),
        ),
    ] {
        group.add(name, move |arena| {
            let mut client = Client::connect_without_hello(&arena.app().socket());
            client.write(&frame(Encode {
                body: body.as_bytes(),
                ..Encode::new(Type::Hello, 0)
            }));
            let fault = client.frame().expect("it is answered");
            assert_eq!(
                (fault.kind, fault.id),
                (Type::Res, 0),
                "it is refused: {}",
                fault.text()
            );
            assert!(!fault.text().is_empty());
            assert!(client.frame().is_none(), "the connection ends");
        });
    }
    vec![group]
}

/// A parent connects and passes the socket to its child, which serves; if the child exceeds its timeout, only the child
/// is killed.
fn handed_over(arena: &mut Arena) {
    let setup = arena
        .setup()
        .config("[pool.d]\nworkers = 1\ntask_timeout = \"300ms\"\nkill_grace = \"100ms\"\n");
    arena.take(setup.launch());
    let script = r#"
import json, os, socket, struct, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
child = os.fork()
if child == 0:
    body = json.dumps({"v": [1], "role": "worker", "pool": "d", "calls": ["t.run"], "pid": os.getpid()}).encode()
    s.sendall(struct.pack(">IBBBBIIHBB", 16 + len(body), 4, 0, 0, 0, 0, 0, 0, 0, 0) + body)
    while s.recv(65536): pass
    time.sleep(60)
open("parent", "w").write("x")
os.waitpid(child, 0)
open("reaped", "w").write("x")
time.sleep(60)
"#;
    let socket = arena.app().socket().display().to_string();
    let spawn = Spawn::new("python3").args(&["-c", script, &socket]);
    let mut parent = spawn.within(arena.app().dir.path()).start();
    until("it has joined", || {
        (arena.app().workers().len() == 1).then_some(())
    });
    let answer = arena
        .client()
        .request(&Request::call("t.run", "x").ttl(5_000));
    assert_ne!(answer.status(), Status::OK);
    let reaped = until("one of the two is killed", || {
        let reaped = arena.app().dir.file("reaped").exists();
        (reaped || !procs::is_alive(parent.id() as i32)).then_some(reaped)
    });
    parent.kill().ok();
    parent.wait().ok();
    assert!(reaped, "the child was killed, and its parent lives");
}

fn one_id(arena: &mut Arena) {
    let server = arena.app().server();
    let mut client = arena.client();
    let push = frame(Encode {
        name: "stoker.push",
        meta: meta_of_queue().as_meta(),
        body: b"ok",
        ..Encode::new(Type::Req, 9)
    });
    client.write(&push.repeat(2));
    let mut fault = false;
    while let Some(got) = client.frame() {
        fault |= got.id == 0 && got.status() != Status::OK;
    }
    assert!(fault, "the connection ends with a fault");
    arena.still_serves(server);
}

fn meta_of_queue() -> stoker_wire::MetaBuf {
    let mut meta = stoker_wire::MetaBuf::new();
    assert!(meta.push(Key::QUEUE, b"q"));
    meta
}

fn memory_config() -> String {
    pool_of("serve", "workers = 1\nmemory_limit = \"64MB\"")
}

fn children_of_task(arena: &mut Arena) {
    let mut client = arena.client();
    let ask = Request::call("t.run", "child eat-memory 200,silence;silence").ttl(9_000);
    let answer = client.request(&ask);
    assert_eq!(answer.status(), Status::WORKER_DIED, "{}", answer.text());
}

fn environment(arena: &mut Arena) {
    if !geteuid().is_root() {
        return;
    }
    let config = "[pool.p]\nprotocol = false\ncommand = [\"sh\", \"-c\", \"env > env; exec sleep 60\"]\nuser = \"nobody\"\nworkers = 1\n";
    let setup = arena
        .setup()
        .config(config)
        .env("HOME", "/root")
        .env("USER", "root");
    arena.start(setup);
    let env = until("it wrote", || {
        let env = std::fs::read_to_string(arena.app().dir.file("env")).ok()?;
        env.contains("STOKER_WORKER=").then_some(env)
    });
    let has = |line: &str| env.lines().any(|found| found == line);
    assert!(
        has("USER=nobody") && has("LOGNAME=nobody") && !has("HOME=/root"),
        "{env}"
    );
}

fn cut_off(arena: &mut Arena) {
    let store = Dir::new();
    let path = store.file("jobs.db");
    let config = pool_of(
        "serve",
        format!("workers = 1\nstop_grace = \"500ms\"\n[store]\npath = {path:?}\n"),
    );
    let setup = arena.setup().config(&config);
    arena.start(setup);
    let mut client = arena.client();
    let id = client.push(&Request::push("q", "note ran;once first;silence"));
    until("it runs", || arena.app().dir.notes().first().cloned());
    drop(client);
    arena.stop();
    let setup = arena.setup().config(&config);
    arena.start(setup);
    let mut client = arena.client();
    let job = client.job(&id);
    let history = job["history"].as_array().map_or(0, Vec::len);
    assert!(history > 0, "its history says that it was cut off: {job}");
}

fn idle_words(arena: &mut Arena) {
    let mut client = arena.client();
    client.call("t.run", "stderr words of an earlier task;ok");
    let from = arena.app().log().len();
    procs::kill(arena.app().pids()[0]);
    let line = arena.app().wait_for_log_after(from, "p-1*died");
    assert!(!line.contains("earlier task"), "{line}");
}

fn due_order(arena: &mut Arena) {
    let mut client = arena.client();
    pause(&mut client, "q");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("it is after 1970").as_millis() as u64;
    for ago in [1_000, 5_000, 3_000, 4_000, 2_000] {
        let due = (now - ago * 1_000).to_be_bytes();
        client.push(&Request::push("q", format!("note {ago}")).meta(Key::DUE_AT, due));
    }
    resume(&mut client, "q");
    drained(&mut client, "q");
    assert_eq!(
        arena.app().dir.notes(),
        ["5000", "4000", "3000", "2000", "1000"]
    );
}

/// A client's own job is counted once its push is answered, and not as waiting any more once it is done.
fn sizes(arena: &mut Arena) {
    let mut client = arena.client();
    for _ in 0..50 {
        let id = client.push(&Request::push("q", "ok"));
        let queue = client.queue("q");
        let known = ["ready", "running", "done"]
            .iter()
            .map(|key| queue[*key].as_u64().unwrap_or(0));
        assert!(
            known.sum::<u64>() > 0,
            "what was accepted is counted: {queue}"
        );
        client.job_in(&id, "done");
        let queue = client.queue("q");
        assert_eq!(
            (&queue["ready"], &queue["running"]),
            (&json!(0), &json!(0)),
            "{queue}"
        );
    }
    stoker_testkit::pause(Duration::from_millis(1));
}
