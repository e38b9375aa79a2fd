//! Queues that acknowledge on delivery, at full speed and beside other queues (issue 9, A1).

use crate::{setup, start};
use serde_json::json;
use std::collections::BTreeMap;
use stoker_testkit::{App, Client, Request, until};

/// How many times each job noted that it ran.
fn runs(app: &App) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for note in app.dir.notes() {
        *runs.entry(note).or_default() += 1;
    }
    runs
}

fn push_all(client: &mut Client, queue: &str, count: usize) -> Vec<String> {
    let asks: Vec<Request> = (0..count)
        .map(|n| Request::push(queue, format!("note {queue}-{n}")))
        .collect();
    let ids = client.send_all(&asks);
    ids.into_iter().map(|id| client.answer(id).text()).collect()
}

/// Short jobs of both kinds: the ordinary ones are prefetched, and neither kind overtakes the other on the wire.
#[test]
fn jobs_acknowledged_on_delivery_run_exactly_once_beside_prefetched_ones() {
    let app = start("workers = 2\n[queue.once]\nack = \"delivery\"\n[queue.mails]");
    let mut client = app.client();
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "create": true, "queue": "once"}),
    );
    client.call_server(
        "stoker.queue",
        &json!({"op": "pause", "create": true, "queue": "mails"}),
    );
    let ids = [
        push_all(&mut client, "once", 700),
        push_all(&mut client, "mails", 700),
    ];
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": "once"}));
    client.call_server("stoker.queue", &json!({"op": "resume", "queue": "mails"}));
    for id in ids.concat() {
        client.job_in(&id, "done");
    }
    until("all have run", || (runs(&app).len() == 1_400).then_some(()));
    assert!(runs(&app).values().all(|runs| *runs == 1), "each ran once");
    assert_eq!(app.pool()["restarts"], 0, "no worker broke the protocol");
}

/// Jobs that were assigned to a worker but not yet sent lose nothing when it dies, and no job is done without a run.
#[test]
fn a_shutdown_and_dying_workers_lose_no_undelivered_job() {
    let config = "workers = 2\n[queue.once]\nack = \"delivery\"\n";
    let app = start(config);
    let mut client = app.client();
    push_all(&mut client, "once", 300);
    client.push(&Request::push("once", "note dies;kill"));
    push_all(&mut client, "other", 100);
    let store = app.dir.file("stoker.db");
    let before = app.stop();
    assert_eq!(before.code, 0);
    let program = stoker_testkit::bad_worker();
    let config = format!(
        "[pool.p]\ncommand = [{program:?}, \"serve\"]\n{config}[store]\npath = {store:?}\n"
    );
    let again = setup().config(&config).start();
    let mut client = again.client();
    until("nothing waits", || {
        let queues = client.call_server("stoker.queue", &json!({"op": "list"}));
        let queues = queues["queues"].as_array().cloned().unwrap_or_default();
        let waits = |queue: &serde_json::Value| queue["ready"] != 0 || queue["running"] != 0;
        (!queues.iter().any(waits)).then_some(())
    });
    let mut noted = before.dir.notes();
    noted.extend(again.dir.notes());
    noted.sort();
    let all = noted.len();
    noted.dedup();
    assert_eq!((all, noted.len()), (401, 401), "each ran, and once");
}
