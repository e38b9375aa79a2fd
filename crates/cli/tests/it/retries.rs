//! Jobs that fail, and which of them are retried.

use crate::start;
use serde_json::{Value, json};
use stoker_testkit::{Client, Request, until};
use stoker_wire::Key;

/// The differences between the times that runs noted, in milliseconds.
fn gaps(notes: &[String]) -> Vec<u64> {
    let times: Vec<u64> = notes.iter().filter_map(|note| note.parse().ok()).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[track_caller]
fn waits_until_due(client: &mut Client, id: &str) -> i64 {
    let job = client.job_in(id, "retrying");
    let ms = |key: &str| {
        let at = job[key].as_str().unwrap_or_default();
        let of_day: Vec<f64> = at[11..23]
            .split(':')
            .filter_map(|part| part.parse().ok())
            .collect();
        ((of_day[0] * 60.0 + of_day[1]) * 60.0 + of_day[2]) * 1_000.0
    };
    // Midnight may lie between the two times.
    (ms("due_at") - ms("created_at")).rem_euclid(86_400_000.0) as i64
}

#[test]
fn a_job_without_tries_fails_at_its_first_error() {
    let app = start("workers = 1");
    let mut client = app.client();
    let id = client.push(&Request::push(
        "mails",
        "note run;fail 64 broken\nsecond line",
    ));
    let job = client.job_in(&id, "failed");
    assert_eq!(job["attempt"], 1);
    assert_eq!(job["error"]["class"], "EXCEPTION");
    assert_eq!(
        job["error"]["message"], "broken\nsecond line",
        "shown whole"
    );
    assert_eq!(
        job["body"], "note run;fail 64 broken\nsecond line",
        "kept to be looked at"
    );
    let listed = client.call_server("stoker.job", &json!({"op": "list", "state": "failed"}));
    assert_eq!(
        listed["jobs"][0]["error"]["message"], "broken",
        "its first line in a list"
    );
    assert_eq!(app.dir.notes(), ["run"]);
}

#[test]
fn a_backoff_list_sets_each_delay() {
    let app = start("workers = 1\n[queue.mails]\ntries = 4\nbackoff = [\"40ms\", \"120ms\"]");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "note {ms};fail 64 broken"));
    let job = client.job_in(&id, "failed");
    assert_eq!(job["attempt"], 4);
    let gaps = gaps(&app.dir.notes());
    assert_eq!(gaps.len(), 3);
    for (gap, min) in gaps.iter().zip([40, 120, 120]) {
        assert!(*gap >= min, "{gaps:?}");
    }
    assert_eq!(client.queue("mails")["retried"], 3);
}

#[test]
fn an_exponential_backoff_has_full_jitter_up_to_its_cap() {
    let rest = "workers = 1\n[queue.mails]\ntries = 5\nbackoff = { base = \"30m\", cap = \"1h\" }";
    let app = start(rest);
    let mut client = app.client();
    let ids: Vec<String> = (0..16)
        .map(|_| client.push(&Request::push("mails", "fail 64 broken")))
        .collect();
    let waits: Vec<i64> = ids
        .iter()
        .map(|id| waits_until_due(&mut client, id))
        .collect();
    assert!(
        waits
            .iter()
            .all(|ms| (0..=30 * 60_000 + 5_000).contains(ms)),
        "{waits:?}"
    );
    let mut minutes: Vec<i64> = waits.iter().map(|ms| ms / 60_000).collect();
    minutes.sort_unstable();
    minutes.dedup();
    assert!(
        minutes.len() > 4,
        "their retries are spread over time: {waits:?}"
    );
}

