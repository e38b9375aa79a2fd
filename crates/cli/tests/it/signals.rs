//! Signals from outside: to the angel, to the server, and to all processes at once.

use crate::{pool_of, setup, signal_all, start, start_of};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use stoker_testkit::{Request, pause, procs, until};
use stoker_wire::Status;

/// Signals that mean nothing to Stoker. USR1 is one of them if the log is not a file.
const EMPTY: [Signal; 9] = [
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
    Signal::POWER,
    Signal::CONT,
    Signal::WINCH,
];

#[test]
fn term_or_int_to_all_processes_drains() {
    for signal in [Signal::TERM, Signal::INT] {
        let app = start_of("ignore-term;ignore-int;serve", "workers = 2");
        let gate = app.dir.gate("gate");
        let mut client = app.client();
        client.push(&Request::push("mails", "gate gate;note finished"));
        let held = gate.wait_for_worker();
        signal_all(&app, signal);
        app.wait_for_log("shutting down");
        drop(held);
        let ended = app.wait_for_exit();
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert_eq!(ended.dir.notes(), ["finished"]);
        let log = ended.log.trim_end();
        assert!(
            log.ends_with("drained") && !log.contains("died") && !log.contains("killed"),
            "{log}"
        );
    }
}

#[test]
fn the_server_ignores_signals_and_leaves_them_to_the_angel() {
    let app = start("workers = 1");
    let server = app.server();
    let others = [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP];
    for signal in EMPTY.into_iter().chain(others) {
        procs::signal(server, signal);
        assert_eq!(app.call("t.run", "ok").status(), Status::OK, "{signal:?}");
    }
    assert_eq!(app.server(), server);
    let log = app.log();
    assert!(
        !log.contains("shutting down") && !log.contains("reloaded"),
        "{log}"
    );
}

/// The angel starts processes while its own signals are blocked. They must not inherit that.
#[test]
fn no_process_starts_with_blocked_signals() {
    let app = start("workers = 1");
    for pid in procs::children(app.angel()) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let blocked = status
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:\t"));
        assert_eq!(blocked, Some("0000000000000000"), "{status}");
    }
}

#[test]
fn signals_without_a_meaning_do_not_affect_the_angel() {
    let app = start("workers = 1");
    for signal in EMPTY {
        procs::signal(app.angel(), signal);
        // Only the angel can start a worker.
        let reload = serde_json::json!({"op": "reload"});
        let answer = app.client().call_server("stoker.pool", &reload);
        assert_eq!(answer["pools"][0]["reloaded"], true, "{signal:?}");
    }
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn signals_within_a_second_of_the_first_are_the_same_request() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let call = client.send(&Request::call("t.run", "gate gate;ok finished"));
    let held = gate.wait_for_worker();
    // Two pending signals of one kind might be merged.
    procs::signal(app.angel(), Signal::TERM);
    procs::signal(app.angel(), Signal::INT);
    procs::signal(app.angel(), Signal::TERM);
    app.wait_for_log("shutting down");
    drop(held);
    assert_eq!(client.answer(call).text(), "finished");
    assert_eq!(app.wait_for_exit().code, 0);
}

#[test]
fn a_later_int_kills_everything_at_once() {
    let app = start_of("stubborn;serve", "workers = 1\nstop_grace = \"60s\"");
    app.term();
    app.wait_for_log("shutting down");
    // A signal counts as a new one only after a second.
    pause(std::time::Duration::from_millis(1_050));
    procs::signal(app.angel(), Signal::INT);
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 1, "it did not end well");
    assert!(ended.took < stoker_testkit::limit(3.0), "{:?}", ended.took);
}

fn mode(path: &Path) -> u32 {
    let file = std::fs::metadata(path).expect("it is there");
    file.permissions().mode() & 0o777
}

#[test]
fn usr1_and_hup_reopen_the_log_file() {
    let app = setup()
        .config(&pool_of(
            "serve",
            "workers = 1\n[log]\nfile = \"stoker.log\"",
        ))
        .start();
    let log = app.dir.file("stoker.log");
    assert_eq!(mode(&log), 0o600, "it tells what jobs print");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let rotations = [(Signal::USR1, "one", "two"), (Signal::HUP, "two", "three")];
    for (number, (signal, before, after)) in rotations.into_iter().enumerate() {
        let old = app.dir.file(&format!("stoker.log.{number}"));
        app.call("t.run", &format!("stdout {before}"));
        until("it is written", || {
            read(&log)
                .contains(&format!("stdout t.run#1: {before}\n"))
                .then_some(())
        });
        std::fs::rename(&log, &old).expect("it can be moved");
        procs::signal(app.angel(), signal);
        until("the file is there again", || log.exists().then_some(()));
        let moved = read(&old);
        app.call("t.run", &format!("stdout {after}"));
        until("it goes to the new file", || {
            read(&log)
                .contains(&format!("stdout t.run#1: {after}\n"))
                .then_some(())
        });
        assert_eq!(read(&old), moved, "and to that alone");
        assert_eq!(mode(&log), 0o600);
    }
    app.ready();
    until("HUP reloads as well", || {
        read(&log)
            .contains("all workers of pool p run version 2")
            .then_some(())
    });
    assert!(!read(&app.dir.file("stoker.log.0")).contains("version 2"));
}

#[test]
fn a_log_file_that_cannot_be_reopened_stays_in_use() {
    let config = pool_of("serve", "workers = 1\n[log]\nfile = \"logs/stoker.log\"");
    let setup = setup().config(&config);
    std::fs::create_dir(setup.dir().file("logs")).expect("a directory can be made");
    let app = setup.start();
    let moved = app.dir.file("moved");
    std::fs::rename(app.dir.file("logs"), &moved).expect("it can be moved");
    procs::signal(app.angel(), Signal::USR1);
    until("it is logged", || {
        let log = std::fs::read_to_string(moved.join("stoker.log")).unwrap_or_default();
        let text = format!(
            "error cannot write the log {}: ",
            app.dir.file("logs/stoker.log").display()
        );
        log.contains(&text).then_some(())
    });
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

/// A program without the protocol receives TERM as well, and handles it in its own way.
#[test]
fn term_to_all_processes_ends_plain_programs_and_drains() {
    let config = "[pool.p]\ncommand = [\"sleep\", \"1000\"]\nprotocol = false\nworkers = 2\n";
    let app = setup().config(config).start();
    signal_all(&app, Signal::TERM);
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.trim_end().ends_with("drained"), "{}", ended.log);
}
