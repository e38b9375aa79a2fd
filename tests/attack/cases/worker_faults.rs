//! Every fault of a worker, with a call and with jobs of each kind: the processes and the runs are bounded, and every
//! task ends.

use crate::arena::{Arena, drained};
use crate::bounds::Bounds;
use crate::case::Group;
use stoker_testkit::{Request, pool_of, procs, until};
use stoker_wire::{Key, Status};

/// Names and scripts. Other callers must not be affected by any of them.
const FAULTS: &[(&str, &str)] = &[
    ("garbage", "garbage;silence"),
    ("half a frame", "half-frame;silence"),
    ("an answer to nobody", "wrong-id;silence"),
    ("two answers", "reply-twice"),
    ("a request", "wrong-type;silence"),
    ("a second HELLO", "hello-again;silence"),
    ("RETURNED without a GOAWAY", "returned"),
    ("GOAWAY in its task", "goaway;ok"),
    ("GOAWAY in its task, then silence", "goaway;silence"),
    ("GOAWAY, then exit", "goaway;exit 0"),
    ("a hundred GOAWAYs", "hundred goaway"),
    ("its socket closed", "close-fd;silence"),
    ("exit 0", "exit 0"),
    ("exit 1", "exit 1"),
    ("SIGSEGV", "segv"),
    ("SIGABRT", "abort"),
    ("a child that stays", "child silence;exit 1"),
    ("a child of another session", "child setsid,silence;exit 1"),
    (
        "a child without environment",
        "child-without-env silence;exit 1",
    ),
    ("ten thousand lines", "flood-stdout 10000;ok"),
    ("a line of 5 MB", "line 5000000;ok"),
    ("an answer of 15 MB", "big 15000000"),
    ("an answer above the frame", "big 16777300"),
    ("a wrong acknowledgement", "ack;exit 1"),
    ("progress that is no JSON", "progress {{{;ok"),
    ("a checkpoint above its bound", "checkpoint-of 40000;ok"),
];

/// The faults that the quick run leaves out, because it runs a similar one.
const SLOW: &[&str] = &[
    "half a frame",
    "a request",
    "a second HELLO",
    "GOAWAY, then exit",
    "a hundred GOAWAYs",
    "its socket closed",
    "exit 1",
    "SIGABRT",
    "a child of another session",
    "ten thousand lines",
    "a line of 5 MB",
    "an answer above the frame",
    "progress that is no JSON",
];

pub(crate) fn groups() -> Vec<Group> {
    FAULTS
        .iter()
        .map(|(name, script)| fault(name, script))
        .collect()
}

fn fault(name: &'static str, script: &'static str) -> Group {
    let script = match script.split_once(' ') {
        Some(("hundred", step)) => format!("{};ok", vec![step; 100].join(";")),
        Some(("checkpoint-of", _)) => format!("checkpoint {};ok", "c".repeat(40_000)),
        _ => script.to_owned(),
    };
    let config = pool_of(
        "serve",
        "workers = 1\ntask_timeout = \"700ms\"\nstop_grace = \"300ms\"\nkill_grace = \"100ms\"\n\
         [queue.twice]\ntries = 2\nbackoff = [\"0s\"]\n[queue.once]\nack = \"delivery\"",
    );
    let group = Group::new("A6", format!("a worker's fault, {name}"));
    let group = group.config(config).bounds(Bounds {
        rss_mb: 192,
        log_mb: 32,
        // Angel, server, one worker, its successor, workers that are leaving, and processes that they started.
        processes: 12,
        ..Bounds::USUAL
    });
    let [one, two, three, four, five] = std::array::from_fn(|_| script.clone());
    let group = if SLOW.contains(&name) {
        group.slow()
    } else {
        group
    };
    group
        .case("a call", move |arena| call(arena, "t.run", &one))
        .case("an idempotent call", move |arena| {
            call(arena, "t.again", &two);
        })
        .case("a job of one try", move |arena| {
            job(arena, "single", &three, 4);
        })
        .case("a job of two tries", move |arena| {
            job(arena, "twice", &four, 8);
        })
        .case("a job acknowledged on delivery", move |arena| {
            job(arena, "once", &five, 1);
        })
}

/// Checks that the caller gets one typed answer, and that the next caller is served.
fn call(arena: &mut Arena, name: &str, script: &str) {
    let server = arena.app().server();
    let script = format!("note call-{name};{script}");
    let answer = arena
        .client()
        .request(&Request::call(name, script).ttl(6_000));
    assert_ne!(answer.status(), Status::INTERNAL, "{}", answer.text());
    next_is_served(arena);
    assert_eq!(arena.app().server(), server);
    // A call may be returned three times before that counts as a failed run.
    runs_at_most(arena, &format!("call-{name}"), 4);
}

/// Checks that the job ends after at most the runs that its tries, the crash budget and three returns for each allow.
fn job(arena: &mut Arena, queue: &str, script: &str, runs: usize) {
    let server = arena.app().server();
    let mut client = arena.client();
    let push = Request::push(queue, format!("note job-{queue};{script}"));
    let id = client.push(&push.meta(Key::JOB_TYPE, "Fault"));
    let found = drained(&mut client, queue);
    let ended = found["done"].as_u64().unwrap_or(0) + found["failed"].as_u64().unwrap_or(0);
    assert_eq!(ended, 1, "it has ended: {}", client.job(&id));
    next_is_served(arena);
    assert_eq!(arena.app().server(), server);
    runs_at_most(arena, &format!("job-{queue}"), runs);
}

fn next_is_served(arena: &Arena) {
    until("the next call is served", || {
        let answer = arena.app().call("t.again", "ok next");
        (answer.status() == Status::OK).then_some(())
    });
    until("what the fault left behind is gone", || {
        // Angel, server, and a worker that may already have a successor.
        (procs::tree(arena.app().angel()).len() <= 4).then_some(())
    });
}

fn runs_at_most(arena: &Arena, note: &str, most: usize) {
    let runs = arena
        .app()
        .dir
        .notes()
        .iter()
        .filter(|line| *line == note)
        .count();
    assert!(runs <= most, "it ran {runs} times, {most} are allowed");
}
