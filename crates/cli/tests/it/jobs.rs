//! Jobs from push to done.

use crate::{start, start_of};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stoker_testkit::{App, Client, Request, until};
use stoker_wire::{Codec, Flags, Key, Status};

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_millis() as u64
}

fn delayed(script: &str, ms: u64) -> Request {
    Request::push("mails", script).meta(Key::DELAY, ms.to_be_bytes())
}

/// Waits until `number` jobs of a queue have ended.
#[track_caller]
fn ended(client: &mut Client, queue: &str, number: u64) {
    until(&format!("{number} jobs have ended"), || {
        let queue = client.queue(queue);
        let count = |key: &str| queue[key].as_u64().unwrap_or(0);
        (count("done") + count("failed") + count("cancelled") == number).then_some(())
    });
}

#[test]
fn a_job_runs_once_and_is_kept_as_done() {
    let app = start("workers = 2");
    let mut client = app.client();
    let before = now_ms();
    let id = client.push(&Request::push("mails", "note run"));
    let job = client.job_in(&id, "done");
    assert_eq!(job["id"], id.as_str());
    assert_eq!(job["queue"], "mails");
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(1), &json!(0)));
    assert_eq!(job["priority"], 3);
    assert_eq!(
        (&job["key"], &job["error"], &job["body"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(app.dir.notes(), ["run"]);
    let millis = u64::from_str_radix(&id.replace('-', "")[..12], 16).expect("a UUIDv7");
    assert!(
        (before..=now_ms()).contains(&millis),
        "its id tells when it was pushed"
    );
    let queue = client.queue("mails");
    assert_eq!(
        (&queue["done"], &queue["ready"], &queue["running"]),
        (&json!(1), &json!(0), &json!(0))
    );
    assert!(queue["run_ms"]["p50"].is_number() && queue["wait_ms"]["p99"].is_number());
}

#[test]
fn a_worker_receives_all_options_of_its_job() {
    let app = start("workers = 1");
    let mut client = app.client();
    let ask = Request::push("mails", "note-told")
        .prio(1)
        .key("tenant")
        .codec(Codec::JSON)
        .meta(Key::TRIES, 7u16.to_be_bytes())
        .meta(Key::TIMEOUT, 30_000u32.to_be_bytes())
        .meta(Key(0x80), "my own");
    let id = client.push(&ask);
    client.job_in(&id, "done");
    let told: Value = serde_json::from_str(&app.dir.notes()[0]).expect("it noted JSON");
    assert_eq!(told["name"], "mails");
    assert_eq!(told["job"], 16);
    assert_eq!((&told["prio"], &told["codec"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&told["key"], &told["own"]),
        (&json!("tenant"), &json!("my own"))
    );
    assert_eq!(
        (&told["tries"], &told["timeout"]),
        (&json!(7), &json!(30_000))
    );
    assert_eq!(
        (&told["attempt"], &told["crashes"]),
        (&json!(0), &Value::Null)
    );
    assert!(told["created"].as_u64() <= Some(now_ms()));
}

#[test]
fn many_jobs_pushed_in_one_write_have_ascending_ids() {
    let app = start("workers = 2");
    let mut client = app.client();
    let asks: Vec<Request> = (0..1_000)
        .map(|n| Request::push("mails", format!("note {n}")))
        .collect();
    let sent = client.send_all(&asks);
    let ids: Vec<String> = sent
        .into_iter()
        .map(|id| client.answer(id).text())
        .collect();
    assert!(ids.is_sorted(), "in the order of the pushes");
    ended(&mut client, "mails", 1_000);
    let mut notes = app.dir.notes();
    notes.sort();
    notes.dedup();
    assert_eq!(notes.len(), 1_000);
}

#[test]
fn a_delayed_job_does_not_run_before_its_time() {
    let app = start("workers = 1");
    let mut client = app.client();
    let began = Instant::now();
    let id = client.push(&delayed("note later", 300));
    assert_eq!(client.job(&id)["state"], "delayed");
    assert_eq!(client.queue("mails")["delayed"], 1);
    let now = client.push(&Request::push("mails", "note now"));
    client.job_in(&now, "done");
    client.job_in(&id, "done");
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(app.dir.notes(), ["now", "later"]);
}

#[test]
fn a_job_may_be_due_at_a_time_of_day() {
    let app = start("workers = 1");
    let mut client = app.client();
    let due = |ms: u64| Request::push("mails", "note {ms}").meta(Key::DUE_AT, ms.to_be_bytes());
    let at = now_ms() + 250;
    let id = client.push(&due(at));
    client.job_in(&id, "done");
    let ran: u64 = app.dir.notes()[0].parse().expect("a time");
    assert!(ran >= at, "{ran} {at}");
    let past = client.push(&due(1));
    client.job_in(&past, "done");
}

/// More jobs than are loaded from the store at a time, so short that they are prefetched (issue 9, A29).
#[test]
fn jobs_with_past_due_times_run_in_the_order_of_these_times() {
    const JOBS: u64 = 600;
    for more in [
        "",
        "\n[store]\ndriver = \"memory\"",
        "\n[queue.mails]\nordered = true",
        "\n[queue.mails]\nack = \"delivery\"",
    ] {
        let app = start(&format!("workers = 1{more}"));
        let gate = app.dir.gate("gate");
        let mut client = app.client();
        client.push(&Request::push("mails", "gate gate"));
        let held = gate.wait_for_worker();
        client.push(&Request::push("mails", "note 0"));
        let now = now_ms();
        // 7 and the number of jobs have no common factor, so each job has a different time.
        let pushes: Vec<Request> = (0..JOBS)
            .map(|n| 1 + n * 7 % JOBS)
            .map(|ago| {
                let due = (now - ago * 1_000).to_be_bytes();
                Request::push("mails", format!("note {ago}")).meta(Key::DUE_AT, due)
            })
            .collect();
        for sent in client.send_all(&pushes) {
            assert_eq!(client.answer(sent).status(), Status::OK);
        }
        drop(held);
        ended(&mut client, "mails", JOBS + 2);
        // Jobs that are acknowledged on delivery have ended before they run.
        until("the last job has run", || {
            (app.dir.notes().len() as u64 > JOBS).then_some(())
        });
        let expected: Vec<String> = (0..=JOBS).rev().map(|ago| ago.to_string()).collect();
        assert_eq!(app.dir.notes(), expected, "{more}");
    }
}

#[test]
fn higher_priorities_run_first() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.push(&Request::push("mails", "gate gate"));
    let held = gate.wait_for_worker();
    for prio in [7, 3, 0, 3, 5] {
        client.push(&Request::push("mails", format!("note {prio}")).prio(prio));
    }
    drop(held);
    ended(&mut client, "mails", 6);
    assert_eq!(app.dir.notes(), ["0", "3", "3", "5", "7"]);
}

#[test]
fn a_tenant_with_many_jobs_does_not_delay_one_with_few() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.push(&Request::push("mails", "gate gate"));
    let held = gate.wait_for_worker();
    for _ in 0..40 {
        client.push(&Request::push("mails", "note many;sleep 2").key("many"));
    }
    for _ in 0..3 {
        client.push(&Request::push("mails", "note few;sleep 2").key("few"));
    }
    drop(held);
    ended(&mut client, "mails", 44);
    let notes = app.dir.notes();
    let last_of_few = notes.iter().rposition(|note| note == "few");
    assert!(last_of_few < Some(10), "they take turns: {notes:?}");
}

/// Returns how many of eight jobs with this key begin while none of them may end.
#[track_caller]
fn started_at_once(app: &App, key: &str) -> usize {
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    for _ in 0..8 {
        client.push(&Request::push("mails", "note begun;gate gate").key(key));
    }
    until("no more begin", || {
        (client.queue("mails")["ready"] == 7).then_some(())
    });
    until("one has begun", || app.dir.notes().first().cloned());
    // Other queues get what this one may not have: when their job is done, nothing is in transit.
    let other = client.push(&Request::push("other", "ok"));
    client.job_in(&other, "done");
    let begun = app.dir.notes().len();
    gate.open();
    ended(&mut client, "mails", 8);
    begun
}

#[test]
fn a_queue_never_uses_more_workers_than_its_limit() {
    assert_eq!(
        started_at_once(&start("workers = 3\n[queue.mails]\nlimit = 1"), "a"),
        1
    );
}

#[test]
fn a_tenant_never_uses_more_workers_than_per_key() {
    assert_eq!(
        started_at_once(&start("workers = 3\n[queue.mails]\nper_key = 1"), "a"),
        1
    );
}

#[test]
fn a_reserve_stays_free_for_its_queue_while_another_is_flooded() {
    let app = start("workers = 2\n[queue.urgent]\nreserve = 1\nkeep = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    for _ in 0..4 {
        client.push(&Request::push("mails", "gate gate"));
    }
    let held = gate.wait_for_worker();
    let urgent = client.push(&Request::push("urgent", "ok"));
    client.job_in(&urgent, "done");
    assert_eq!(client.queue("mails")["running"], 1);
    drop(held);
    gate.open();
}

#[test]
fn a_unique_key_is_taken_until_its_job_has_ended() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let ask = Request::push("mails", "gate gate").meta(Key::UNIQUE, "report");
    let id = client.push(&ask);
    let held = gate.wait_for_worker();
    let taken = client.request(&ask);
    assert_eq!(
        (taken.status(), taken.text()),
        (Status::ALREADY_EXISTS, id.clone())
    );
    let elsewhere = Request::push("other", "ok").meta(Key::UNIQUE, "report");
    client.push(&elsewhere);
    drop(held);
    client.job_in(&id, "done");
    gate.open();
    assert_ne!(client.push(&ask), id);
}

