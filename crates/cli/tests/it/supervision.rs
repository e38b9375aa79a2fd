//! Faults of a worker that has a task, and their effect on the task, the worker and the other workers.

use crate::{start, start_of};
use stoker_testkit::{App, Request, procs, until};
use stoker_wire::Status;

/// Waits until all workers have been replaced by processes with other pids.
#[track_caller]
fn replaced(app: &App, old: &[i32]) {
    until("a new worker in the old one's place", || {
        let now = app.pids();
        (now.len() == old.len() && now.iter().all(|pid| !old.contains(pid))).then_some(())
    });
}

/// Makes a call to the only worker with this script; checks the error, and waits for a log line.
#[track_caller]
fn dies(script: &str, told: &str, logged: &str) {
    let app = start("workers = 1\ncrash_budget = 1");
    let before = app.pids();
    let answer = app.call("t.run", script);
    assert_eq!(
        answer.status(),
        Status::WORKER_DIED,
        "{script}: {}",
        answer.text()
    );
    assert!(answer.text().contains(told), "{script}: {}", answer.text());
    app.wait_for_log(logged);
    replaced(&app, &before);
    assert_eq!(app.call("t.run", "ok again").text(), "again", "{script}");
    assert_eq!(app.pool()["restarts"], 1, "{script}");
}

#[test]
fn a_worker_that_dies_during_a_task_is_reported_with_its_exit() {
    dies(
        "exit 3",
        "exit code 3",
        "p-1 died with exit code 3 while it ran a task",
    );
    dies(
        "exit 0",
        "exit code 0",
        "p-1 died with exit code 0 while it ran a task",
    );
    dies(
        "segv",
        "signal 11 (SEGV)",
        "p-1 died with signal 11 (SEGV) while it ran a task",
    );
    dies(
        "kill",
        "signal 9 (KILL)",
        "p-1 died with signal 9 (KILL) while it ran a task",
    );
    dies("abort", "signal 6 (ABRT)", "p-1 died with signal 6");
}

#[test]
fn an_incomplete_response_of_a_dead_worker_is_not_an_answer() {
    dies(
        "half-frame;segv",
        "SEGV",
        "p-1 died with signal 11 (SEGV) while it ran a task",
    );
}

#[test]
fn a_worker_that_sends_invalid_bytes_is_killed() {
    dies(
        "garbage;silence",
        "KILL",
        "p-1 broke the protocol: frame length * is above the limit",
    );
    dies(
        "garbage;ok late;silence",
        "KILL",
        "p-1 died with signal 9 (KILL) while it ran a task; it broke the protocol",
    );
}

#[test]
fn a_worker_that_sends_an_unexpected_frame_is_killed() {
    dies(
        "wrong-id;silence",
        "KILL",
        "p-1 is killed at t.run#1: it broke the protocol",
    );
    dies(
        "wrong-type;silence",
        "KILL",
        "p-1 broke the protocol: a worker may send only HELLO, RES",
    );
    dies(
        "returned;silence",
        "KILL",
        "p-1 is killed at t.run#1: it broke the protocol",
    );
    dies(
        "hello-again;silence",
        "KILL",
        "p-1 is killed at t.run#1: it broke the protocol",
    );
}

#[test]
fn a_second_response_is_dropped() {
    let app = start("workers = 1");
    let before = app.pids();
    assert_eq!(app.call("t.run", "reply-twice;silence").text(), "once");
    app.wait_for_log("p-1 is killed: it broke the protocol");
    replaced(&app, &before);
}

