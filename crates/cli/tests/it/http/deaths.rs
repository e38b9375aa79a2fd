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
pub(crate) struct Seen {
    pub(crate) answered: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) reset: AtomicU64,
    pub(crate) failed: AtomicU64,
    over: AtomicBool,
}

/// Connects a client.
type Connect<'a> = &'a (dyn Fn() -> std::io::Result<Http> + Sync);

/// Calls again and again, each time on a new connection. After a reset it reconnects and repeats the call once.
fn load(connect: Connect<'_>, seen: &Seen, (method, path): (&str, &str), headers: &[(&str, &str)]) {
    while !seen.over.load(Ordering::Relaxed) {
        let mut outcome = &seen.failed;
        for _ in 0..2 {
            let Ok(mut http) = connect() else {
                outcome = &seen.refused;
                break;
            };
            match http.request(method, path, headers, "ok") {
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
fn a_stopped_gateway_is_killed_and_restarted() {
    let app = start("[stoker]\nwatchdog = \"1s\"");
    post(&app, "/call/t.run", &[], "ok");
    let gateway = app.gateway("http");
    procs::signal(gateway, Signal::STOP);
    assert!(procs::wait_for_exit(gateway, 10.0), "somebody noticed");
    let line = "gateway http (pid *) ended with *: it made no progress for 1 s and was killed; restarting now";
    app.wait_for_log(line);
    // The angel holds the listener, so the call waits for the next process.
    assert_eq!(post(&app, "/call/t.run", &[], "ok").status, 200);
}

#[test]
fn an_idle_gateway_makes_progress() {
    let app = start("[stoker]\nwatchdog = \"1s\"");
    let gateway = app.gateway("http");
    assert!(!procs::wait_for_exit(gateway, 4.0), "it is well");
}

/// Runs `work` while clients call, and returns their counters.
fn under_load(app: &App, headers: &[(&str, &str)], work: impl FnOnce(&Seen)) -> Seen {
    let path = app.dir.file("http.sock");
    let connect = || Http::unix(&path);
    requests_under_load(&connect, ("POST", "/call/t.again"), headers, work)
}

/// The same with any request.
pub(crate) fn requests_under_load(
    connect: Connect<'_>,
    request: (&str, &str),
    headers: &[(&str, &str)],
    work: impl FnOnce(&Seen),
) -> Seen {
    let seen = Seen::default();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| load(connect, &seen, request, headers));
        }
        more(&seen);
        work(&seen);
        more(&seen);
        seen.over.store(true, Ordering::Relaxed);
    });
    seen
}

/// Waits until 50 more calls have been answered.
pub(crate) fn more(seen: &Seen) {
    let goal = seen.answered.load(Ordering::Relaxed) + 50;
    until("calls are answered", || {
        (seen.answered.load(Ordering::Relaxed) >= goal).then_some(())
    });
}

#[test]
fn a_killed_gateway_is_restarted_and_no_connection_is_refused() {
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
fn a_killed_server_fails_no_idempotent_call() {
    let app = start("");
    let seen = under_load(&app, &[("stoker-idempotent", "true")], |seen| {
        for _ in 0..3 {
            let from = app.log().len();
            procs::kill(app.server());
            app.wait_for_log_after(from, "the server was restarted");
            more(seen);
        }
    });
    assert_eq!(seen.refused.into_inner(), 0);
    assert_eq!(seen.reset.into_inner(), 0, "the gateway lives on");
    assert_eq!(seen.failed.into_inner(), 0, "the gateway has asked again");
}

#[test]
fn killed_workers_fail_no_idempotent_call() {
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
fn a_lost_call_that_is_not_idempotent_is_answered_with_unknown() {
    let app = start("");
    let gate = app.dir.gate("gate");
    let mut http = app.http();
    http.send("POST", "/call/t.run", &[], "gate gate;ok")
        .expect("it is sent");
    let _held = gate.wait_for_worker();
    procs::kill(app.server());
    let answer = http.answer().expect("an answer");
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (502, Some("CONNECTION_LOST"))
    );
    app.wait_for_log("the server was restarted");
}

#[test]
fn running_requests_are_answered_before_a_shutdown() {
    let app = start("");
    let gate = app.dir.gate("gate");
    let mut running = app.http();
    running
        .send("POST", "/call/t.run", &[], "gate gate;big 2000000")
        .expect("it is sent");
    let held = gate.wait_for_worker();
    let mut idle = app.http();
    assert_eq!(
        idle.request("GET", "/ready", &[], "")
            .expect("an answer")
            .status,
        200
    );
    app.term();
    app.wait_for_log("shutting down");
    let late = until("it is told", || {
        let answer = post(&app, "/call/t.run", &[], "ok");
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(late.header("connection"), Some("close"));
    assert_eq!(
        app.http()
            .request("GET", "/ready", &[], "")
            .expect("an answer")
            .status,
        503
    );
    assert_eq!(
        app.http()
            .request("GET", "/health", &[], "")
            .expect("an answer")
            .status,
        200
    );
    drop(held);
    let answer = running.answer().expect("an answer");
    assert_eq!((answer.status, answer.body.len()), (200, 2_000_000));
    let socket = app.dir.file("http.sock");
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(
        ended.took < limit(4.0),
        "an idle connection holds up nobody: {:?}",
        ended.took
    );
    assert!(!socket.exists());
}

#[test]
fn gateways_end_with_the_angel() {
    let app = start("");
    let gateway = app.gateway("http");
    procs::kill(app.angel());
    assert!(procs::wait_for_exit(gateway, 5.0));
    assert_ne!(app.wait_for_exit().code, 0);
}

#[test]
fn signals_to_all_processes_are_handled_by_the_angel() {
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
fn without_the_http_section_there_is_no_gateway() {
    let app = setup().config(&pool_of("serve", "workers = 1")).start();
    assert_eq!(procs::gateway_of(app.angel(), "http"), None);
}
