//! The memory of ended jobs that are stored in memory: at most half of `max_memory`, and the oldest ones make room.

use crate::start;
use serde_json::{Value, json};
use stoker_testkit::{App, Client, Request, until};
use stoker_wire::Status;

/// Room for five bodies of 90 KB.
#[track_caller]
fn start_small() -> App {
    start("workers = 1\n[store]\ndriver = \"memory\"\n[stoker]\nmax_memory = \"1MB\"")
}

/// Pushes a script that is padded to this many bytes.
#[track_caller]
fn push(client: &mut Client, queue: &str, script: &str, bytes: usize) -> String {
    let body = script.to_owned() + &" ".repeat(bytes - script.len());
    client.push(&Request::push(queue, body))
}

/// Makes `number` large jobs fail, one after another.
#[track_caller]
fn fail(client: &mut Client, number: usize) -> Vec<String> {
    let each = |_| {
        let id = push(client, "mails", "fail 49 no", 90_000);
        client.job_in(&id, "failed");
        id
    };
    (0..number).map(each).collect()
}

#[track_caller]
fn remembered(client: &mut Client, queue: &str) -> Vec<String> {
    let listed = client.call_server("stoker.job", &json!({"op": "list", "queue": queue}));
    let listed = listed["jobs"].as_array().cloned().unwrap_or_default();
    let ids = listed.iter().filter_map(|job| job["id"].as_str());
    ids.map(str::to_owned).collect()
}

fn shown(client: &mut Client, id: &str) -> Result<Value, Status> {
    let shown = client.try_call_server("stoker.job", &json!({"op": "show", "id": id}));
    shown.map_err(|refusal| refusal.status())
}

#[test]
fn old_failed_jobs_are_deleted_for_later_ones() {
    let app = start_small();
    let mut client = app.client();
    // Thirty of them are larger than all memory, so deleted jobs must free their memory.
    let failed = fail(&mut client, 30);
    assert_eq!(remembered(&mut client, "mails"), failed[25..]);
    assert_eq!(shown(&mut client, &failed[24]), Err(Status::NOT_FOUND));
    // A job that ran again counts as the latest failure.
    client.call_server("stoker.job", &json!({"op": "retry", "id": failed[25]}));
    client.job_in(&failed[25], "failed");
    let next = fail(&mut client, 1);
    let kept = [&failed[25..26], &failed[27..], &next].concat();
    assert_eq!(remembered(&mut client, "mails"), kept);
}

#[test]
fn done_jobs_do_not_displace_failed_ones() {
    let app = start_small();
    let mut client = app.client();
    let failed = fail(&mut client, 5);
    for _ in 0..10 {
        let id = push(&mut client, "other", "ok", 90_000);
        client.job_in(&id, "done");
    }
    assert_eq!(remembered(&mut client, "mails"), failed);
    assert_eq!(remembered(&mut client, "other").len(), 10);
}

#[test]
fn the_oldest_failed_or_cancelled_job_of_all_queues_is_deleted_first() {
    let app = start_small();
    let mut client = app.client();
    // A queue exists once something was pushed to it.
    let first = push(&mut client, "other", "ok", 2);
    client.job_in(&first, "done");
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "create": true, "queue": "other"}),
    );
    fail(&mut client, 3);
    let cancelled: Vec<String> = (0..5)
        .map(|_| push(&mut client, "other", "ok", 90_000))
        .collect();
    let waiting = json!({"op": "cancel", "queue": "other", "state": "ready"});
    assert_eq!(client.call_server("stoker.job", &waiting)["count"], 5);
    assert!(remembered(&mut client, "mails").is_empty());
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": "other"}));
    let back = json!({"op": "retry", "state": "cancelled"});
    assert_eq!(client.call_server("stoker.job", &back)["count"], 5, "whole");
    for id in &cancelled {
        client.job_in(id, "done");
    }
}

#[test]
fn a_job_larger_than_all_room_is_not_kept() {
    let app = start_small();
    let mut client = app.client();
    let id = push(&mut client, "mails", "fail 49 no", 600_000);
    until("it has failed", || {
        (shown(&mut client, &id) == Err(Status::NOT_FOUND)).then_some(())
    });
    let id = push(&mut client, "mails", "ok", 900_000);
    client.job_in(&id, "done");
    let failed = fail(&mut client, 1);
    client.job_in(&failed[0], "failed");
}
