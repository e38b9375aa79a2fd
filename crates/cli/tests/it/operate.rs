//! Commands of operators on jobs of a durable store, including jobs that the server has loaded.

use crate::store::{kill_server, notes};
use crate::{run_short_jobs, start, start_of};
use serde_json::{Value, json};
use stoker_testkit::{App, Client, Request};
use stoker_wire::{Key, Status};

#[test]
fn failures_are_grouped_moved_edited_exported_and_run_again() {
    let app = start("workers = 1\n[queue.mails]\n[queue.other]");
    let mut client = app.client();
    for n in 0..3 {
        let id = client.push(&Request::push("mails", format!("fail 64 no row {n}")));
        client.job_in(&id, "failed");
    }
    let odd =
        client.push(&Request::push("mails", "fail 64 something else").meta(Key::JOB_TYPE, "Odd"));
    client.job_in(&odd, "failed");
    let job = |op: Value| op;
    let groups = client.call_server("stoker.job", &job(json!({"op": "groups"})));
    let groups = groups["groups"].as_array().cloned().unwrap_or_default();
    let counts: Vec<&Value> = groups.iter().map(|group| &group["count"]).collect();
    assert_eq!(counts, [&json!(3), &json!(1)]);

    let edited = client.call_server(
        "stoker.job",
        &json!({"op": "edit", "id": odd, "body": "note edited"}),
    );
    assert_eq!(edited["count"], 1);
    assert_eq!(client.job(&odd)["history"][1]["what"], "edited");
    let which = json!({"op": "move", "type": "Odd", "state": "failed", "to": "other"});
    assert_eq!(client.call_server("stoker.job", &which)["count"], 1);
    assert_eq!(client.job(&odd)["queue"], "other");
    assert_eq!(
        client.call_server("stoker.job", &json!({"op": "retry", "id": odd}))["count"],
        1
    );
    client.job_in(&odd, "done");
    assert_eq!(notes(&app), ["edited"]);

    let filter = json!({"op": "export", "fingerprint": groups[0]["fingerprint"]});
    let exported = client.call_server("stoker.job", &filter)["jobs"].clone();
    assert_eq!(exported.as_array().map(Vec::len), Some(3));
    let discard = json!({"op": "discard", "queue": "mails", "state": "failed"});
    assert_eq!(client.call_server("stoker.job", &discard)["count"], 3);
    assert_eq!(
        client.call_server("stoker.job", &json!({"op": "count", "state": "failed"}))["count"],
        0
    );
    let import = json!({"op": "import", "jobs": exported});
    assert_eq!(client.call_server("stoker.job", &import)["count"], 3);
    assert_eq!(
        client.call_server("stoker.job", &json!({"op": "count", "state": "failed"}))["count"],
        3
    );
}

#[test]
fn cancelling_ready_jobs_does_not_affect_running_ones() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let runs = client.push(&Request::push("mails", "gate gate"));
    let running = gate.wait_for_worker();
    let waits = client.push(&Request::push("mails", "ok"));
    let moved = client.try_call_server(
        "stoker.job",
        &json!({"op": "move", "id": runs, "to": "other"}),
    );
    assert_eq!(
        moved.map_err(|got| got.status()).err(),
        Some(Status::FAILED_PRECONDITION)
    );
    let cancel = json!({"op": "cancel", "queue": "mails", "state": "ready"});
    assert_eq!(client.call_server("stoker.job", &cancel)["count"], 1);
    client.job_in(&waits, "cancelled");
    drop(running);
    client.job_in(&runs, "done");
}

