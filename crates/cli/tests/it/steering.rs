//! Operations on jobs and queues: list, cancel, retry, pause, set.

use crate::{start, start_of};
use serde_json::{Value, json};
use stoker_testkit::{Client, Request, until};
use stoker_wire::{Codec, Key, Status};

fn pause(client: &mut Client, queue: &str, op: &str) {
    client.call_server("stoker.queue", &json!({"op": op, "queue": queue}));
}

fn push(client: &mut Client, script: &str) -> String {
    client.push(&Request::push("mails", script))
}

#[track_caller]
fn list(client: &mut Client, ask: Value) -> (Vec<String>, Value) {
    let mut ask = ask;
    ask["op"] = "list".into();
    let found = client.call_server("stoker.job", &ask);
    let jobs = found["jobs"].as_array().cloned().unwrap_or_default();
    let ids = jobs
        .iter()
        .filter_map(|job| job["id"].as_str())
        .map(str::to_owned);
    (ids.collect(), found["next"].clone())
}

#[track_caller]
fn refusal(client: &mut Client, name: &str, ask: &Value) -> (Status, String) {
    let refused = client
        .try_call_server(name, ask)
        .expect_err("it is refused");
    (refused.status(), refused.text())
}

#[test]
fn a_list_comes_in_pages_in_the_order_of_the_pushes() {
    let app = start("workers = 1");
    let mut client = app.client();
    push(&mut client, "ok");
    pause(&mut client, "mails", "pause");
    let ids: Vec<String> = (0..25).map(|_| push(&mut client, "ok")).collect();
    let (mut seen, mut after) = (Vec::new(), Value::Null);
    for page in [10, 10, 5] {
        let (found, next) = list(
            &mut client,
            json!({"state": "ready", "limit": 10, "after": after}),
        );
        assert_eq!(found.len(), page);
        seen.extend(found);
        after = next;
    }
    assert_eq!(after, Value::Null);
    assert_eq!(seen, ids);
}

#[test]
fn a_list_is_by_queue_and_state() {
    let app = start("workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"1h\"]");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let done = push(&mut client, "ok");
    let failed = push(&mut client, "fail 49 no");
    let retrying = push(&mut client, "fail 64 no");
    client.job_in(&retrying, "retrying");
    let running = push(&mut client, "gate gate");
    let held = gate.wait_for_worker();
    let ready = push(&mut client, "ok");
    let delay = Request::push("mails", "ok").meta(Key::DELAY, 3_600_000u64.to_be_bytes());
    let delayed = client.push(&delay);
    let cancelled = push(&mut client, "ok");
    client.call_server("stoker.job", &json!({"op": "cancel", "id": cancelled}));
    let other = client.push(&Request::push("other", "ok"));
    for (state, id) in [
        ("done", &done),
        ("failed", &failed),
        ("retrying", &retrying),
        ("running", &running),
        ("delayed", &delayed),
        ("cancelled", &cancelled),
    ] {
        let (found, _) = list(&mut client, json!({"state": state}));
        assert_eq!(found, std::slice::from_ref(id), "{state}");
        assert_eq!(client.job(id)["state"], state);
    }
    assert_eq!(
        list(&mut client, json!({"state": "ready", "queue": "mails"})).0,
        [ready]
    );
    assert_eq!(list(&mut client, json!({"queue": "other"})).0, [other]);
    assert_eq!(list(&mut client, json!({})).0.len(), 8);
    drop(held);
}

