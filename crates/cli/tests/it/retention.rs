//! How long ended jobs are kept, with a separate time for each part of them.

use crate::{pool_of, start};
use serde_json::{Value, json};
use stoker_testkit::{Client, Request, until};
use stoker_wire::Status;

const QUEUES: &str = "workers = 1
[queue.done]
keep_done_for = \"100ms\"
keep_results = \"0s\"
[queue.failed]
keep_failed_for = \"100ms\"
[queue.results]
keep_results = \"100ms\"
keep_payloads = \"1h\"
[queue.payloads]
keep_payloads = \"100ms\"
[queue.count]
keep_done = 2
keep_results = \"0s\"
keep_failed = 2";

/// Pushes a job to a queue and waits for its end.
fn ended(client: &mut Client, queue: &str, script: &str, state: &str) -> String {
    let id = client.push(&Request::push(queue, script));
    client.job_in(&id, state);
    id
}

/// The job, or `None` if it has been deleted.
fn known(client: &mut Client, id: &str) -> Option<Value> {
    let show = json!({"op": "show", "id": id});
    match client.try_call_server("stoker.job", &show) {
        Ok(job) => Some(job),
        Err(refusal) => {
            assert_eq!(refusal.status(), Status::NOT_FOUND, "{}", refusal.text());
            None
        }
    }
}

fn is_deleted(client: &mut Client, id: &str) {
    until(&format!("{id} is forgotten"), || {
        known(client, id).is_none().then_some(())
    });
}

#[test]
fn jobs_payloads_and_results_have_their_own_retention() {
    let app = start(QUEUES);
    let mut client = app.client();
    let failed: Vec<String> = ["done", "results", "payloads"]
        .map(|queue| ended(&mut client, queue, "fail 69 no", "failed"))
        .into();
    let done = ended(&mut client, "failed", "ok answer", "done");

    let gone = client.push(&Request::push("done", "ok answer"));
    is_deleted(&mut client, &gone);
    let gone = client.push(&Request::push("failed", "fail 69 no"));
    is_deleted(&mut client, &gone);

    let id = ended(&mut client, "results", "ok answer", "done");
    until("the result is forgotten", || {
        known(&mut client, &id).expect("the job stays")["result"].as_null()
    });
    assert_eq!(client.job(&id)["body"], "ok answer", "it is kept longer");
    let id = ended(&mut client, "payloads", "ok answer", "done");
    until("the payload is forgotten", || {
        known(&mut client, &id).expect("the job stays")["body"].as_null()
    });
    assert_eq!(client.job(&id)["result"], "answer", "it is kept longer");

    let job = client.job(&done);
    assert_eq!(job["result"], "answer", "a day is not over");
    assert_eq!(
        job["body"],
        Value::Null,
        "a payload is not kept unless asked for"
    );
    for id in failed {
        assert_eq!(client.job(&id)["body"], "fail 69 no", "nor are thirty");
    }
}

#[test]
fn the_number_of_kept_jobs_is_limited_per_state() {
    let app = start(QUEUES);
    let mut client = app.client();
    let mut ids = |script: &str, state: &str| -> Vec<String> {
        let end = |_| ended(&mut client, "count", script, state);
        (0..5).map(end).collect()
    };
    for ids in [ids("ok", "done"), ids("fail 69 no", "failed")] {
        let (old, new) = ids.split_at(3);
        old.iter().for_each(|id| is_deleted(&mut client, id));
        for id in new {
            assert!(known(&mut client, id).is_some(), "{id}");
        }
    }
}

#[test]
fn a_reload_changes_how_many_are_kept() {
    let app = start("workers = 1\n[queue.mails]");
    let mut client = app.client();
    let before: Vec<String> = (0..3)
        .map(|_| ended(&mut client, "mails", "ok", "done"))
        .collect();
    let less = "workers = 1\n[queue.mails]\nkeep_done = 1";
    app.dir.write("stoker.toml", pool_of("serve", less));
    client.call_server("stoker.pool", &json!({"op": "reload"}));
    let last = ended(&mut client, "mails", "ok", "done");
    before.iter().for_each(|id| is_deleted(&mut client, id));
    assert!(known(&mut client, &last).is_some());
}
