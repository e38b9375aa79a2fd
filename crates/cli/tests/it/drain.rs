//! A shutdown that an operator requests.

use crate::{start, start_of};
use rustix::process::Signal;
use std::time::Duration;
use stoker_testkit::{App, Client, Request, pause, procs, until};
use stoker_wire::{Key, Status, Type};

#[test]
fn an_idle_stoker_ends_at_once_and_removes_its_socket() {
    let app = start("workers = 2");
    let socket = app.socket();
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.took < stoker_testkit::limit(2.0), "{:?}", ended.took);
    assert!(!socket.exists());
    assert!(
        ended
            .log
            .contains("shutting down: no new tasks are accepted, running tasks finish")
    );
    assert!(ended.log.trim_end().ends_with("drained"), "{}", ended.log);
}

#[test]
fn running_tasks_finish_and_new_ones_are_rejected() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = client.send(&Request::call("t.run", "gate gate;ok finished"));
    let waiting = client.send(&Request::call("t.run", "ok waited"));
    let held = gate.wait_for_worker();
    client.fence();
    app.term();
    app.wait_for_log("shutting down");
    client.fence();
    assert!(
        client
            .other_frames
            .iter()
            .any(|got| got.kind == Type::Goaway),
        "clients are told"
    );
    let late = client.call("t.run", "ok late");
    assert_eq!(late.status(), Status::UNAVAILABLE, "{}", late.text());
    let push = client.request(&Request::push("mails", "ok"));
    assert!(
        push.text().contains("the server is shutting down"),
        "{}",
        push.text()
    );
    assert_eq!(
        push.status(),
        Status::UNAVAILABLE,
        "a client waits for that"
    );
    drop(held);
    assert_eq!(client.answer(running).text(), "finished");
    assert_eq!(
        client.answer(waiting).text(),
        "waited",
        "it had been let in"
    );
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

/// Seed 92089: requests sent before the shutdown are answered, even if the server had not read them yet.
#[test]
fn requests_sent_just_before_a_shutdown_are_answered() {
    let app = start("workers = { min = 0, max = 1 }");
    let server = app.server();
    procs::signal(server, Signal::STOP);
    let mut client = Client::connect_without_hello(&app.socket());
    client.hello(&serde_json::json!({"v": [1], "role": "client", "name": "test"}));
    let asked = client.send(&Request::call("stoker.queue", r#"{"op":"list"}"#));
    app.term();
    // By now the angel has notified the server; if not, this test checks less but does not fail.
    pause(Duration::from_millis(200));
    procs::signal(server, Signal::CONT);
    assert_eq!(client.answer(asked).status(), Status::OK);
    assert_eq!(app.wait_for_exit().code, 0);
}

#[test]
fn a_running_job_finishes_and_a_waiting_one_is_counted_as_lost() {
    let app = start("workers = 1\n[store]\ndriver = \"memory\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.push(&Request::push("mails", "gate gate;note first"));
    let held = gate.wait_for_worker();
    client.push(&Request::push("mails", "note second"));
    client.push(&Request::push("mails", "note third").meta(Key::DELAY, 60_000u64.to_be_bytes()));
    app.term();
    app.wait_for_log("shutting down");
    drop(held);
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .log
            .contains("lost 2 jobs because the job store is in memory"),
        "{}",
        ended.log
    );
    assert_eq!(ended.dir.notes(), ["first"]);
}

#[test]
fn a_worker_that_does_not_exit_gets_term_and_is_then_killed() {
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
fn a_worker_that_ignores_goaway_exits_at_term() {
    let app = start_of("stubborn;serve", "workers = 1\nstop_grace = \"1500ms\"");
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    assert!(
        ended.log.contains("p-1 has ended (signal 15 (TERM))"),
        "{}",
        ended.log
    );
    assert!(!ended.log.contains("killed"), "{}", ended.log);
}

#[test]
fn a_task_longer_than_the_grace_period_is_killed_with_its_worker() {
    let app = start("workers = 1\nstop_grace = \"700ms\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let call = client.send(&Request::call("t.run", "ignore-term;gate gate"));
    let held = gate.wait_for_worker();
    app.term();
    let answer = client.answer(call);
    assert_eq!(answer.status(), Status::WORKER_DIED, "{}", answer.text());
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .log
            .contains("p-1 is killed at t.run#1: it did not end within stop_grace")
    );
    drop(held);
}

#[test]
fn a_second_signal_kills_everything_at_once() {
    let app = start_of(
        "ignore-term;stubborn;serve",
        "workers = 2\nstop_grace = \"60s\"",
    );
    app.term();
    app.wait_for_log("shutting down");
    // A signal that comes sooner counts as the same one.
    pause(Duration::from_millis(1_050));
    app.term();
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 1, "it did not end well");
    assert!(ended.took < stoker_testkit::limit(3.0), "{:?}", ended.took);
}

#[test]
fn int_drains_like_term() {
    let app = start("workers = 1");
    procs::signal(app.angel(), rustix::process::Signal::INT);
    let ended = app.wait_for_exit();
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
fn a_paused_queue_does_not_delay_a_shutdown() {
    let app = start("workers = 1");
    let mut client = app.client();
    client.push(&Request::push("mails", "ok"));
    client.call_server(
        "stoker.queue",
        &serde_json::json!({"op": "pause", "create": true, "queue": "mails"}),
    );
    client.push(&Request::push("mails", "ok"));
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    assert!(ended.took < stoker_testkit::limit(2.0), "{:?}", ended.took);
}

/// A setting meant for the workers' threads, such as RUST_MIN_STACK, does not affect the server's threads, which set
/// their own stack size.
#[test]
fn a_shutdown_needs_no_more_resources_than_the_start() {
    let config = crate::pool_of("serve", "workers = 1\n[store]\ndriver = \"memory\"");
    let config = crate::setup().config(&config);
    let app = config
        .env("RUST_MIN_STACK", &(1u64 << 60).to_string())
        .start();
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.trim_end().ends_with("drained"), "{}", ended.log);
}

/// More bytes than a socket buffers without a reader.
const LARGE: usize = 4_000_000;

/// Returns a client that waits for a large answer and has not read it when the server has drained, and the call's id.
#[track_caller]
fn unread_answer(app: &App) -> (Client, u32) {
    let mut client = app.client();
    let call = client.send(&Request::call("t.run", format!("big {LARGE}")));
    until("it is answered", || {
        (app.client().queue("t")["done"] == 1).then_some(())
    });
    app.term();
    app.wait_for_log("p-1 has ended");
    (client, call)
}

#[test]
fn a_client_that_reads_late_still_gets_its_answer_during_a_shutdown() {
    let app = start("workers = 1");
    let (mut client, call) = unread_answer(&app);
    assert_eq!(client.answer(call).body.len(), LARGE);
    while let Some(got) = client.frame() {
        assert_eq!(got.kind, Type::Goaway, "nothing but that before the end");
    }
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0);
    assert!(ended.log.trim_end().ends_with("drained"), "{}", ended.log);
}

#[test]
fn a_client_that_never_reads_does_not_block_a_shutdown() {
    let app = start("workers = 1");
    let (client, _) = unread_answer(&app);
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0);
    // The timeout for clients that do not read is another one, and longer.
    assert!(!ended.log.contains("is disconnected"), "{}", ended.log);
    assert!(ended.log.trim_end().ends_with("drained"), "{}", ended.log);
    drop(client);
}

