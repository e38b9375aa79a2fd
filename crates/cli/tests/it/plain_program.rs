//! Pools whose processes speak no protocol, such as a stock `queue:work`.

use crate::setup;
use stoker_testkit::{App, until};

/// Starts a pool whose process is a shell script, with further keys of the pool.
fn start(script: &str, rest: &str) -> App {
    let app = launch(script, rest);
    app.ready();
    app
}

/// Like `start`, without waiting until the pool is ready.
fn launch(script: &str, rest: &str) -> App {
    let script = format!("{script:?}");
    let config =
        format!("[pool.p]\nprotocol = false\ncommand = [\"sh\", \"-c\", {script}]\n{rest}\n");
    setup().config(&config).launch()
}

/// Works until TERM, then finishes its current work.
const WORKS: &str = "trap 'echo finishing >> notes; exit 0' TERM; echo began >> notes; \
                     while :; do sleep 0.01; done";

fn notes(app: &App, count: usize) -> Vec<String> {
    until("so many notes", || {
        let notes = std::fs::read_to_string(app.dir.file("notes")).unwrap_or_default();
        let notes: Vec<String> = notes.lines().map(str::to_owned).collect();
        (notes.len() >= count).then_some(notes)
    })
}

#[test]
fn a_plain_program_is_ready_once_it_runs_and_ends_at_term() {
    let app = start(WORKS, "workers = 1");
    app.wait_for_log("p-1 is ready (pid ");
    notes(&app, 1);
    let dir = app.dir.clone();
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    let notes = std::fs::read_to_string(dir.file("notes")).expect("it wrote");
    assert_eq!(notes, "began\nfinishing\n");
}

#[test]
fn a_plain_program_inherits_no_socket_but_knows_stokers_path() {
    let app = start("env > env; exec sleep 60", "workers = 1");
    let env = until("it wrote", || {
        let env = std::fs::read_to_string(app.dir.file("env")).ok()?;
        env.contains("STOKER_WORKER=").then_some(env)
    });
    assert!(!env.contains("STOKER_FD="), "{env}");
    assert!(env.contains("STOKER_SOCKET=/"), "{env}");
}

#[test]
fn a_reload_replaces_a_plain_program() {
    let app = start(WORKS, "workers = 1");
    notes(&app, 1);
    assert_eq!(app.cli(&["reload"]).code, 0);
    let mut notes = notes(&app, 3);
    notes.sort_unstable();
    assert_eq!(notes, ["began", "began", "finishing"]);
    app.wait_for_log("p-1 has ended (exit code 0)");
}

#[test]
fn a_plain_program_that_exits_with_success_is_restarted_at_once() {
    let app = launch("echo ran >> notes; exit 12", "workers = 1");
    assert_eq!(notes(&app, 3)[..3], ["ran"; 3]);
    app.wait_for_log("p-2 has ended (exit code 12)");
    assert!(!app.log().contains("next boot"), "{}", app.log());
}

#[test]
fn a_plain_program_that_fails_is_restarted_with_backoff() {
    let app = launch("echo no such command >&2; exit 1", "workers = 1");
    app.wait_for_log("p-2 ended before it ran a task (exit code 1): no such command; next boot in");
}

#[test]
fn a_plain_program_that_ignores_term_is_killed_after_the_grace_period() {
    let app = start(
        "trap '' TERM; echo began >> notes; while :; do sleep 0.01; done",
        "workers = 1\nstop_grace = \"200ms\"",
    );
    notes(&app, 1);
    let ended = app.stop();
    assert!(
        ended
            .log
            .contains("p-1 is killed: it did not end within stop_grace"),
        "{}",
        ended.log
    );
}
