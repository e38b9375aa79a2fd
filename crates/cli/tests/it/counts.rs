//! The counts of `stoker.queue list` include everything that the caller has caused before.

use crate::setup;
use serde_json::json;
use stoker_testkit::{App, Client, Request, frame};
use stoker_wire::{Encode, Status, Type};

const CONNECTED_POOL: &str = "[pool.d]\nworkers = 1\n[queue.mails]\npool = \"d\"\n";

/// Connects as a worker: what the test writes on this connection comes before its requests on another one.
fn worker(app: &App) -> Client {
    let hello = json!({"v": [1], "role": "worker", "name": "test", "jobs": ["mails"], "slots": 1, "pool": "d"});
    Client::connect_as(&app.socket(), &hello)
}

fn answer(worker: &mut Client, status: Status) {
    let job = worker.frame().expect("the job");
    assert_eq!(job.kind, Type::Req, "{}", job.text());
    let res = Encode::new(Type::Res, job.id);
    worker.write(&frame(Encode {
        code: status.0,
        ..res
    }));
}

// Issue 9, A29
#[test]
fn finished_jobs_are_counted_at_once() {
    let app = setup().config(CONNECTED_POOL).launch();
    let (mut client, mut worker) = (app.client(), worker(&app));
    for round in 1..=50 {
        client.push(&Request::push("mails", ""));
        answer(&mut worker, Status::OK);
        let queue = client.queue("mails");
        let seen = [&queue["ready"], &queue["running"], &queue["done"]];
        assert_eq!(seen, [&json!(0), &json!(0), &json!(round)], "round {round}");
    }
    // A job that is to run again waits for its retry.
    client.push(&Request::push("mails", "").meta(stoker_wire::Key::TRIES, 0u16.to_be_bytes()));
    let retry = worker.frame().expect("the job");
    let mut after = stoker_wire::MetaBuf::new();
    after.push(stoker_wire::Key::RETRY_AFTER, &60_000u32.to_be_bytes());
    let res = Encode::new(Type::Res, retry.id);
    worker.write(&frame(Encode {
        code: Status::RETRY.0,
        meta: after.as_meta(),
        ..res
    }));
    let queue = client.queue("mails");
    assert_eq!([&queue["ready"], &queue["delayed"]], [&json!(0), &json!(1)]);
}

// Issue 9, A29
#[test]
fn cancelled_jobs_are_counted_at_once() {
    let app = setup().config(CONNECTED_POOL).launch();
    let mut client = app.client();
    for round in 1..=20 {
        let pushes = vec![Request::push("mails", ""); 5];
        for id in client.send_all(&pushes) {
            client.answer(id);
        }
        let ask = json!({"op": "cancel", "queue": "mails", "state": "ready"});
        assert_eq!(client.call_server("stoker.job", &ask)["count"], 5);
        let queue = client.queue("mails");
        let seen = [&queue["ready"], &queue["cancelled"]];
        assert_eq!(seen, [&json!(0), &json!(5 * round)], "round {round}");
    }
}
