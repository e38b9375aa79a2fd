//! What happens to a running task when an operator cancels it, reloads its pool, or shuts Stoker down.

use super::kind::Kind;
use super::pool::{Others, Pool};
use serde_json::{Value, json};
use stoker_testkit::{Request, until};
use stoker_wire::Status;

/// Only the cancelled job ends.
pub(super) fn cancel(kind: Kind) {
    let Pool {
        app,
        mut client,
        waiting,
        held,
    } = Pool::start(kind, "boots.php", "kill_grace = \"300ms\"");
    let mut others = Others::default();
    others.send(&mut client, "before");
    client.call_server("stoker.job", &json!({"op": "cancel", "id": waiting}));
    others.send(&mut client, "after");
    let cancelled = client.job_in(&waiting, "cancelled");
    assert_eq!(cancelled["crashes"], 0, "{cancelled}");
    others.check(&mut client);
    drop(held);
    app.ready();
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

/// The running task finishes in its old process, while others run in new ones.
pub(super) fn reload(kind: Kind) {
    let mut pool = Pool::start(kind, "boots.php", "");
    let version = |pool: &Pool| pool.app.pool()["version"].clone();
    let before = version(&pool);
    let reload = Request::call("stoker.pool", r#"{"op":"reload"}"#).ttl(30_000);
    let reloaded = pool.client.send(&reload);
    let mut others = Others::default();
    others.send(&mut pool.client, "meanwhile");
    others.check(&mut pool.client);
    until("the new version serves", || {
        (version(&pool) != before).then_some(())
    });
    let Pool {
        app,
        mut client,
        waiting,
        held,
    } = pool;
    drop(held);
    let waited = client.job_in(&waiting, "done");
    assert_eq!(
        (&waited["attempt"], &waited["crashes"]),
        (&json!(1), &json!(0))
    );
    let answer = client.answer(reloaded);
    assert_eq!(answer.status(), Status::OK, "{}", answer.text());
    let answer: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(answer["pools"][0]["reloaded"], true, "{answer}");
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

/// A shutdown waits for the running task.
pub(super) fn drain(kind: Kind) {
    let setup = kind.pool("boots.php", "workers = 2");
    let gate = setup.dir().gate("gate");
    let app = setup.start();
    let mut client = app.client();
    let waiting = client.send(&Request::call("t.run", "wait").ttl(30_000));
    let held = gate.wait_for_worker();
    app.term();
    app.wait_for_log("info shutting down");
    drop(held);
    assert_eq!(client.answer(waiting).text(), "done: wait");
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0, "{}", ended.log);
}