#[test]
fn a_list_of_ready_jobs_has_no_running_ones() {
    let app = start("workers = 1\n[queue.mails]");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.push(&Request::push("mails", "gate gate"));
    let _running = gate.wait_for_worker();
    let waits = client.push(&Request::push("mails", "ok"));
    let filters = [
        json!({"state": "ready"}),
        json!({"states": ["ready"]}),
        json!({"states": ["done", "ready"]}),
    ];
    for mut list in filters {
        list["op"] = "list".into();
        let page = client.call_server("stoker.job", &list);
        let ids = page["jobs"].as_array().unwrap().iter();
        let ids: Vec<&str> = ids.map(|job| job["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [&waits], "{list}");
    }
}

#[test]
fn the_age_of_running_jobs_is_part_of_the_filter() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let runs = client.push(&Request::push("mails", "gate gate"));
    let running = gate.wait_for_worker();
    let hour = 3_600_000;
    let cancel = json!({"op": "cancel", "state": "running", "older_ms": hour});
    assert_eq!(client.call_server("stoker.job", &cancel)["count"], 0);
    let list = json!({"op": "list", "state": "running", "older_ms": hour});
    assert_eq!(client.call_server("stoker.job", &list)["jobs"], json!([]));
    drop(running);
    client.job_in(&runs, "done");
}

/// Jobs that a worker has, but has not begun, are ready: they can be cancelled, but not moved.
#[test]
fn jobs_that_wait_at_a_worker_are_cancelled_or_skipped() {
    let app = start_of("quick;serve", "workers = 1\n[queue.mails]\n[queue.other]");
    let mut client = app.client();
    run_short_jobs(&mut client);
    let gate = app.dir.gate("gate");
    let runs = client.push(&Request::push("mails", "gate gate"));
    let held = gate.wait_for_worker();
    let behind: Vec<String> = (0..40)
        .map(|_| client.push(&Request::push("mails", "ok")))
        .collect();
    let assigned = app.workers()[0]["assigned"].as_u64().expect("a number");
    assert!(assigned > 8, "many are prefetched: {assigned}");
    let which = json!({"op": "move", "id": behind[0], "to": "other"});
    let refused = client
        .try_call_server("stoker.job", &which)
        .expect_err("its worker has it");
    assert_eq!(refused.status(), Status::FAILED_PRECONDITION);
    let which = json!({"op": "move", "queue": "mails", "to": "other"});
    let moved = client.call_server("stoker.job", &which);
    let number = |answer: &serde_json::Value, name: &str| answer[name].as_u64().unwrap_or(0);
    let total = number(&moved, "count") + number(&moved, "skipped");
    assert_eq!(total, 41, "{moved}");
    let at_worker = number(&moved, "skipped");
    let which = json!({"op": "cancel", "queue": "mails", "state": "ready"});
    let cancel = client.send(&Request::call("stoker.job", which.to_string()));
    // The store handles changes one after the other.
    let none = json!({"op": "suspend", "queue": "other", "key": "none"});
    client.call_server("stoker.job", &none);
    drop(held);
    let answer = client.answer(cancel).text();
    let cancelled: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    // The first one runs, and the others may run before their worker is stopped.
    let total = number(&cancelled, "count") + number(&cancelled, "skipped");
    assert_eq!(total, at_worker, "{cancelled}");
    client.job_in(&runs, "done");
}

#[test]
fn prefetched_jobs_can_be_moved() {
    let app = start("workers = 1\n[queue.mails]\n[queue.other]");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let runs = client.push(&Request::push("mails", "gate gate"));
    let running = gate.wait_for_worker();
    let waiting: Vec<String> = (0..500)
        .map(|n| client.push(&Request::push("mails", format!("note {n}"))))
        .collect();
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "create": true, "queue": "other"}),
    );
    let which = json!({"op": "move", "queue": "mails", "to": "other"});
    let moved = client.call_server("stoker.job", &which);
    assert_eq!(
        moved,
        json!({"count": 500, "skipped": 1}),
        "the one that runs stays"
    );
    assert_eq!(client.queue("other")["ready"], 500);
    assert_eq!(client.queue("mails")["ready"], 0);
    let back = json!({"op": "move", "id": waiting[0], "to": "mails"});
    assert_eq!(client.call_server("stoker.job", &back), json!({"count": 1}));
    drop(running);
    client.job_in(&runs, "done");
    client.job_in(&waiting[0], "done");
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": "other"}));
    client.job_in(&waiting[499], "done");
    let order: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    assert_eq!(notes(&app), order, "each ran once, in their order");
}

#[test]
fn prefetched_jobs_can_be_suspended() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let runs = client.push(&Request::push("mails", "gate gate"));
    let running = gate.wait_for_worker();
    let waits = client.push(&Request::push("mails", "note waited"));
    let later =
        client.push(&Request::push("mails", "ok").meta(Key::DELAY, 600_000_u64.to_be_bytes()));
    let suspend = json!({"op": "suspend", "queue": "mails"});
    assert_eq!(
        client.call_server("stoker.job", &suspend),
        json!({"count": 2, "skipped": 1})
    );
    drop(running);
    client.job_in(&runs, "done");
    let mut client = kill_server(&app);
    client.job_in(&waits, "suspended");
    client.job_in(&later, "suspended");
    assert_eq!(client.job(&waits)["history"][0]["what"], "suspended");
    let release = json!({"op": "release", "id": waits});
    assert_eq!(
        client.call_server("stoker.job", &release),
        json!({"count": 1})
    );
    client.job_in(&waits, "done");
    assert_eq!(notes(&app), ["waited"]);
}

