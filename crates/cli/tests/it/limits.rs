//! Limits of a worker (time, memory, number of tasks, idleness) and of a push (metadata, body).

use crate::{pool_of, setup, start, start_of};
use serde_json::json;
use std::time::{Duration, Instant};
use stoker_testkit::{Client, Request, procs, until};
use stoker_wire::{Key, Status};

#[test]
fn a_task_that_runs_too_long_loses_its_worker() {
    let app = start("workers = 1\ntask_timeout = \"200ms\"");
    let began = Instant::now();
    let answer = app.call("t.run", "spin");
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert_eq!(
        answer.text(),
        "it exceeded task_timeout, and its worker was killed"
    );
    assert!(
        began.elapsed() >= Duration::from_millis(200),
        "not before its time"
    );
    app.wait_for_log("p-1 is killed at t.run#1: its task exceeded its timeout");
    assert_eq!(app.call("t.run", "ok next").text(), "next");
}

#[test]
fn a_push_carries_at_most_28_kib_of_metadata() {
    let app = start("workers = 1");
    let mut client = app.client();
    // The name of the queue takes seven bytes, and the header of the other entry takes four.
    let push = |len: usize| Request::push("mails", "ok").meta(Key(0x80), vec![b'x'; len - 7 - 4]);
    client.push(&push(28 << 10));
    let refused = client.request(&push((28 << 10) + 1));
    assert_eq!(refused.status(), Status::INVALID_ARGUMENT);
    assert_eq!(
        refused.text(),
        "a push may have at most 28672 bytes of metadata"
    );
}

#[test]
fn a_push_above_max_body_is_rejected() {
    let config = |max: &str| format!("workers = 1\n[queue.mails]\n{max}\n[queue.others]");
    let app = start_of("jobs mails,others;serve", &config("max_body = \"1KB\""));
    let mut client = app.client();
    let push = |queue: &str, len: usize| Request::push(queue, format!("{:len$}", "ok"));
    let refused = |client: &mut Client, len: usize, max: usize| {
        let refused = client.request(&push("mails", len));
        assert_eq!(refused.status(), Status::INVALID_ARGUMENT);
        assert_eq!(
            refused.text(),
            format!(
                "the body has {len} bytes, but queue mails accepts at most {max} (queue.mails.max_body)"
            )
        );
        assert_eq!(refused.uint(Key::RETRY_AFTER), None, "it never fits");
    };
    let id = client.push(&push("mails", 1_024));
    client.job_in(&id, "done");
    refused(&mut client, 1_025, 1_024);
    client.push(&push("others", 50_000));

    let reload = |client: &mut Client, max: &str| {
        app.dir.write(
            "stoker.toml",
            pool_of("jobs mails,others;serve", config(max)),
        );
        client.call_server("stoker.pool", &json!({"op": "reload"}))
    };
    let applied = reload(&mut client, "max_body = \"2KB\"")["applied"].clone();
    assert_eq!(applied, json!(["queue.mails.max_body"]));
    client.push(&push("mails", 2_048));
    refused(&mut client, 2_049, 2_048);
    reload(&mut client, "");
    client.push(&push("mails", 50_000));
}

#[test]
fn the_timeout_of_a_prefetched_task_begins_when_it_starts() {
    let app = start("workers = 1\ntask_timeout = \"400ms\"");
    let mut client = app.client();
    let calls: Vec<u32> = (0..4)
        .map(|_| client.send(&Request::call("t.run", "sleep 150")))
        .collect();
    for id in calls {
        assert_eq!(client.answer(id).status(), Status::OK);
    }
}

#[test]
fn a_worker_with_soft_cancel_is_cancelled_before_it_is_killed() {
    let app = start_of("soft-cancel;serve", "workers = 1\ntask_timeout = \"150ms\"");
    let before = app.pids();
    let answer = app.call("t.run", "await-signal;note signal;fail 64 out of time");
    assert_eq!(answer.text(), "out of time", "its own answer counts");
    assert_eq!(app.dir.notes(), ["signal"]);
    assert_eq!(
        app.call("t.run", "await-cancel;fail 64 cancelled").text(),
        "cancelled"
    );
    assert_eq!(app.pids(), before, "it lives on");
}

