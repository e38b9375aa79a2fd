//! Undeclared queues, which only producers have named: how many there may be, and when they expire.

use crate::start;
use serde_json::{Value, json};
use stoker_testkit::{Client, Request, as_nobody, procs, until};
use stoker_wire::{Key, Status};

#[track_caller]
fn names(client: &mut Client) -> Vec<String> {
    let all = client.call_server("stoker.queue", &json!({"op": "list"}));
    let all = all["queues"].as_array().cloned().unwrap_or_default();
    let jobs = all.iter().filter(|queue| queue["kind"] == "jobs");
    let names = jobs.filter_map(|queue| queue["name"].as_str());
    names.map(str::to_owned).collect()
}

#[track_caller]
fn refusal(client: &mut Client, ask: &Value) -> (Status, String) {
    let refused = client.try_call_server("stoker.queue", ask);
    let refused = refused.expect_err("it is refused");
    (refused.status(), refused.text())
}

/// Runs a job of a queue to its end.
#[track_caller]
fn run(client: &mut Client, queue: &str) -> String {
    let id = client.push(&Request::push(queue, "ok"));
    client.job_in(&id, "done");
    id
}

// Issue 9, A10
#[test]
fn an_unused_queue_expires_and_is_created_again_on_use() {
    let app = start("workers = 1\n[queue.kept]\n[stoker]\nqueue_expiry = \"300ms\"");
    let mut client = app.client();
    let done = run(&mut client, "typo");
    run(&mut client, "kept");
    run(&mut client, "paused");
    client.call_server("stoker.queue", &json!({"op": "pause", "queue": "paused"}));
    run(&mut client, "set");
    client.call_server(
        "stoker.queue",
        &json!({"op": "set", "queue": "set", "weight": 2}),
    );
    let failed = client.push(&Request::push("failing", "fail 49 no"));
    client.job_in(&failed, "failed");
    until("the one that nobody needs is gone", || {
        (!names(&mut client).contains(&"typo".to_owned())).then_some(())
    });
    let mut left = names(&mut client);
    left.sort();
    assert_eq!(left, ["failing", "kept", "paused", "set"]);
    let job = client.job(&done);
    assert_eq!(
        (&job["state"], &job["queue"]),
        (&json!("done"), &json!("typo"))
    );
    run(&mut client, "typo");
    assert_eq!(client.queue("typo")["done"], 2, "its past is still counted");
}

/// The queue is checked while its job runs, and once more after that.
#[test]
fn a_queue_that_was_busy_when_it_was_checked_expires_later() {
    let app = start("workers = 1\n[stoker]\nqueue_expiry = \"300ms\"");
    let mut client = app.client();
    let id = client.push(&Request::push("busy", "sleep 900"));
    client.job_in(&id, "done");
    until("the queue is gone", || {
        (!names(&mut client).contains(&"busy".to_owned())).then_some(())
    });
}

// Issue 9, A10
#[test]
fn a_cancelled_job_of_an_expired_queue_can_be_retried() {
    let app = start("workers = 1\n[stoker]\nqueue_expiry = \"300ms\"");
    let mut client = app.client();
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "queue": "rare", "create": true}),
    );
    let id = client.push(&Request::push("rare", "ok"));
    client.call_server("stoker.job", &json!({"op": "cancel", "id": id}));
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": "rare"}));
    until("the queue is gone", || {
        (!names(&mut client).contains(&"rare".to_owned())).then_some(())
    });
    client.call_server("stoker.job", &json!({"op": "retry", "id": id}));
    client.job_in(&id, "done");
}

// Issue 9, A10
#[test]
fn new_queue_names_replace_unused_ones() {
    let app = start("workers = 1\n[stoker]\nuser_queues = 5");
    let mut client = app.client();
    let mut hold = |queue: &str| {
        let delay = 3_600_000u64.to_be_bytes();
        client.request(&Request::push(queue, "ok").meta(Key::DELAY, delay))
    };
    for n in 0..5 {
        assert_eq!(hold(&format!("q{n}")).status(), Status::OK);
    }
    let refused = hold("one-more");
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    assert!(
        refused.text().contains("stoker.user_queues"),
        "{}",
        refused.text()
    );
    assert!(refused.uint(Key::RETRY_AFTER).is_some(), "it may pass");
    assert_eq!(
        hold("q3").status(),
        Status::OK,
        "a known name is always good"
    );
    client.call_server("stoker.job", &json!({"op": "cancel", "queue": "q1"}));
    until("the one without jobs makes room", || {
        (client.request(&Request::push("one-more", "ok")).status() == Status::OK).then_some(())
    });
    assert!(!names(&mut client).contains(&"q1".to_owned()));
}