#[test]
fn a_parked_job_can_be_moved_or_retried_at_once() {
    let app = start(
        "workers = 1\n[queue.mails]\nordered = true\ntries = 2\nbackoff = [\"1h\"]\n[queue.other]",
    );
    let mut client = app.client();
    let push = |client: &mut Client, key: &str, script: &str| {
        client.push(&Request::push("mails", script).key(key))
    };
    let rests = |client: &mut Client, key: &str| {
        let first = push(
            client,
            key,
            &format!("if {key} note {key}1;once {key};fail 64 no"),
        );
        let second = push(client, key, &format!("note {key}2"));
        client.job_in(&first, "retrying");
        assert_eq!(client.job(&second)["state"], "ready");
        (first, second)
    };
    let (first, second) = rests(&mut client, "a");
    let release = json!({"op": "release", "id": first});
    assert_eq!(
        client.call_server("stoker.job", &release),
        json!({"count": 1})
    );
    client.job_in(&second, "done");
    assert_eq!(notes(&app), ["a1", "a2"]);

    let (first, second) = rests(&mut client, "b");
    let away = json!({"op": "move", "id": first, "to": "other"});
    assert_eq!(client.call_server("stoker.job", &away), json!({"count": 1}));
    client.job_in(&second, "done");
    assert_eq!(client.job(&first)["queue"], "other");
    assert_eq!(client.job(&first)["state"], "delayed");
}

/// A pool with an ordered queue in which one job is parked after a failed run, and others wait behind it.
fn with_a_parked_job() -> (App, Client, Vec<String>) {
    let app = start(
        "workers = 1\n[queue.mails]\nordered = true\ntries = 2\nbackoff = [\"1h\"]\n[queue.other]",
    );
    let mut client = app.client();
    let push =
        |client: &mut Client, script: &str| client.push(&Request::push("mails", script).key("k"));
    let mut ids = vec![push(&mut client, "fail 64 no")];
    client.job_in(&ids[0], "retrying");
    for n in 1..4 {
        ids.push(push(&mut client, &format!("note {n}")));
    }
    (app, client, ids)
}

#[test]
fn no_job_of_a_key_runs_if_all_are_suspended() {
    let (app, mut client, ids) = with_a_parked_job();
    let suspend = json!({"op": "suspend", "queue": "mails"});
    assert_eq!(
        client.call_server("stoker.job", &suspend),
        json!({"count": 4})
    );
    client.fence();
    for id in &ids {
        assert_eq!(client.job(id)["state"], "suspended");
    }
    assert!(notes(&app).is_empty());
}

#[test]
fn no_job_of_a_key_runs_if_all_are_cancelled() {
    let (app, mut client, ids) = with_a_parked_job();
    let cancel = json!({"op": "cancel", "queue": "mails"});
    assert_eq!(
        client.call_server("stoker.job", &cancel),
        json!({"count": 4})
    );
    for id in &ids {
        client.job_in(id, "cancelled");
    }
    assert!(notes(&app).is_empty());
    assert!(!app.log().contains("is killed"), "{}", app.log());
}

#[test]
fn a_running_retry_of_an_ordered_queue_is_not_in_state_retrying() {
    let app = start("workers = 1\n[queue.mails]\nordered = true\ntries = 2\nbackoff = [\"1ms\"]");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let id = client.push(&Request::push(
        "mails",
        "if first gate gate;once first;fail 64 no",
    ));
    let second = gate.wait_for_worker();
    assert_eq!(client.job(&id)["state"], "running");
    let waiting = json!({"op": "cancel", "state": "retrying"});
    assert_eq!(
        client.call_server("stoker.job", &waiting),
        json!({"count": 0, "skipped": 1}),
        "it does not wait"
    );
    for op in ["suspend", "retry", "discard", "release"] {
        let refused = client.try_call_server("stoker.job", &json!({"op": op, "id": id}));
        let refused = refused.expect_err("it runs");
        assert_eq!(refused.status(), Status::FAILED_PRECONDITION);
        assert!(refused.text().contains("is running"), "{}", refused.text());
    }
    drop(second);
    client.job_in(&id, "done");
}

