//! Responses to operators while the disk is full: no command is confirmed before its effect is in the store. Issue 9,
//! A3.

use crate::store::{kill_server, notes, pause};
use crate::{pool_of, setup};
use serde_json::json;
use stoker_testkit::failing::{self, Call, Place};
use stoker_testkit::{App, Client, Request, until};
use stoker_wire::Status;

/// A server whose disk is full as soon as the test fills it.
fn start(workers: &str) -> App {
    start_with_room(workers, 1)
}

/// A server whose disk accepts all writes before the write with this number, counted from when the test fills it.
fn start_with_room(workers: &str, number: u32) -> App {
    let write = Call {
        sort: "write".to_owned(),
        file: "jobs.db-wal".to_owned(),
        number,
    };
    let config = pool_of(
        "serve",
        format!("{workers}\n[store]\npath = \"store/jobs.db\""),
    );
    setup()
        .config(&config)
        .failing(&write, failing::FULL_UNTIL_HEALED)
        .start()
}

fn fill(app: &App, client: &mut Client) {
    std::fs::write(Place(app.dir.path()).arm(), "").expect("a file");
    let refused = client.request(&Request::push("mails", "note never"));
    assert_eq!(
        refused.status(),
        Status::RESOURCE_EXHAUSTED,
        "{}",
        refused.text()
    );
}

fn make_room(app: &App) {
    std::fs::write(Place(app.dir.path()).heal(), "").expect("a file");
    app.wait_for_log("the job store can write again");
}

#[test]
fn a_cancel_that_cannot_be_written_is_rejected_and_cancels_nothing() {
    let app = start("workers = 1");
    let mut client = app.client();
    pause(&mut client, true);
    // Jobs that are loaded into the scheduler, delayed jobs, and jobs that are only in the store.
    let ready: Vec<String> = (0..380)
        .map(|n| client.push(&Request::push("mails", format!("note {n}"))))
        .collect();
    let delayed = client.push(
        &Request::push("mails", "ok").meta(stoker_wire::Key::DELAY, 600_000_u64.to_be_bytes()),
    );
    fill(&app, &mut client);
    for ask in [
        json!({"op": "cancel", "queue": "mails"}),
        json!({"op": "cancel", "queue": "mails", "state": "ready"}),
        json!({"op": "cancel", "id": ready[7]}),
        json!({"op": "cancel", "id": delayed}),
        json!({"op": "suspend", "queue": "mails"}),
        json!({"op": "release", "id": delayed}),
    ] {
        let refused = client
            .try_call_server("stoker.job", &ask)
            .expect_err("it can't be written");
        let text = refused.text();
        assert_eq!(
            refused.status(),
            Status::RESOURCE_EXHAUSTED,
            "{ask}: {text}"
        );
        assert!(text.contains("disk is full"), "{ask}: {text}");
    }
    make_room(&app);
    let mut client = kill_server(&app);
    assert_eq!(client.queue("mails")["ready"], 380);
    assert_eq!(client.queue("mails")["delayed"], 1);
    // The jobs are back in the scheduler, and in their order.
    pause(&mut client, false);
    client.job_in(&ready[379], "done");
    let order: Vec<String> = (0..380).map(|n| n.to_string()).collect();
    assert_eq!(notes(&app), order);
}

#[test]
fn jobs_run_on_after_a_rejected_cancel() {
    let app = start("workers = 1");
    let mut client = app.client();
    pause(&mut client, true);
    let ids: Vec<String> = (0..9)
        .map(|n| client.push(&Request::push("mails", format!("note {n}"))))
        .collect();
    fill(&app, &mut client);
    let cancel = json!({"op": "cancel", "queue": "mails"});
    client
        .try_call_server("stoker.job", &cancel)
        .expect_err("it can't be written");
    make_room(&app);
    pause(&mut client, false);
    client.job_in(&ids[8], "done");
    let order: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    assert_eq!(notes(&app), order);
}