/// A new queue of a user can replace only an unused queue of the same user, and only at the user's limit.
#[test]
fn new_queue_names_of_one_user_replace_no_queue_of_another() {
    let app = start("workers = 1\n[stoker]\nsocket_mode = \"0666\"\nuser_queues = 2");
    let mut client = app.client();
    run(&mut client, "theirs");
    let pushed = as_nobody(|| {
        let mut nobody = app.client();
        let delay = 3_600_000u64.to_be_bytes();
        let held = nobody.request(&Request::push("held", "ok").meta(Key::DELAY, delay));
        assert_eq!(held.status(), Status::OK);
        nobody.push(&Request::push("done", "ok"));
        until("the one that is not in use makes room", || {
            (nobody.request(&Request::push("new", "ok")).status() == Status::OK).then_some(())
        });
    });
    if pushed.is_some() {
        let left = names(&mut client);
        assert!(left.contains(&"theirs".to_owned()), "{left:?}");
        assert!(!left.contains(&"done".to_owned()), "{left:?}");
    }
    // The queue has been unused for longer than it takes to be replaced.
    run(&mut client, "mine");
    assert!(names(&mut client).contains(&"theirs".to_owned()));
}

// Issue 9, A10
#[test]
fn a_queue_is_removed_unless_it_has_jobs_or_is_configured() {
    let app = start("workers = 1\n[queue.kept]");
    let mut client = app.client();
    let remove = |queue: &str| json!({"op": "remove", "queue": queue});
    let (status, text) = refusal(&mut client, &remove("kept"));
    assert_eq!(status, Status::FAILED_PRECONDITION);
    assert!(text.contains("remove the section [queue.kept]"), "{text}");
    let failed = client.push(&Request::push("typo", "fail 49 no"));
    client.job_in(&failed, "failed");
    let (status, text) = refusal(&mut client, &remove("typo"));
    assert_eq!(status, Status::FAILED_PRECONDITION);
    assert!(text.contains("1 failed job"), "{text}");
    client.call_server("stoker.job", &json!({"op": "discard", "id": failed}));
    client.call_server("stoker.queue", &json!({"op": "pause", "queue": "typo"}));
    let set = json!({"op": "set", "queue": "typo", "weight": 7});
    client.call_server("stoker.queue", &set);
    until("the store has counted it", || {
        client.try_call_server("stoker.queue", &remove("typo")).ok()
    });
    assert_eq!(names(&mut client), ["kept"]);
    assert_eq!(refusal(&mut client, &remove("typo")).0, Status::NOT_FOUND);
    run(&mut client, "typo");
    assert_eq!(client.queue("typo")["paused"], false, "it is a new one");
    assert_eq!(client.queue("typo")["weight"], 1);
    let removed = app.cli(&["queues", "remove", "typo"]);
    assert_eq!(removed.code, 0, "{removed:?}");
}

// Issue 9, A23
#[test]
fn a_dry_run_creates_no_queue() {
    let app = start("workers = 1");
    let mut client = app.client();
    run(&mut client, "mails");
    let dry = app.cli(&[
        "jobs",
        "move",
        "--queue",
        "mails",
        "--to",
        "mials",
        "--dry-run",
    ]);
    assert_eq!((dry.code, &*dry.stdout), (0, "0 jobs\n"), "{}", dry.stderr);
    assert_eq!(names(&mut client), ["mails"]);
}

// Issue 9, A10
#[test]
fn pausing_an_unknown_queue_does_not_create_it() {
    let app = start("workers = 1\n[queue.mails]");
    let mut client = app.client();
    for op in ["pause", "resume"] {
        let (status, text) = refusal(&mut client, &json!({"op": op, "queue": "mials"}));
        assert_eq!(status, Status::NOT_FOUND);
        assert!(text.contains("did you mean 'mails'?"), "{text}");
        assert!(text.contains("--create"), "{text}");
    }
    client.call_server("stoker.queue", &json!({"op": "find", "queue": "mials"}));
    assert_eq!(names(&mut client), ["mails"]);
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "queue": "new", "create": true}),
    );
    assert_eq!(client.queue("new")["paused"], true);
}

// Issue 9, A10
#[test]
fn a_restart_does_not_load_empty_queues() {
    let app = start("workers = 1");
    let mut client = app.client();
    let done = run(&mut client, "past");
    let failed = client.push(&Request::push("failing", "fail 49 no"));
    client.job_in(&failed, "failed");
    procs::kill(app.server());
    app.ready();
    let mut client = app.client();
    until("they are restored", || {
        (names(&mut client) == ["failing"]).then_some(())
    });
    assert_eq!(client.job(&done)["queue"], "past");
}

#[test]
fn a_restart_keeps_the_overrides_of_an_empty_queue() {
    let app = start("workers = 1");
    let mut client = app.client();
    run(&mut client, "past");
    run(&mut client, "favoured");
    client.call_server(
        "stoker.queue",
        &json!({"op": "set", "queue": "favoured", "weight": 5}),
    );
    procs::kill(app.server());
    app.ready();
    let mut client = app.client();
    until("it is restored", || {
        (names(&mut client) == ["favoured"]).then_some(())
    });
    assert_eq!(client.queue("favoured")["weight"], 5);
}
