//! One script for calls and jobs, which runs by every strategy for scripts, and the statuses with which it can end a request.

use super::kind::Kind;
use serde_json::{Value, json};
use stoker_testkit::{App, Client, Request, until};
use stoker_wire::{Key, Status};

fn start(kind: Kind) -> App {
    let app = kind.pool("script.php", "workers = 2").launch();
    app.wait_for_log("p-1 is ready (pid ");
    app
}

#[track_caller]
fn stop(app: App) {
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

fn job(client: &mut Client, payload: &str, tries: u16, state: &str) -> Value {
    let push = Request::push("q", payload).meta(Key::TRIES, tries.to_be_bytes());
    let id = client.push(&push);
    client.job_in(&id, state)
}

pub(super) fn result(kind: Kind) {
    let app = start(kind);
    assert_eq!(app.call("t.run", "say hi").text(), "hi");
    let done = job(&mut app.client(), "say hi", 1, "done");
    assert_eq!(done["result"], "hi");
    let empty = job(&mut app.client(), "", 1, "done");
    assert_eq!(empty["result"], Value::Null);
    stop(app);
}

/// The script knows the same of its task by every strategy.
pub(super) fn facts(kind: Kind) {
    let app = start(kind);
    let mut client = app.client();
    let push = Request::push("q", "facts")
        .meta(Key::TRIES, 3u16.to_be_bytes())
        .meta(Key::FAIRNESS, b"tenant 42%")
        .meta(Key(0x80), b"a\nb");
    let id = client.push(&push);
    let done = client.job_in(&id, "done");
    let expected = format!("q {id} 0 3 tenant%2042%25 a%0Ab");
    assert_eq!(done["result"], expected);
    assert_eq!(app.call("t.run", "facts").text(), "t.run  0   ");
    stop(app);
}

/// An exception that is not caught.
pub(super) fn failure(kind: Kind) {
    let app = start(kind);
    let failed = job(&mut app.client(), "throw no picture", 2, "failed");
    let text = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("no picture"), "{failed}");
    assert_eq!(failed["attempt"], 2, "{failed}");
    let answer = app.call("t.run", "throw no picture");
    assert_eq!(answer.status(), Status::EXCEPTION);
    assert!(answer.text().contains("no picture"), "{}", answer.text());
    stop(app);
}

/// A job that asks for another run.
pub(super) fn retry(kind: Kind) {
    let app = start(kind);
    let done = job(&mut app.client(), "again", 2, "done");
    assert_eq!(done["result"], "attempt 1");
    assert_eq!(done["exceptions"], 0, "{done}");
    stop(app);
}

pub(super) fn large_result(kind: Kind) {
    let app = start(kind);
    let max = 64 << 10;
    let done = job(&mut app.client(), &format!("large {max}"), 1, "done");
    assert_eq!(done["result"].as_str().map(str::len), Some(max));
    let dropped = job(&mut app.client(), &format!("large {}", max + 1), 1, "done");
    assert_eq!(dropped["result"], Value::Null);
    let call = app.call("t.run", "large 3000000");
    assert_eq!(call.body.len(), 3_000_000);
    assert_eq!(
        app.call("t.run", "large 30000000").status(),
        Status::EXCEPTION
    );
    stop(app);
}

pub(super) fn for_good(kind: Kind) {
    let app = start(kind);
    let failed = job(&mut app.client(), "status 422 no picture", 5, "failed");
    let error = &failed["error"];
    assert_eq!(error["class"], "HTTP 422");
    let text = error["message"].as_str().unwrap_or_default();
    assert!(text.starts_with("HTTP 422"), "{failed}");
    assert!(text.ends_with(": no picture"), "{failed}");
    assert_eq!(failed["attempt"], 1);
    stop(app);
}

pub(super) fn later(kind: Kind) {
    let app = start(kind);
    let mut client = app.client();
    let id = client
        .push(&Request::push("q", "status 503/3600 full").meta(Key::TRIES, 2u16.to_be_bytes()));
    let waiting = client.job_in(&id, "retrying");
    assert_eq!(
        (&waiting["attempt"], &waiting["exceptions"]),
        (&json!(1), &json!(0))
    );
    let history = waiting["history"][0]["text"].as_str().unwrap_or_default();
    assert!(history.contains("full"), "{waiting}");
    // The queue's own backoff is 0.
    let (now, due) = (
        waiting["history"][0]["at"].as_str(),
        waiting["due_at"].as_str(),
    );
    assert!(
        now.zip(due).is_some_and(|(now, due)| due > now),
        "{waiting}"
    );
    client.call_server("stoker.job", &json!({"op": "cancel", "id": id}));
    stop(app);
}

pub(super) fn later_by_backoff(kind: Kind) {
    let app = start(kind);
    let failed = job(&mut app.client(), "status 429 full", 3, "failed");
    assert_eq!(
        (&failed["attempt"], &failed["exceptions"]),
        (&json!(3), &json!(0))
    );
    stop(app);
}

pub(super) fn call_fails(kind: Kind) {
    let app = start(kind);
    for (payload, status) in [
        ("status 404 no such picture", Status::NOT_FOUND),
        ("status 422 no picture", Status::INVALID_ARGUMENT),
        ("status 500 broken", Status::EXCEPTION),
        ("status 503/7 full", Status::EXCEPTION),
    ] {
        let answer = app.call("t.run", payload);
        assert_eq!(answer.status(), status, "{}", answer.text());
        let why = payload.rsplit(' ').next().unwrap_or_default();
        assert!(answer.text().ends_with(why), "{}", answer.text());
    }
    until("nothing waits", || {
        (app.client().queue("q")["retried"] == 0).then_some(())
    });
    stop(app);
}