#[test]
fn a_job_is_not_retried_while_another_has_its_unique_key() {
    let app = start("workers = 1");
    let mut client = app.client();
    let push = || Request::push("mails", "ok").meta(Key::UNIQUE, "report");
    let first = client.push(&push().meta(Key::DELAY, 600_000_u64.to_be_bytes()));
    let cancel = json!({"op": "cancel", "id": first});
    client.call_server("stoker.job", &cancel);
    let other = client.push(&push().meta(Key::DELAY, 600_000_u64.to_be_bytes()));
    let retry = json!({"op": "retry", "id": first});
    let refused = client
        .try_call_server("stoker.job", &retry)
        .expect_err("it is taken");
    assert_eq!(refused.status(), Status::ALREADY_EXISTS);
    client.call_server("stoker.job", &json!({"op": "cancel", "id": other}));
    assert_eq!(
        client.call_server("stoker.job", &retry),
        json!({"count": 1})
    );
    client.job_in(&first, "done");
}

#[test]
fn a_job_edited_many_times_can_be_shown() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "ok").meta(Key::DELAY, 600_000_u64.to_be_bytes()));
    for n in 0..6 {
        let body = n.to_string().repeat(4 << 20);
        client.call_server("stoker.job", &json!({"op": "edit", "id": id, "body": body}));
    }
    let job = client.job(&id);
    assert!(job["body"].as_str().unwrap().starts_with("555"));
    let text = job["history"][2]["text"].as_str().unwrap();
    assert!(text.starts_with("111") && text.ends_with(" bytes more: show this line alone)"));
    let line = client.call_server("stoker.job", &json!({"op": "show", "id": id, "note": 3}));
    assert_eq!(
        (&line["what"], line["text"].as_str().unwrap().len()),
        (&json!("edited"), 4 << 20)
    );
    let shown = app.cli(&["jobs", "show", &id, "--note", "3"]);
    assert_eq!(shown.stdout, format!("{}\n", "1".repeat(4 << 20)));
    let shown = app.cli(&["jobs", "show", &id, "--note", "7"]);
    assert!(
        shown.stderr.contains("the job's history has no line 7"),
        "{}",
        shown.stderr
    );
}

#[test]
fn an_export_contains_keys_and_checkpoints() {
    let app = start("workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"1h\"]\n[queue.other]");
    let mut client = app.client();
    let ask = |queue| {
        let script = "if saved note-told;once saved;checkpoint page 7;fail 64 no";
        Request::push(queue, script).meta(Key::IDEMPOTENCY, "order-7")
    };
    let id = client.push(&ask("mails"));
    app.wait_for_log("*; next run in *");
    let mut exported = client.call_server("stoker.job", &json!({"op": "export"}))["jobs"].clone();
    assert_eq!(exported[0]["checkpoint"], "page 7");
    assert_eq!(exported[0]["idempotency"], "order-7");
    let import = |client: &mut Client, jobs: &Value| {
        let import = json!({"op": "import", "jobs": jobs});
        client.call_server("stoker.job", &import)["count"].clone()
    };
    assert_eq!(import(&mut client, &exported), 0, "it is here already");
    exported[0]["queue"] = "other".into();
    exported[0]["due_ms"] = 0.into();
    exported[0]["owner"] = "uid:33".into();
    assert_eq!(import(&mut client, &exported), 1);
    let there = client.push(&ask("other"));
    assert_ne!(there, id, "the same push is the imported job");
    let again =
        client.call_server("stoker.job", &json!({"op": "export", "id": there}))["jobs"].clone();
    assert_eq!(again[0]["owner"], "uid:33");
    client.job_in(&there, "done");
    let told: Value = serde_json::from_str(&notes(&app)[0]).expect("JSON");
    assert_eq!(told["checkpoint"], "page 7");
}

