//! The end that an operator asks for.

use crate::{start, start_of};
use std::time::Duration;
use stoker_testkit::{Ask, procs};
use stoker_wire::{Status, Type};

#[test]
fn an_idle_stoker_ends_at_once_and_takes_its_socket_along() {
    let app = start("workers = 2");
    let socket = app.socket();
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.took < stoker_testkit::limit(2.0), "{:?}", ended.took);
    assert!(!socket.exists());
    assert!(
        ended
            .log
            .contains("draining: nothing new is taken, what runs is finished")
    );
    assert!(ended.log.trim_end().ends_with("drained"), "{}", ended.log);
}

#[test]
fn what_runs_is_finished_and_what_comes_is_refused() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = client.send(&Ask::call("t.run", "gate gate;ok finished"));
    let waiting = client.send(&Ask::call("t.run", "ok waited"));
    let held = gate.meet();
    client.fence();
    app.term();
    app.wait_for_log("draining");
    client.fence();
    assert!(
        client.others.iter().any(|got| got.kind == Type::Goaway),
        "clients are told"
    );
    let late = client.call("t.run", "ok late");
    assert_eq!(late.status(), Status::UNAVAILABLE, "{}", late.text());
    let push = client.ask(&Ask::push("mails", "ok"));
    assert!(push.text().contains("the server drains"), "{}", push.text());
    drop(held);
    assert_eq!(client.answer(running).text(), "finished");
    assert_eq!(
        client.answer(waiting).text(),
        "waited",
        "it had been let in"
    );
    let ended = app.ended();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn a_running_job_is_finished_and_a_waiting_one_is_counted_as_lost() {
    let app = start("workers = 1\n[store]\ndriver = \"memory\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.push(&Ask::push("mails", "gate gate;note first"));
    let held = gate.meet();
    client.push(&Ask::push("mails", "note second"));
    client.push(
        &Ask::push("mails", "note third").meta(stoker_wire::Key::DELAY, 60_000u64.to_be_bytes()),
    );
    app.term();
    app.wait_for_log("draining");
    drop(held);
    let ended = app.ended();
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .log
            .contains("2 jobs in memory were not finished and are lost"),
        "{}",
        ended.log
    );
    assert_eq!(ended.dir.notes(), ["first"]);
}

#[test]
fn a_worker_that_will_not_go_is_told_by_term_and_then_killed() {
    let app = start_of(
        "ignore-term;stubborn;serve",
        "workers = 1\nstop_grace = \"1500ms\"",
    );
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(
        ended
            .log
            .contains("p-1 is killed: it did not end within stop_grace"),
        "{}",
        ended.log
    );
    assert!(
        ended.took >= Duration::from_millis(1500),
        "{:?}",
        ended.took
    );
    assert!(ended.took < stoker_testkit::limit(4.0), "{:?}", ended.took);
}

#[test]
fn a_worker_that_is_deaf_to_goaway_goes_at_term() {
    let app = start_of("stubborn;serve", "workers = 1\nstop_grace = \"1500ms\"");
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    assert!(
        ended.log.contains("p-1 has gone (signal 15 (TERM))"),
        "{}",
        ended.log
    );
    assert!(!ended.log.contains("killed"), "{}", ended.log);
}

#[test]
fn a_task_longer_than_the_grace_is_ended_with_its_worker() {
    let app = start("workers = 1\nstop_grace = \"700ms\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let call = client.send(&Ask::call("t.run", "ignore-term;gate gate"));
    let held = gate.meet();
    app.term();
    let answer = client.answer(call);
    assert_eq!(answer.status(), Status::WORKER_DIED, "{}", answer.text());
    let ended = app.ended();
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .log
            .contains("p-1 is killed at t.run#1: it did not end within stop_grace")
    );
    drop(held);
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let app = start_of(
        "ignore-term;stubborn;serve",
        "workers = 2\nstop_grace = \"60s\"",
    );
    app.term();
    app.wait_for_log("draining");
    app.term();
    let ended = app.ended();
    assert_eq!(ended.code, 1, "it did not end well");
    assert!(ended.took < stoker_testkit::limit(3.0), "{:?}", ended.took);
}

#[test]
fn int_drains_as_term_does() {
    let app = start("workers = 1");
    procs::signal(app.angel(), rustix::process::Signal::INT);
    let ended = app.ended();
    assert_eq!(ended.code, 0);
    assert!(ended.log.contains("drained"));
}

#[test]
fn a_signal_while_workers_boot_does_not_wait_for_them() {
    let app = crate::setup()
        .config(&crate::pool_of(
            "silence",
            "workers = 3\nboot_timeout = \"60s\"",
        ))
        .launch();
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.took < stoker_testkit::limit(2.0), "{:?}", ended.took);
}

#[test]
fn a_paused_queue_does_not_hold_up_the_end() {
    let app = start("workers = 1");
    let mut client = app.client();
    client.push(&Ask::push("mails", "ok"));
    client.own(
        "stoker.queue",
        &serde_json::json!({"op": "pause", "queue": "mails"}),
    );
    client.push(&Ask::push("mails", "ok"));
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    assert!(ended.took < stoker_testkit::limit(2.0), "{:?}", ended.took);
}