/// The scheduler counted a crash after it had loaded the job. Found by simulation, seed 13509.
#[test]
fn a_job_that_cannot_be_cancelled_keeps_its_crash_count() {
    // The store writes a little when it finds that the job is loaded, and more when it cancels the job: the fifth write
    // belongs to the cancellation.
    let app = start_with_room("workers = 1", 5);
    let mut client = app.client();
    let gate = app.dir.gate("gate");
    let id = client.push(&Request::push("mails", "once died;gate gate;kill"));
    let held = gate.wait_for_worker();
    pause(&mut client, true);
    drop(held);
    app.wait_for_log("*; the job is retried, alone*");
    // Once this push is answered, the crash has been written too.
    client.push(&Request::push("mails", "note behind"));
    std::fs::write(Place(app.dir.path()).arm(), "").expect("a file");
    let cancel = json!({"op": "cancel", "id": id});
    client
        .try_call_server("stoker.job", &cancel)
        .expect_err("it can't be written");
    make_room(&app);
    pause(&mut client, false);
    assert_eq!(client.job_in(&id, "done")["crashes"], 1);
}

/// The job's first run ended with the server. Which write belongs to the command depends on what the store still has to write.
#[test]
fn a_job_that_cannot_be_suspended_keeps_a_crash_of_the_server_before() {
    for write in 1..=4 {
        let app = start_with_room("workers = 1", write);
        let mut client = app.client();
        let gate = app.dir.gate("gate");
        let id = client.push(&Request::push("mails", "once ran;gate gate"));
        let held = gate.wait_for_worker();
        pause(&mut client, true);
        let mut client = kill_server(&app);
        drop(held);
        // Once this push is answered, the crash has been written too.
        client.push(&Request::push("mails", "note behind"));
        std::fs::write(Place(app.dir.path()).arm(), "").expect("a file");
        let suspend = json!({"op": "suspend", "id": id});
        client
            .try_call_server("stoker.job", &suspend)
            .expect_err("it can't be written");
        make_room(&app);
        pause(&mut client, false);
        let crashes = &client.job_in(&id, "done")["crashes"];
        assert_eq!(crashes, 1, "write {write} failed");
    }
}

/// The disk is full after some slices of a change of waiting jobs, which then is not answered as if it were complete.
#[test]
fn a_change_that_the_disk_ends_in_the_middle_is_answered_with_an_error() {
    const JOBS: u64 = 600;
    let mut ended_early = 0;
    for write in [1, 20, 60, 100, 140, 200] {
        let app = start_with_room("workers = 1", write);
        let mut client = app.client();
        pause(&mut client, true);
        for n in 0..JOBS {
            client.push(&Request::push("mails", format!("note {n}")));
        }
        std::fs::write(Place(app.dir.path()).arm(), "").expect("a file");
        let suspend = json!({"op": "suspend", "queue": "mails"});
        match client.try_call_server("stoker.job", &suspend) {
            Ok(answer) => assert_eq!(answer["count"], JOBS, "write {write} failed"),
            Err(refused) => {
                assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
                ended_early += u64::from(client.queue("mails")["suspended"] != 0);
            }
        }
    }
    assert!(ended_early > 0, "no change ended in the middle");
}

/// The job returns to its place before the other jobs, which the command did not concern. Which write belongs to the
/// command depends on what the store still has to write before it.
#[test]
fn a_job_that_cannot_be_suspended_keeps_its_position() {
    for write in 1..=4 {
        let app = start_with_room("workers = 1", write);
        let mut client = app.client();
        pause(&mut client, true);
        let ids = [0, 1, 2].map(|n| client.push(&Request::push("mails", format!("note {n}"))));
        std::fs::write(Place(app.dir.path()).arm(), "").expect("a file");
        let suspend = json!({"op": "suspend", "id": ids[0]});
        client
            .try_call_server("stoker.job", &suspend)
            .expect_err("it can't be written");
        make_room(&app);
        pause(&mut client, false);
        for id in &ids {
            client.job_in(id, "done");
        }
        assert_eq!(notes(&app), ["0", "1", "2"], "write {write} failed");
    }
}

/// The first job of the key waits for its retry, so the job behind it waits as well, whatever the outcome of a command.
/// Which write belongs to the command depends on what the store still has to write before it.
#[test]
fn a_rejected_change_does_not_let_a_job_overtake_the_parked_job_of_its_key() {
    (1..=4).for_each(|write| reject_a_change_beside_a_parked_job(write, "cancel", 1));
}

