//! The gateway, the server and workers die under load, and Stoker shuts down.

use super::{post, start};
use crate::{pool_of, setup};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use stoker_testkit::{App, Http, limit, procs, until};

const THREADS: usize = 4;

/// Counters of the clients, which continue through all deaths.
#[derive(Default)]
struct Seen {
    answered: AtomicU64,
    refused: AtomicU64,
    reset: AtomicU64,
    failed: AtomicU64,
    over: AtomicBool,
}

/// Calls again and again, each time on a new connection. After a reset it reconnects and repeats the call once.
fn load(app: &App, seen: &Seen, headers: &[(&str, &str)]) {
    let path = app.dir.file("http.sock");
    while !seen.over.load(Ordering::Relaxed) {
        let mut outcome = &seen.failed;
        for _ in 0..2 {
            let Ok(mut http) = Http::unix(&path) else {
                outcome = &seen.refused;
                break;
            };
            match http.ask("POST", "/call/t.again", headers, "ok") {
                Ok(answer) if answer.status == 200 => {
                    outcome = &seen.answered;
                    break;
                }
                Ok(answer) => eprintln!("{} {}", answer.status, answer.text()),
                Err(_) => drop(seen.reset.fetch_add(1, Ordering::Relaxed)),
            }
        }
        outcome.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_gateway_that_was_stopped_is_killed_and_started_again() {
    let app = start("[stoker]\nwatchdog = \"1s\"");
    post(&app, "/call/t.run", &[], "ok");
    let gateway = app.gateway("http");
    procs::signal(gateway, Signal::STOP);
    assert!(procs::ends_within(gateway, 10.0), "somebody noticed");
    let line = "gateway http (pid *) ended with *: it made no progress for 1 s and was killed; it is started again";
    app.wait_for_log(line);
    // The angel holds the listener, so the call waits for the next process.
    assert_eq!(post(&app, "/call/t.run", &[], "ok").status, 200);
}

#[test]
fn an_idle_gateway_makes_progress() {
    let app = start("[stoker]\nwatchdog = \"1s\"");
    let gateway = app.gateway("http");
    assert!(!procs::ends_within(gateway, 4.0), "it is well");
}

/// Runs `work` while clients call, and returns their counters.
fn under_load(app: &App, headers: &[(&str, &str)], work: impl FnOnce(&Seen)) -> Seen {
    let seen = Seen::default();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| load(app, &seen, headers));
        }
        more(&seen);
        work(&seen);
        more(&seen);
        seen.over.store(true, Ordering::Relaxed);
    });
    seen
}

/// Waits until 50 more calls have been answered.
fn more(seen: &Seen) {
    let goal = seen.answered.load(Ordering::Relaxed) + 50;
    until("calls are answered", || {
        (seen.answered.load(Ordering::Relaxed) >= goal).then_some(())
    });
}

#[test]
fn a_gateway_that_is_killed_is_started_again_and_refuses_nobody() {
    let app = start("");
    let seen = under_load(&app, &[("stoker-idempotent", "true")], |seen| {
        for _ in 0..3 {
            let from = app.log().len();
            let pid = app.gateway("http");
            procs::kill(pid);
            app.wait_for_log_after(from, "gateway http (pid*ended with signal 9");
            app.wait_for_log_after(from, "gateway http: listening");
            more(seen);
        }
    });
    assert_eq!(seen.refused.into_inner(), 0, "the angel listens");
    assert_eq!(seen.failed.into_inner(), 0, "one retry is enough");
    assert!(seen.reset.into_inner() <= (3 * THREADS) as u64);
}

#[test]
fn a_server_that_is_killed_costs_no_idempotent_call() {
    let app = start("");
    let seen = under_load(&app, &[("stoker-idempotent", "true")], |seen| {
        for _ in 0..3 {
            let from = app.log().len();
            procs::kill(app.server());
            app.wait_for_log_after(from, "the server was started again");
            more(seen);
        }
    });
    assert_eq!(seen.refused.into_inner(), 0);
    assert_eq!(seen.reset.into_inner(), 0, "the gateway lives on");
    assert_eq!(seen.failed.into_inner(), 0, "the gateway has asked again");
}

#[test]
fn workers_that_are_killed_cost_no_idempotent_call() {
    let app = start("");
    let seen = under_load(&app, &[("stoker-idempotent", "true")], |seen| {
        for _ in 0..3 {
            app.pids().into_iter().for_each(procs::kill);
            more(seen);
        }
    });
    assert_eq!(
        seen.failed.into_inner() + seen.refused.into_inner() + seen.reset.into_inner(),
        0
    );
}

#[test]
fn of_a_call_that_may_not_be_repeated_the_client_hears_that_nobody_knows() {
    let app = start("");
    let gate = app.dir.gate("gate");
    let mut http = app.http();
    http.send("POST", "/call/t.run", &[], "gate gate;ok")
        .expect("it is sent");
    let _held = gate.meet();
    procs::kill(app.server());
    let answer = http.answer().expect("an answer");
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (502, Some("CONNECTION_LOST"))
    );
    app.wait_for_log("the server was started again");
}

#[test]
fn what_runs_is_answered_before_the_end() {
    let app = start("");
    let gate = app.dir.gate("gate");
    let mut running = app.http();
    running
        .send("POST", "/call/t.run", &[], "gate gate;big 2000000")
        .expect("it is sent");
    let held = gate.meet();
    let mut idle = app.http();
    assert_eq!(
        idle.ask("GET", "/ready", &[], "")
            .expect("an answer")
            .status,
        200
    );
    app.term();
    app.wait_for_log("draining");
    let late = until("it is told", || {
        let answer = post(&app, "/call/t.run", &[], "ok");
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(late.header("connection"), Some("close"));
    assert_eq!(
        app.http()
            .ask("GET", "/ready", &[], "")
            .expect("an answer")
            .status,
        503
    );
    assert_eq!(
        app.http()
            .ask("GET", "/health", &[], "")
            .expect("an answer")
            .status,
        200
    );
    drop(held);
    let answer = running.answer().expect("an answer");
    assert_eq!((answer.status, answer.body.len()), (200, 2_000_000));
    let socket = app.dir.file("http.sock");
    let ended = app.ended();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(
        ended.took < limit(4.0),
        "an idle connection holds up nobody: {:?}",
        ended.took
    );
    assert!(!socket.exists());
}

#[test]
fn no_gateway_outlives_its_angel() {
    let app = start("");
    let gateway = app.gateway("http");
    procs::kill(app.angel());
    assert!(procs::ends_within(gateway, 5.0));
    assert_ne!(app.ended().code, 0);
}

#[test]
fn signals_to_all_processes_are_the_angels() {
    let app = setup().config(&super::config("")).start();
    let gateway = app.gateway("http");
    for signal in [
        rustix::process::Signal::TERM,
        rustix::process::Signal::INT,
        rustix::process::Signal::HUP,
    ] {
        procs::signal(gateway, signal);
    }
    assert_eq!(post(&app, "/call/t.run", &[], "ok").status, 200);
    assert_eq!(app.gateway("http"), gateway);
}

#[test]
fn without_the_section_there_is_no_gateway() {
    let app = setup().config(&pool_of("serve", "workers = 1")).start();
    assert_eq!(procs::gateway_of(app.angel(), "http"), None);
}