/// Pushes jobs until the server drains; returns how many it accepted.
fn push_on(client: &mut Client, script: &str, keys: usize) -> usize {
    let mut pushed = 0;
    loop {
        let ask = |n: usize| Request::push("mails", script).key(&(n % keys).to_string());
        let asks: Vec<Request> = (pushed..pushed + 100).map(ask).collect();
        for id in client.send_all(&asks) {
            match client.try_answer(id) {
                Some(answer) if answer.status() == Status::OK => pushed += 1,
                Some(answer) => {
                    assert!(answer.text().contains("the server is shutting down"));
                    return pushed;
                }
                None => return pushed,
            }
        }
    }
}

/// Shuts a server down while its queue is much longer than the loaded part, and still growing: the jobs that ran and
/// the jobs that are lost must add up to all accepted jobs.
#[track_caller]
fn drain_a_deep_backlog(workers: &str, script: &str, keys: usize) {
    let app = start_of(
        workers,
        "workers = 2\nstop_grace = \"8s\"\n[store]\ndriver = \"memory\"",
    );
    let mut client = app.client();
    // Jobs that are never done: each run requests another one, which also comes due while the server drains.
    let again = Request::push("mails", "retry 1").meta(Key::TRIES, 0u16.to_be_bytes());
    let restless = 10;
    (0..restless).for_each(|_| drop(client.push(&again)));
    let taken = std::thread::scope(|scope| {
        let pusher = scope.spawn(|| push_on(&mut app.client(), script, keys));
        until("a deep backlog, of which some ran", || {
            let queue = client.queue("mails");
            let count = |key: &str| queue[key].as_u64().unwrap_or(0);
            (count("ready") > keys as u64 + 2_000 && count("done") > 100).then_some(())
        });
        app.term();
        restless + pusher.join().expect("its jobs are taken or refused")
    });
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("killed"), "{}", ended.log);
    let line = ended.log.lines().find(|line| line.contains("in memory"));
    let line = line.expect("it says what is lost");
    let words = line.split_whitespace().filter_map(|word| word.parse().ok());
    let lost: Vec<usize> = words.collect();
    assert_eq!(lost, [taken - ended.dir.notes().len()], "{line}");
}

#[test]
fn a_deep_backlog_does_not_delay_a_shutdown_and_is_counted() {
    drain_a_deep_backlog("serve", "sleep 2;note ran", 1);
}

/// More keys than are tracked separately, so that jobs are also requested by key.
#[test]
fn a_deep_backlog_of_many_tenants_does_not_delay_a_shutdown() {
    drain_a_deep_backlog("serve", "sleep 2;note ran", 5_000);
}

#[test]
fn prefetched_jobs_do_not_delay_a_shutdown() {
    drain_a_deep_backlog("quick;serve", "sleep 2;note ran", 1);
}

/// The interruption does not count as an attempt, but the history shows the run (issue 9, A23), with its number (A29).
#[test]
fn a_job_killed_at_the_end_of_the_grace_period_has_it_in_its_history() {
    let config = |store: &str| {
        let rest = format!("workers = 1\nstop_grace = \"200ms\"\n[store]\npath = {store:?}");
        crate::pool_of("serve", rest)
    };
    let dir = stoker_testkit::Dir::new();
    let store = dir.file("stoker.db").display().to_string();
    let app = crate::setup().config(&config(&store)).start();
    let mut client = app.client();
    let id = client.push(&Request::push(
        "mails",
        "if again ok;stubborn;note began;silence",
    ));
    assert_eq!(client.job_in(&id, "running")["attempt"], 1);
    stoker_testkit::until("it began", || (!app.dir.notes().is_empty()).then_some(()));
    app.stop();
    let again = crate::setup().config(&config(&store)).launch();
    let job = again.client().job(&id);
    assert_eq!(job["history"][0]["what"], "cut_off", "{job}");
    assert!(
        job["history"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("did not end within stop_grace")),
        "{job}"
    );
    assert_eq!(job["crashes"], 0, "{job}");
}