#[test]
fn invalid_requests_are_rejected_with_the_valid_values() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = push(&mut client, "ok");
    client.job_in(&id, "done");
    for (ask, status, why) in [
        (
            json!({"op": "list", "state": "dead"}),
            Status::INVALID_ARGUMENT,
            "invalid \"state\": expected one of ready, running,",
        ),
        (
            json!({"op": "list", "queue": "mial"}),
            Status::NOT_FOUND,
            "did you mean 'mails'?",
        ),
        (
            json!({"op": "list", "after": "x"}),
            Status::INVALID_ARGUMENT,
            "invalid \"after\": expected the `next` of the previous page (null starts with the first page), got \"x\"",
        ),
        (
            json!({"op": "show"}),
            Status::INVALID_ARGUMENT,
            "missing field \"id\": expected a job's id (a UUID)",
        ),
        (
            json!({"op": "show", "id": "x"}),
            Status::INVALID_ARGUMENT,
            "invalid \"id\": expected a job's id (a UUID), got \"x\"",
        ),
        (
            json!({"op": "show", "id": "01900000-0000-7000-8000-000000000000"}),
            Status::NOT_FOUND,
            "does not exist, or was deleted",
        ),
        (
            json!({"op": "cancel", "id": id}),
            Status::FAILED_PRECONDITION,
            "the job is done",
        ),
        (
            json!({"op": "retry", "id": id}),
            Status::FAILED_PRECONDITION,
            "the job is done",
        ),
        (
            json!({"op": "cancel"}),
            Status::INVALID_ARGUMENT,
            "name one job by \"id\", or many by \"queue\"",
        ),
        (
            json!({"op": "explode"}),
            Status::INVALID_ARGUMENT,
            "stoker.job has no operation 'explode'",
        ),
    ] {
        let (got, text) = refusal(&mut client, "stoker.job", &ask);
        assert_eq!(got, status, "{ask}: {text}");
        assert!(text.contains(why), "{ask}: {text}");
    }
    let garbage = client.call("stoker.job", "{");
    assert!(
        garbage
            .text()
            .starts_with("the body is not a valid JSON object"),
        "{}",
        garbage.text()
    );
}

#[test]
fn a_cancelled_waiting_job_never_runs() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    push(&mut client, "gate gate");
    let held = gate.wait_for_worker();
    let ids: Vec<String> = (0..3).map(|_| push(&mut client, "note no")).collect();
    let delay = Request::push("mails", "note no").meta(Key::DELAY, 50u64.to_be_bytes());
    let delayed = client.push(&delay);
    let one = client.call_server("stoker.job", &json!({"op": "cancel", "id": ids[0]}));
    assert_eq!(one["count"], 1);
    let rest = client.call_server(
        "stoker.job",
        &json!({"op": "cancel", "queue": "mails", "state": "ready"}),
    );
    assert!(rest["count"].as_u64() >= Some(2), "{rest}");
    client
        .call_server("stoker.job", &json!({"op": "cancel", "id": delayed}))
        .as_object()
        .expect("it is");
    drop(held);
    let last = push(&mut client, "note last");
    client.job_in(&last, "done");
    assert_eq!(client.job(&delayed)["state"], "cancelled");
    assert_eq!(app.dir.notes(), ["last"]);
}