/// Found by the simulation, seed 1282: a store in memory reports its counts at once, and reports none for a push that
/// adds nothing.
#[test]
fn a_repeated_push_counts_once_in_a_memory_queue_too() {
    let app = start("workers = 1\n[store]\ndriver = \"memory\"");
    let mut client = app.client();
    let ask = Request::push("mails", "ok").meta(Key::IDEMPOTENCY, "order-7");
    let id = client.push(&ask);
    client.job_in(&id, "done");
    assert_eq!(client.push(&ask), id);
    assert_eq!(client.queue("mails")["ready"], 0);
}

#[test]
fn a_repeated_push_is_one_job() {
    let app = start("workers = 1");
    let mut client = app.client();
    let ask = Request::push("mails", "note run").meta(Key::IDEMPOTENCY, "order-7");
    let id = client.push(&ask);
    client.job_in(&id, "done");
    assert_eq!(client.push(&ask), id, "also when it is done");
    assert_eq!(app.dir.notes(), ["run"]);
    assert_eq!(client.queue("mails")["done"], 1);
}

#[test]
fn a_one_way_push_is_not_answered_and_runs() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.send(&Request::push("mails", "note run").flag(Flags::ONEWAY));
    until("it has run", || app.dir.notes().first().cloned());
    assert!(!client.has_answer(id));
}