#[test]
fn a_job_that_failed_once_may_succeed() {
    let app = start("workers = 1\n[queue.mails]\ntries = 3\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "once failed;fail 64 not yet"));
    let job = client.job_in(&id, "done");
    assert_eq!(job["attempt"], 2);
    assert_eq!(job["error"]["message"], "not yet", "why it took two runs");
}

#[test]
fn the_tries_and_backoff_of_a_job_override_those_of_its_queue() {
    let app = start("workers = 1\n[queue.mails]\ntries = 9\nbackoff = [\"1h\"]");
    let mut client = app.client();
    let waits: Vec<u8> = [20u32, 60].iter().flat_map(|ms| ms.to_be_bytes()).collect();
    let ask = Request::push("mails", "note {ms};fail 64 broken")
        .meta(Key::TRIES, 3u16.to_be_bytes())
        .meta(Key::BACKOFF, waits);
    let id = client.push(&ask);
    assert_eq!(client.job_in(&id, "failed")["attempt"], 3);
    let gaps = gaps(&app.dir.notes());
    assert!(gaps[0] >= 20 && gaps[1] >= 60, "{gaps:?}");
}

#[test]
fn unlimited_tries_are_not_limited() {
    let app = start("workers = 1\n[queue.mails]\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let script = "if enough ok;note run;fail 64 again";
    let id = client.push(&Request::push("mails", script).meta(Key::TRIES, 0u16.to_be_bytes()));
    until("it has run ten times", || {
        (app.dir.notes().len() >= 10).then_some(())
    });
    app.dir.write("enough", "");
    assert!(client.job_in(&id, "done")["attempt"].as_u64() > Some(10));
}

#[test]
fn a_job_can_release_itself_with_a_delay() {
    let app = start("workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"1h\"]");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "note {ms};once asked;retry 80"));
    let job = client.job_in(&id, "done");
    assert_eq!(job["attempt"], 2, "a release is a run");
    assert!(gaps(&app.dir.notes())[0] >= 80);
    let spent = client.push(&Request::push("mails", "retry 0"));
    assert_eq!(
        client.job_in(&spent, "failed")["error"]["message"],
        "not now"
    );
}

#[test]
fn a_release_without_a_time_waits_by_the_queues_backoff() {
    let app = start("workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"70ms\"]");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "note {ms};once asked;retry"));
    client.job_in(&id, "done");
    assert!(gaps(&app.dir.notes())[0] >= 70);
}

#[test]
fn a_permanent_failure_is_not_retried() {
    let app = start("workers = 1\n[queue.mails]\ntries = 5\nbackoff = [\"0s\"]");
    let mut client = app.client();
    for (code, runs) in [
        (49, 1),
        (3, 1),
        (5, 1),
        (12, 1),
        (13, 5),
        (14, 5),
        (64, 5),
        (99, 5),
    ] {
        let id = client.push(&Request::push("mails", format!("fail {code} no")));
        let job = client.job_in(&id, "failed");
        assert_eq!(job["attempt"], runs, "status {code}");
    }
}

#[test]
fn a_worker_receives_the_number_of_earlier_attempts() {
    let app = start("workers = 1\n[queue.mails]\ntries = 3\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let id = client.push(&Request::push(
        "mails",
        "note-told;if dead ok;once failed;fail 64 no",
    ));
    client.job_in(&id, "done");
    let crash = client.push(&Request::push("mails", "note-told;once dead;kill"));
    client.job_in(&crash, "done");
    let told: Vec<(Value, Value)> = app
        .dir
        .notes()
        .iter()
        .map(|note| serde_json::from_str(note).expect("JSON"))
        .map(|told: Value| (told["attempt"].clone(), told["crashes"].clone()))
        .collect();
    let wanted = [
        (json!(0), Value::Null),
        (json!(1), Value::Null),
        (json!(0), Value::Null),
        (json!(0), json!(1)),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn a_failed_job_retried_by_an_operator_has_all_its_tries_again() {
    let app = start("workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"0s\"]");
    let mut client = app.client();
    let script = "note run;if repaired ok;fail 64 broken";
    let ids: Vec<String> = (0..3)
        .map(|_| client.push(&Request::push("mails", script)))
        .collect();
    ids.iter().for_each(|id| drop(client.job_in(id, "failed")));
    let one = client.call_server("stoker.job", &json!({"op": "retry", "id": ids[0]}));
    assert_eq!(one, json!({"count": 1}));
    until("it has failed again", || {
        (app.dir.notes().len() == 8).then_some(())
    });
    assert_eq!(client.job_in(&ids[0], "failed")["attempt"], 2);
    app.dir.write("repaired", "");
    let all = client.call_server("stoker.job", &json!({"op": "retry", "state": "failed"}));
    assert_eq!(all, json!({"count": 3}));
    ids.iter().for_each(|id| drop(client.job_in(id, "done")));
    assert_eq!(client.queue("mails")["failed"], 0);
}

#[test]
fn a_crash_does_not_use_up_a_try() {
    let app = start("workers = 1\n[queue.mails]\ntries = 1");
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "once died;kill"));
    let job = client.job_in(&id, "done");
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(1), &json!(1)));
}
