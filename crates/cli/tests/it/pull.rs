//! Workers that connected by themselves and take tasks on request (issue 9, A28).

use crate::setup;
use serde_json::json;
use stoker_testkit::{App, Client, Received, Request, frame};
use stoker_wire::{Encode, Key, Status, Type};

const POOL: &str = "[pool.d]\ntask_timeout = \"200ms\"\n[queue.mails]\npool = \"d\"\n";

fn serve() -> App {
    setup().config(POOL).launch()
}

/// A worker in the test's own process, which takes tasks on request as `queue:work` does.
fn join(app: &App) -> Client {
    let hello = json!({"v": [1], "role": "worker", "pool": "d", "jobs": ["mails"], "pull": true});
    Client::connect_as(&app.socket(), &hello)
}

fn ready(worker: &mut Client, count: u32) {
    worker.write(&frame(Encode {
        ttl: count,
        ..Encode::new(Type::Ready, 0)
    }));
}

fn answer(worker: &mut Client, task: &Received, status: Status) {
    worker.write(&frame(Encode {
        code: status.0,
        ..Encode::new(Type::Res, task.id)
    }));
}

#[track_caller]
fn next(worker: &mut Client, kind: Type) -> Received {
    let got = worker.frame().expect("the connection stays open");
    assert_eq!(got.kind, kind, "{}", got.text());
    got
}

/// A paused worker outlives every limit that it would have exceeded with a job.
#[test]
fn a_pull_worker_gets_no_job_without_a_request() {
    let app = serve();
    let (mut worker, mut client) = (join(&app), app.client());
    let id = client.push(&Request::push("mails", "x").meta(Key::TRIES, 1u16.to_be_bytes()));
    client.job_in(&id, "ready");
    ready(&mut worker, 0);
    next(&mut worker, Type::Ready);
    ready(&mut worker, 1);
    let task = next(&mut worker, Type::Req);
    answer(&mut worker, &task, Status::OK);
    client.job_in(&id, "done");
}

#[test]
fn a_job_sent_during_a_withdrawal_is_returned_before_the_confirmation() {
    let app = serve();
    let (mut worker, mut client) = (join(&app), app.client());
    ready(&mut worker, 1);
    let id = client.push(&Request::push("mails", "x").meta(Key::TRIES, 1u16.to_be_bytes()));
    client.job_in(&id, "running");
    ready(&mut worker, 0);
    let task = next(&mut worker, Type::Req);
    next(&mut worker, Type::Ready);
    answer(&mut worker, &task, Status::RETURNED);
    let job = client.job_in(&id, "ready");
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(0), &json!(0)));
    ready(&mut worker, 1);
    let task = next(&mut worker, Type::Req);
    answer(&mut worker, &task, Status::OK);
    client.job_in(&id, "done");
}

/// The worker is the test's own process: if it were killed at the end of the grace period, the test would die.
#[test]
fn an_idle_pull_worker_is_disconnected_and_not_killed() {
    let app = serve();
    let mut worker = join(&app);
    app.client()
        .call_server("stoker.pool", &json!({"op": "reload"}));
    next(&mut worker, Type::Goaway);
    assert!(worker.frame().is_none(), "the connection has ended");
    let mut worker = join(&app);
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    next(&mut worker, Type::Goaway);
    assert!(worker.frame().is_none());
}

/// The connection ends. The process has no job, so it is not killed: it is the one that runs this test.
#[test]
fn an_invalid_pull_request_closes_the_connection_and_does_not_kill_the_process() {
    let app = serve();
    for (pull, count, why) in [
        (true, 2, "READY asks for 2 tasks: expected 0 or 1"),
        (false, 1, "READY from a worker whose HELLO did not set pull"),
    ] {
        let hello =
            json!({"v": [1], "role": "worker", "pool": "d", "jobs": ["mails"], "pull": pull});
        let mut worker = Client::connect_as(&app.socket(), &hello);
        ready(&mut worker, count);
        let fault = next(&mut worker, Type::Res);
        assert!(fault.text().contains(why), "{}", fault.text());
        assert!(worker.frame().is_none(), "the connection has ended");
    }
}