/// The worker gets its own job again, and answers the run that it had already released.
#[test]
fn a_second_response_does_not_end_another_run() {
    let app = start("workers = 1\n[queue.mails]\ntries = 3\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let script = "note ran;once first;retry-and-reply;silence";
    let id = client.push(&Request::push("mails", script));
    client.job_in(&id, "done");
    app.wait_for_log("it broke the protocol");
    assert_eq!(
        app.dir.notes().iter().filter(|note| *note == "ran").count(),
        2
    );
}

#[test]
fn a_response_sent_before_the_death_of_a_worker_counts() {
    let app = start("workers = 1");
    let before = app.pids();
    assert_eq!(app.call("t.run", "ok done;segv").text(), "done");
    app.wait_for_log("p-1 died with signal 11 (SEGV)");
    replaced(&app, &before);
    let died = app.log();
    assert!(
        !died.contains("while it ran a task"),
        "it had answered: {died}"
    );
}

#[test]
fn a_large_response_sent_before_the_death_of_a_worker_counts() {
    let app = start("workers = 1");
    // The death is reported through another channel than the answer. In 25 rounds it would sometimes overtake the
    // answer.
    for _ in 0..25 {
        let before = app.pids();
        let answer = app.call("t.run", "big 190000;kill");
        assert_eq!((answer.status(), answer.body.len()), (Status::OK, 190_000));
        replaced(&app, &before);
    }
}

#[test]
fn a_worker_that_closes_its_socket_is_killed() {
    let app = start("workers = 1");
    let answer = app.call("t.run", "close-fd;silence");
    assert_eq!(answer.status(), Status::WORKER_DIED, "{}", answer.text());
    app.wait_for_log("p-1 closed its socket but keeps running; it is killed");
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn an_idle_worker_that_dies_is_replaced() {
    let app = start("workers = 2");
    let of_use = app.call("t.run", "tell").meta(stoker_wire::Key::WORKER);
    let of_use = of_use.expect("an answer tells who gave it");
    let before = app.pids();
    before.iter().for_each(|pid| procs::kill(*pid));
    replaced(&app, &before);
    app.wait_for_log(&format!("{of_use} died with signal 9 (KILL)"));
    app.wait_for_log("p-*ended before it ran a task (signal 9 (KILL)); next boot in");
}

#[test]
fn other_tasks_continue_while_workers_die() {
    let app = start("workers = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let steady = client.send(&Request::call("t.run", "gate gate;ok unharmed"));
    let held = gate.wait_for_worker();
    for script in [
        "exit 1",
        "segv",
        "garbage;silence",
        "wrong-id;silence",
        "reply-twice",
    ] {
        client.call("t.run", script);
        app.ready();
    }
    drop(held);
    assert_eq!(client.answer(steady).text(), "unharmed");
}

#[test]
fn an_idempotent_call_runs_again_on_another_worker() {
    let app = start("workers = 2");
    let answer = app.call("t.again", "once died;note first;segv");
    assert_eq!(answer.text(), "done");
    assert_eq!(app.dir.notes(), ["first"]);
    let fresh = app
        .client()
        .request(&Request::call("t.run", "once again;segv"));
    assert_eq!(
        fresh.status(),
        Status::WORKER_DIED,
        "t.run is not idempotent"
    );
    let flagged = Request::call("t.run", "once more;segv").flag(stoker_wire::Flags::IDEMPOTENT);
    assert_eq!(
        app.client().request(&flagged).text(),
        "done",
        "its caller said it is"
    );
}

#[test]
fn prefetched_tasks_of_a_dead_worker_run_on_the_next_one() {
    let app = start("workers = 1");
    let mut client = app.client();
    let calls: Vec<u32> = std::iter::once(client.send(&Request::call("t.run", "exit 1")))
        .chain((0..20).map(|n| client.send(&Request::call("t.run", format!("ok {n}")))))
        .collect();
    assert_eq!(client.answer(calls[0]).status(), Status::WORKER_DIED);
    for (n, id) in calls[1..].iter().enumerate() {
        assert_eq!(client.answer(*id).text(), n.to_string());
    }
}

#[test]
fn only_the_first_prefetched_task_is_blamed_for_the_death_of_a_worker() {
    let app = start_of("quick;serve", "workers = 1");
    let mut client = app.client();
    // Short runs come first, until the server prefetches.
    for _ in 0..64 {
        client.call("t.again", "ok");
    }
    let gate = app.dir.gate("gate");
    let first = client.send(&Request::call("t.again", "gate gate"));
    let held = gate.wait_for_worker();
    let killer = client.send(&Request::call("t.again", "note killer;segv"));
    let rest: Vec<u32> = (0..60)
        .map(|n| client.send(&Request::call("t.again", format!("note n{n};ok {n}"))))
        .collect();
    client.fence();
    let assigned = app.workers()[0]["assigned"].as_u64();
    assert!(assigned > Some(8), "many are prefetched: {assigned:?}");
    drop(held);
    assert_eq!(client.answer(first).text(), "done");
    for (n, id) in rest.iter().enumerate() {
        assert_eq!(client.answer(*id).text(), n.to_string());
    }
    assert_eq!(client.answer(killer).status(), Status::QUARANTINED);
    let notes = app.dir.notes();
    assert_eq!(notes.iter().filter(|note| *note == "killer").count(), 3);
    assert_eq!(notes.len(), 63, "none of the others ran twice: {notes:?}");
}

#[test]
fn with_several_slots_a_death_affects_only_started_tasks() {
    let app = start_of("slots 3;serve", "workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running: Vec<u32> = (0..2)
        .map(|_| client.send(&Request::call("t.run", "gate gate")))
        .collect();
    let held = gate.wait_for_worker();
    let killer = client.send(&Request::call("t.run", "segv"));
    for id in running.into_iter().chain([killer]) {
        assert_eq!(client.answer(id).status(), Status::WORKER_DIED);
    }
    drop(held);
    app.ready();
    assert_eq!(app.call("t.run", "ok").text(), "");
}

/// The times must grow even if nothing else happens: a hanging task must not look as if it had just begun.
#[test]
fn the_age_of_running_and_waiting_tasks_is_reported() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = client.send(&Request::call("t.run", "gate gate"));
    let held = gate.wait_for_worker();
    let waiting = client.send(&Request::call("t.run", "ok"));
    let mut reader = app.client();
    until("both grow", || {
        let queue = reader.queue("t");
        let ms = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
        let runs = ms(&app.workers()[0]["task"]["elapsed_ms"]);
        (runs >= 100 && ms(&queue["oldest_ms"]) >= 100).then_some(())
    });
    drop(held);
    assert_eq!(client.answer(running).status(), Status::OK);
    assert_eq!(client.answer(waiting).status(), Status::OK);
}

/// Tasks whose workers leave after each one, and take long to end (issue 9, A6).
#[test]
fn draining_workers_do_not_accumulate() {
    let app = start("workers = 1\nstop_grace = \"1s\"");
    let mut client = app.client();
    let asks: Vec<Request> = (0..40)
        .map(|_| Request::push("mails", "ok;goaway;stubborn;silence"))
        .collect();
    client.send_all(&asks);
    let mut max = 0;
    until("some have run", || {
        max = max.max(app.processes().len());
        (client.queue("mails")["done"].as_u64() >= Some(8)).then_some(())
    });
    // Angel, server, one worker that works, four that leave, and those that are being started.
    assert!(max <= 9, "{max} processes");
}

/// A job that its worker returns in the middle of every run must not run forever (issue 9, A6).
#[test]
fn a_job_that_is_returned_too_often_fails() {
    let app = start("workers = 1");
    let mut client = app.client();
    let ask = Request::push("mails", "note run;goaway;exit 0")
        .meta(stoker_wire::Key::TRIES, 1u16.to_be_bytes());
    let id = client.push(&ask);
    let job = client.job_in(&id, "failed");
    assert_eq!(job["error"]["class"], "Abandoned", "{job}");
    assert_eq!(app.dir.notes().len(), 4);
}