#[test]
fn a_running_job_is_cancelled_with_its_worker() {
    let app = start("workers = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let id = push(&mut client, "gate gate;note no");
    let held = gate.wait_for_worker();
    client.call_server("stoker.job", &json!({"op": "cancel", "id": id}));
    client.job_in(&id, "cancelled");
    app.wait_for_log("p-*is killed at*: its task was cancelled");
    drop(held);
    app.ready();
    assert!(app.dir.notes().is_empty());
}

#[test]
fn a_worker_with_soft_cancel_ends_a_cancelled_job_itself() {
    let app = start_of("soft-cancel;serve", "workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let before = app.pids();
    let id = push(
        &mut client,
        "gate gate;await-cancel;await-signal;note heard;fail 1",
    );
    let held = gate.wait_for_worker();
    // The response comes when the job has ended in its store.
    let cancel = json!({"op": "cancel", "id": id}).to_string();
    let cancel = client.send(&Request::call("stoker.job", cancel).codec(Codec::JSON));
    client.fence();
    drop(held);
    client.answer(cancel);
    assert_eq!(client.job(&id)["state"], "cancelled");
    assert_eq!(app.dir.notes(), ["heard"]);
    assert_eq!(app.pids(), before);
}

#[test]
fn a_cancelled_job_can_be_retried() {
    let app = start("workers = 1");
    let mut client = app.client();
    push(&mut client, "ok");
    pause(&mut client, "mails", "pause");
    let id = push(&mut client, "note run");
    client.call_server("stoker.job", &json!({"op": "cancel", "id": id}));
    assert_eq!(client.job(&id)["state"], "cancelled");
    client.call_server("stoker.job", &json!({"op": "retry", "id": id}));
    pause(&mut client, "mails", "resume");
    client.job_in(&id, "done");
    assert_eq!(app.dir.notes(), ["run"]);
}

#[test]
fn a_paused_queue_accepts_jobs_and_starts_none() {
    let app = start("workers = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = push(&mut client, "gate gate");
    let held = gate.wait_for_worker();
    pause(&mut client, "mails", "pause");
    let waiting: Vec<String> = (0..3)
        .map(|n| push(&mut client, &format!("note {n}")))
        .collect();
    let delay = Request::push("mails", "note due").meta(Key::DELAY, 20u64.to_be_bytes());
    let due = client.push(&delay);
    let other = client.push(&Request::push("other", "ok"));
    client.job_in(&other, "done");
    drop(held);
    client.job_in(&running, "done");
    client.job_in(&due, "ready");
    let queue = client.queue("mails");
    assert_eq!(
        (&queue["paused"], &queue["ready"]),
        (&json!(true), &json!(4))
    );
    assert!(app.dir.notes().is_empty());
    pause(&mut client, "mails", "resume");
    waiting
        .iter()
        .for_each(|id| drop(client.job_in(id, "done")));
    client.job_in(&due, "done");
    assert_eq!(client.queue("mails")["paused"], false);
}

#[test]
fn calls_of_a_paused_service_wait() {
    let app = start("workers = 1");
    let mut client = app.client();
    client.call("t.run", "ok");
    pause(&mut client, "t", "pause");
    let waits = client.send(&Request::call("t.run", "ok at last"));
    let late = client.request(&Request::call("t.run", "note no").ttl(60));
    assert_eq!(late.status(), Status::DEADLINE_EXCEEDED);
    pause(&mut client, "t", "resume");
    assert_eq!(client.answer(waits).text(), "at last");
    assert!(app.dir.notes().is_empty());
}

#[test]
fn weights_and_limits_can_be_set_and_invalid_ones_are_rejected() {
    let app = start("workers = 2\n[queue.mails]");
    let mut client = app.client();
    let set = client.call_server(
        "stoker.queue",
        &json!({"op": "set", "queue": "mails", "weight": 5, "limit": 1}),
    );
    assert_eq!(
        (&set["weight"], &set["limit"], &set["reserve"]),
        (&json!(5), &json!(1), &json!(0))
    );
    for (ask, why) in [
        (
            json!({"weight": 0}),
            "invalid \"weight\": expected a whole number from 1",
        ),
        (
            json!({"weight": "many"}),
            "invalid \"weight\": expected a whole number from 1",
        ),
        (json!({"reserve": 2}), "the reserve would exceed the limit"),
        (
            json!({"reserve": 3, "limit": 9}),
            "guarantees only 2 workers, but the reserves of its queues would add up to 3",
        ),
    ] {
        let mut whole = json!({"op": "set", "queue": "mails"});
        whole
            .as_object_mut()
            .expect("an object")
            .extend(ask.as_object().expect("one").clone());
        let (_, text) = refusal(&mut client, "stoker.queue", &whole);
        assert!(text.contains(why), "{ask}: {text}");
    }
    let gate = app.dir.gate("gate");
    let ids: Vec<String> = (0..3)
        .map(|_| push(&mut client, "note begun;gate gate"))
        .collect();
    let held = gate.wait_for_worker();
    assert_eq!(client.queue("mails")["running"], 1, "the limit holds");
    client.call_server(
        "stoker.queue",
        &json!({"op": "set", "queue": "mails", "limit": 2}),
    );
    until("two run", || (app.dir.notes().len() == 2).then_some(()));
    drop(held);
    gate.open();
    ids.iter().for_each(|id| drop(client.job_in(id, "done")));
}

#[test]
fn an_unknown_queue_is_rejected_with_a_suggestion() {
    let app = start_of(
        "jobs mails;serve",
        "workers = 1\n[queue.mails]\n[service.users]",
    );
    let mut client = app.client();
    let (status, text) = refusal(
        &mut client,
        "stoker.queue",
        &json!({"op": "pause", "queue": "mail"}),
    );
    assert_eq!(
        (status, text.as_str()),
        (
            Status::NOT_FOUND,
            "there is no queue 'mail'; did you mean 'mails'?"
        )
    );
    pause(&mut client, "users", "pause");
    assert_eq!(client.queue("users")["paused"], true);
}