/// Here it is the first job itself that can't be suspended.
#[test]
fn a_rejected_change_of_a_parked_job_keeps_its_key_blocked() {
    (1..=4).for_each(|write| reject_a_change_beside_a_parked_job(write, "suspend", 0));
}

/// The first of two jobs of a key is parked; an operation on one of them is rejected.
fn reject_a_change_beside_a_parked_job(write: u32, op: &str, at: usize) {
    let rest = "workers = 1\n[queue.mails]\nordered = true\ntries = 2\nbackoff = [\"1h\"]";
    let app = start_with_room(rest, write);
    let mut client = app.client();
    let push = |client: &mut Client, script| client.push(&Request::push("mails", script).key("a"));
    let first = push(&mut client, "note first;fail 64 no");
    let second = push(&mut client, "note second");
    app.wait_for_log("*; next run in *");
    std::fs::write(Place(app.dir.path()).arm(), "").expect("a file");
    let id = [&first, &second][at];
    let change = json!({"op": op, "id": id});
    client
        .try_call_server("stoker.job", &change)
        .expect_err("it can't be written");
    make_room(&app);
    client.call_server("stoker.job", &json!({"op": "release", "id": first}));
    client.job_in(&second, "done");
    assert_eq!(
        notes(&app),
        ["first", "first", "second"],
        "write {write} failed"
    );
}

#[test]
fn a_queue_setting_that_cannot_be_stored_is_answered_with_an_error() {
    let app = start("workers = 1");
    let mut client = app.client();
    client.push(&Request::push("mails", "ok"));
    fill(&app, &mut client);
    for (op, more) in [
        ("pause", json!({})),
        ("resume", json!({})),
        ("set", json!({"weight": 7})),
        ("pause", json!({})),
    ] {
        let mut ask = json!({"op": op, "queue": "mails"});
        ask.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        let answer = client
            .try_call_server("stoker.queue", &ask)
            .expect_err("it can't be written");
        let text = answer.text();
        assert_eq!(answer.status(), Status::UNKNOWN, "{op}: {text}");
        assert!(
            text.contains("in effect, but not stored yet: the job store's disk is full"),
            "{text}"
        );
    }
    // The pause is in force at once, and is stored when that is possible.
    assert_eq!(client.queue("mails")["paused"], true);
    make_room(&app);
    until("it is kept", || {
        let kept = app.cli(&["store", "show", "--json", "--store", "store/jobs.db"]);
        kept.stdout.contains("\"paused\":true").then_some(())
    });
    let mut client = kill_server(&app);
    assert_eq!(client.queue("mails")["paused"], true);
    assert_eq!(client.queue("mails")["weight"], 7);
}

#[test]
fn a_cancel_on_a_full_disk_is_not_answered_as_successful() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "note ran;silence"));
    until("it runs", || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    fill(&app, &mut client);
    let cancel = json!({"op": "cancel", "id": id});
    let refused = client
        .try_call_server("stoker.job", &cancel)
        .expect_err("it can't be written");
    // Even reading the affected jobs may need disk space.
    let text = refused.text();
    let is_meant = [Status::UNKNOWN, Status::RESOURCE_EXHAUSTED].contains(&refused.status());
    assert!(is_meant && text.contains("disk is full"), "{text}");
    make_room(&app);
    // The first request may have cancelled it by now.
    client.try_call_server("stoker.job", &cancel).ok();
    client.job_in(&id, "cancelled");
}

/// The response comes after the commit: if the server dies after that, the job stays cancelled.
#[test]
fn a_cancel_is_answered_after_it_is_stored() {
    for ask in [
        json!({"op": "cancel", "state": "running"}),
        json!({"op": "cancel", "queue": "mails"}),
    ] {
        let app = crate::start("workers = 2");
        let mut client = app.client();
        let ids: Vec<String> = (0..2)
            .map(|_| client.push(&Request::push("mails", "note ran;silence")))
            .collect();
        until("both run", || (notes(&app).len() == 2).then_some(()));
        assert_eq!(client.call_server("stoker.job", &ask), json!({"count": 2}));
        let mut client = kill_server(&app);
        for id in &ids {
            assert_eq!(client.job(id)["state"], "cancelled");
        }
    }
}
