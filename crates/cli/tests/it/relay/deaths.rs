//! Deaths of the gateway and of the server.

use super::{admin, client, remote, start};
use stoker_testkit::{Client, Request, procs, until};
use stoker_wire::Status;

/// The angel holds the listening socket, so connections wait while the gateway is restarted.
#[test]
fn a_killed_gateway_refuses_no_connection() {
    let app = start("[queue.mails]");
    let admin = admin(&app);
    let mut open = client(&app, &admin);
    let id = open.push(&Request::push("mails", "note x"));
    procs::kill(app.gateway("relay"));
    assert!(open.frame().is_none(), "its connection is lost");
    let mut again = client(&app, &admin);
    again.job_in(&id, "done");
    assert_eq!(remote(&app, &admin, &["queues"]).code, 0);
}

/// While the server is restarted, peers wait, and none gets an error.
#[test]
fn a_killed_server_refuses_no_connection() {
    let app = start("[queue.mails]");
    let admin = admin(&app);
    let mut open = client(&app, &admin);
    let id = open.push(&Request::push("mails", "note x"));
    let server = app.server();
    procs::kill(server);
    assert!(open.frame().is_none(), "its connection is lost");
    let mut again: Client = client(&app, &admin);
    again.job_in(&id, "done");
    until("another server", || (app.server() != server).then_some(()));
}

/// At a shutdown, requests that were sent are answered before the connection ends.
#[test]
fn a_shutdown_answers_what_was_asked() {
    let app = start("[service.echo]");
    let gate = app.dir.gate("gate");
    let admin = admin(&app);
    let mut open = client(&app, &admin);
    let call = open.send(&Request::call("echo.x", "gate gate"));
    let worker = gate.wait_for_worker();
    app.term();
    app.wait_for_log("shutting down");
    drop(worker);
    assert_eq!(open.answer(call).status(), Status::OK);
    let ended = app.wait_for_exit();
    assert_eq!(ended.code, 0, "{}", ended.log);
}