#[test]
fn jobs_remain_when_their_client_disconnects() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.push(&Request::push("mails", "gate gate"));
    let held = gate.wait_for_worker();
    let mut other = app.client();
    let id = other.push(&Request::push("mails", "note stayed"));
    drop(other);
    drop(held);
    client.job_in(&id, "done");
}

#[test]
fn an_invalid_push_is_rejected_with_a_reason() {
    let rest = "workers = 1\n[queue.bounded]\nmax_waiting = 2";
    let app = start_of("jobs mails,bounded;serve", rest);
    let mut client = app.client();
    let unknown = client.request(&Request::push("mail", "ok"));
    assert_eq!(unknown.status(), Status::NOT_FOUND);
    assert_eq!(
        unknown.text(),
        "there is no queue 'mail'; did you mean 'mails'?"
    );
    let nameless = client.call("stoker.push", "ok");
    assert_eq!(nameless.status(), Status::INVALID_ARGUMENT);
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "create": true, "queue": "bounded"}),
    );
    for _ in 0..2 {
        client.push(&Request::push("bounded", "ok"));
    }
    let full = client.request(&Request::push("bounded", "ok"));
    assert_eq!(full.status(), Status::RESOURCE_EXHAUSTED);
    assert!(full.text().contains("max_waiting"), "{}", full.text());
    assert!(full.uint(Key::RETRY_AFTER) > Some(0));
    client.call_server("stoker.job", &json!({"op": "suspend", "queue": "bounded"}));
    let full = client.request(&Request::push("bounded", "ok"));
    assert!(full.text().contains("max_waiting"), "suspended jobs count");
    let call = client.call("mails.run", "ok");
    assert_eq!(
        call.status(),
        Status::NO_WORKER,
        "queues and services share no names"
    );
}

#[test]
fn the_number_of_kept_finished_jobs_is_limited() {
    let app = start("workers = 1\n[queue.mails]\nkeep_done = 5\nkeep_failed = 3");
    let mut client = app.client();
    let push = |client: &mut Client, script: &str| -> Vec<String> {
        (0..20)
            .map(|_| client.push(&Request::push("mails", script)))
            .collect()
    };
    let (done, failed) = (push(&mut client, "ok"), push(&mut client, "fail 49 no"));
    // Of the failed jobs, only those that are kept are counted.
    ended(&mut client, "mails", 23);
    for (state, ids, kept) in [("done", done, 5), ("failed", failed, 3)] {
        let listed = client.call_server("stoker.job", &json!({"op": "list", "state": state}));
        let listed = listed["jobs"].as_array().cloned().unwrap_or_default();
        let listed: Vec<&str> = listed.iter().filter_map(|job| job["id"].as_str()).collect();
        assert_eq!(listed, ids[20 - kept..], "the latest {state}");
        let forgotten = client.try_call_server("stoker.job", &json!({"op": "show", "id": ids[0]}));
        let refusal = forgotten.expect_err("it is forgotten");
        assert_eq!(refusal.status(), Status::NOT_FOUND);
    }
    assert_eq!(client.queue("mails")["done"], 20, "all are counted");
}

#[test]
fn a_returned_job_runs_on_another_worker_without_using_an_attempt() {
    // A worker that leaves while it is idle.
    let app = start("workers = 2");
    let mut client = app.client();
    assert_eq!(client.call("t.run", "ok bye;goaway;exit 0").text(), "bye");
    app.wait_for_log("p-*has ended (exit code 0)");
    app.ready();
    let id = client.push(&Request::push("mails", "ok"));
    client.job_in(&id, "done");
    assert_eq!(app.pool()["restarts"], 0);
}