#[test]
fn an_import_with_an_invalid_line_names_it_and_imports_nothing() {
    let app = start("workers = 1");
    let mut client = app.client();
    let whole = json!({"queue": "mails", "state": "suspended", "body": "note imported"});
    for (key, value, wrong) in [
        (
            "queue",
            json!(7),
            "invalid \"queue\": expected the name of a queue",
        ),
        (
            "state",
            json!("faild"),
            "invalid \"state\": expected one of ready",
        ),
        ("state", json!("done"), "a done job cannot be imported"),
        ("state", json!("failed"), "a failed job needs an \"error\""),
        (
            "error",
            json!("boom"),
            "invalid \"error\": expected an object",
        ),
        (
            "priority",
            json!(8),
            "invalid \"priority\": expected a whole number from 0 to 7, got 8",
        ),
        (
            "priority",
            json!("high"),
            "invalid \"priority\": expected a whole number",
        ),
        (
            "attempt",
            json!(-1),
            "invalid \"attempt\": expected a whole number from 0 to 65535",
        ),
        (
            "codec",
            json!(256),
            "invalid \"codec\": expected a whole number from 0 to 255",
        ),
        (
            "body",
            json!({"not": "text"}),
            "invalid \"body\": expected a string, got an object",
        ),
        (
            "key",
            json!("k".repeat(201)),
            "\"key\" has more than 200 bytes",
        ),
        (
            "key_hex",
            json!("+f"),
            "invalid \"key_hex\": expected bytes as pairs of hexadecimal digits",
        ),
        (
            "key_hex",
            json!("abc"),
            "invalid \"key_hex\": expected bytes as pairs of hexadecimal digits",
        ),
        (
            "options",
            json!({"tries": "many"}),
            "in \"options\": invalid \"tries\"",
        ),
        (
            "options",
            json!({"type": "T".repeat(40_000)}),
            "in \"options\": invalid \"type\": expected a string of 1 to 255 bytes",
        ),
        (
            "idempotency",
            json!("i".repeat(40_000)),
            "\"idempotency\" has more than 200 bytes",
        ),
        (
            "owner",
            json!(33),
            "invalid \"owner\": expected a string of 1 to 100 bytes",
        ),
        (
            "owner",
            json!(""),
            "invalid \"owner\": expected a string of 1 to 100 bytes",
        ),
        (
            "meta",
            json!("no metadata"),
            "invalid \"meta\": expected metadata entries",
        ),
    ] {
        let mut edited = whole.clone();
        edited[key] = value;
        let import = json!({"op": "import", "jobs": [whole, edited]});
        let answer = client.try_call_server("stoker.job", &import);
        let answer = answer.expect_err(key);
        let text = answer.text();
        assert_eq!(answer.status(), Status::INVALID_ARGUMENT, "{key}: {text}");
        assert!(
            text.starts_with("job 2: ") && text.contains(wrong),
            "{key}: {text}"
        );
    }
    let count = json!({"op": "count"});
    assert_eq!(client.call_server("stoker.job", &count)["count"], 0);
}

/// The job's unique key is taken in the target queue, so the job stays where it is, with its key. Simulation, seed
/// 121273.
#[test]
fn an_ordered_job_that_cannot_be_moved_between_two_runs_continues() {
    let app = start(
        "workers = 1\n[queue.mails]\nordered = true\ntries = 2\nbackoff = [\"1h\"]\n[queue.other]",
    );
    let mut client = app.client();
    client.call_server("stoker.queue", &json!({"op": "pause", "queue": "other"}));
    let ask = |queue, script| Request::push(queue, script).meta(Key::UNIQUE, "report");
    client.push(&ask("other", "ok"));
    let id = client.push(&ask("mails", "fail 64 no"));
    app.wait_for_log("*; next run in *");
    let all = json!({"op": "move", "queue": "mails", "to": "other"});
    client.call_server("stoker.job", &all);
    client.call_server("stoker.job", &json!({"op": "release", "id": id}));
    client.job_in(&id, "failed");
}

/// A job that waits for its second attempt is recalled from the scheduler and released. Its worker still learns of one
/// earlier attempt.
#[test]
fn a_suspended_job_keeps_its_attempts() {
    let app = start("workers = 1\n[queue.mails]\ntries = 5\nbackoff = [\"0s\"]");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let script = "if again note-told;if again ok;once again;fail 64 no";
    // Both jobs wait before either runs, so that the second attempt comes after the other job.
    client.call_server("stoker.queue", &json!({"op": "pause", "queue": "mails"}));
    let id = client.push(&Request::push("mails", script));
    client.push(&Request::push("mails", "gate gate"));
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": "mails"}));
    let held = gate.wait_for_worker();
    client.job_in(&id, "ready");
    for op in ["suspend", "release"] {
        let changed = client.call_server("stoker.job", &json!({"op": op, "id": id}));
        assert_eq!(changed["count"], 1, "{op}");
    }
    drop(held);
    client.job_in(&id, "done");
    let told: Value = serde_json::from_str(&notes(&app)[0]).expect("JSON");
    assert_eq!(told["attempt"], 1);
}