#[test]
fn a_worker_that_ignores_the_soft_signal_is_killed_after_the_grace_period() {
    let rest = "workers = 1\ntask_timeout = \"100ms\"\nkill_grace = \"200ms\"";
    let app = start_of("soft-cancel;serve", rest);
    let began = Instant::now();
    let answer = app.call("t.run", "spin");
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert!(began.elapsed() >= Duration::from_millis(300));
    app.wait_for_log("p-1 is killed at t.run#1: its task exceeded its timeout");
}

#[test]
fn the_timeout_of_a_job_overrides_that_of_the_pool_and_uses_a_try() {
    let app = start("workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let timeout = 150u32.to_be_bytes();
    let job = Request::push("mails", "note run;spin").meta(Key::TIMEOUT, timeout);
    let id = client.push(&job);
    let job = client.job_in(&id, "failed");
    assert_eq!(job["error"]["class"], "TimedOut", "{job}");
    assert_eq!((&job["attempt"], &job["crashes"]), (&2.into(), &0.into()));
    assert_eq!(app.dir.notes(), ["run"; 2]);
}

#[test]
fn task_timeout_none_means_no_limit() {
    let app = start("workers = 1\ntask_timeout = \"none\"\n[service.t]\ntimeout = \"200ms\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let call = client.send(&Request::call("t.run", "gate gate;note finished"));
    let held = gate.wait_for_worker();
    assert_eq!(
        client.answer(call).status(),
        Status::DEADLINE_EXCEEDED,
        "for its caller only"
    );
    drop(held);
    until("it has finished for nobody", || {
        app.dir.notes().first().cloned()
    });
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_worker_above_its_memory_limit_is_replaced_after_its_task() {
    let app = start("workers = 1\nmemory_limit = \"64MB\"");
    let before = app.pids();
    assert_eq!(app.call("t.run", "eat-memory 80").text(), "done");
    until("a lean worker in its place", || {
        let now = app.pids();
        (now.len() == 1 && now != before).then_some(())
    });
    app.wait_for_log("p-1 has ended (exit code 0)");
    assert_eq!(app.pool()["restarts"], 0, "it was told to go: no crash");
}

#[test]
fn a_worker_far_above_its_memory_limit_is_killed_during_a_task() {
    let app = start("workers = 1\nmemory_limit = \"64MB\"");
    let answer = app.call("t.run", "eat-memory 120;silence");
    assert_eq!(answer.status(), Status::WORKER_DIED);
    assert!(answer.text().contains("more memory"), "{}", answer.text());
    app.wait_for_log(
        "p-1 is killed at t.run#1: it used more memory than memory_limit allows within a task",
    );
    assert_eq!(app.call("t.run", "ok lean").text(), "lean");
}

/// Issue 9, A21.
#[test]
fn the_memory_of_child_processes_counts_for_their_worker() {
    let app = start("workers = 1\nmemory_limit = \"64MB\"");
    let script = "child silence;child setsid,eat-memory 120,silence;silence";
    let answer = app.call("t.run", script);
    assert_eq!(answer.status(), Status::WORKER_DIED);
    assert!(answer.text().contains("more memory"), "{}", answer.text());
    until("the children are gone as well", || {
        (app.processes().len() == 3).then_some(())
    });
}

/// Issue 9, A21.
#[test]
fn a_worker_with_a_large_child_is_replaced_after_its_task() {
    let app = start("workers = 1\nmemory_limit = \"64MB\"");
    let before = app.pids();
    let (eaten, go) = (app.dir.gate("eaten"), app.dir.gate("go"));
    let mut client = app.client();
    let call = client.send(&Request::call(
        "t.run",
        "child eat-memory 80,gate eaten,silence;gate go",
    ));
    drop(eaten.wait_for_worker());
    drop(go.wait_for_worker());
    assert_eq!(client.answer(call).status(), Status::OK);
    until("a lean worker in its place", || {
        let now = app.pids();
        (now.len() == 1 && now != before).then_some(())
    });
}

/// Issue 9, A21: a fork shares its parent's pages until one of them writes.
#[test]
fn shared_memory_of_forks_counts_once() {
    const FORKS: &str = "import os, signal\n\
                         memory = b'x' * (60 << 20)\n\
                         children = [os.fork() for _ in range(3)]\n\
                         signal.pause()";
    let config = format!(
        "[pool.forks]\ncommand = [\"python3\", \"-c\", {FORKS:?}]\nworkers = 1\nprotocol = false\n\
         memory_limit = \"120MB\"\n"
    );
    let app = setup().config(&config).start();
    until("all have forked", || {
        (app.processes().len() == 10).then_some(())
    });
    let worker = app.pids()[0];
    assert!(
        !procs::wait_for_exit(worker, 5.0),
        "it was checked twice meanwhile"
    );
    let resident = app.workers()[0]["rss_bytes"].as_u64();
    assert!(resident > Some(400 << 20), "counted for each: {resident:?}");
}

#[test]
fn a_worker_is_replaced_after_max_tasks_without_a_failure() {
    let app = start("workers = 2\nmax_tasks = 20");
    let mut client = app.client();
    until("three workers were replaced", || {
        for n in 0..20 {
            let answer = client.call("t.run", &format!("ok {n}"));
            assert_eq!(
                (answer.status(), answer.text()),
                (Status::OK, n.to_string())
            );
        }
        let gone = app.log().matches("has ended (exit code 0)").count();
        (gone >= 3).then_some(())
    });
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_worker_is_replaced_when_it_is_old() {
    let app = start("workers = 1\nmax_age = \"300ms\"");
    app.wait_for_log("p-1 has ended (exit code 0)");
    app.wait_for_log("p-2 has ended (exit code 0)");
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_pool_grows_while_work_waits_and_shrinks_when_it_is_idle() {
    let app = start("workers = { min = 1, max = 3 }\nidle_timeout = \"200ms\"");
    let gate = app.dir.gate("gate");
    assert_eq!(app.workers().len(), 1);
    let mut client = app.client();
    let calls: Vec<u32> = (0..5)
        .map(|_| client.send(&Request::call("t.run", "note begun;gate gate")))
        .collect();
    until("three run", || (app.dir.notes().len() == 3).then_some(()));
    let held = gate.wait_for_worker();
    assert_eq!(app.workers().len(), 3, "no more than max");
    drop(held);
    gate.open();
    for id in calls {
        assert_eq!(client.answer(id).status(), Status::OK);
    }
    until("it has shrunk", || (app.workers().len() == 1).then_some(()));
    app.wait_for_log("p-*has ended (exit code 0)");
    assert_eq!(app.pool()["restarts"], 0);
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn a_worker_that_is_being_replaced_is_still_supervised() {
    let app = start("workers = 1\nmemory_limit = \"64MB\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let ask = Request::call("t.run", "eat-memory 70;gate gate;eat-memory 60;silence").ttl(5_000);
    let call = client.send(&ask);
    let held = gate.wait_for_worker();
    app.wait_for_log("p-2 is ready");
    drop(held);
    assert_eq!(client.answer(call).status(), Status::WORKER_DIED);
    app.wait_for_log("p-1 is killed at t.run#1: it used more memory than memory_limit");
}

#[test]
fn a_worker_that_does_not_read_is_killed_by_the_task_timeout() {
    let app = start_of(
        "hello;silence",
        "workers = 1\ntask_timeout = \"300ms\"\n[service.t]",
    );
    let mut client = app.client();
    let large = client.send(&Request::call("t.run", vec![b' '; 8 << 20]));
    let queued = client.send(&Request::call("t.run", "").ttl(100));
    assert_eq!(client.answer(queued).status(), Status::DEADLINE_EXCEEDED);
    assert_eq!(client.answer(large).status(), Status::DEADLINE_EXCEEDED);
    app.wait_for_log("p-1 is killed at t.run#1: its task exceeded its timeout");
    app.wait_for_log("p-2 is ready");
}

/// The caller has gone, so there is no reason to run the call any more (issue 9, A22).
#[test]
fn a_call_past_its_deadline_frees_its_worker_at_once() {
    let app = start_of("soft-cancel;serve", "workers = 1\ntask_timeout = \"60s\"");
    let mut client = app.client();
    let late = client.request(&Request::call("t.run", "await-signal;ok").ttl(100));
    assert_eq!(late.status(), Status::DEADLINE_EXCEEDED);
    let next = client.request(&Request::call("t.run", "ok next").ttl(5_000));
    assert_eq!(next.text(), "next", "the worker is free again");
    let gone = app
        .client()
        .send(&Request::call("t.run", "await-signal;ok"));
    assert!(gone > 0, "its client has gone by now");
    let next = client.request(&Request::call("t.run", "ok again").ttl(5_000));
    assert_eq!(next.text(), "again");
    assert_eq!(app.pool()["restarts"], 0);
}
