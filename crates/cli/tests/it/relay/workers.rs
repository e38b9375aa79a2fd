//! Workers on other machines, and sessions that outlive a connection.

use super::{admin, connect, rejected, token};
use crate::setup;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use stoker_testkit::{App, Client, Received, Request, frame, until};
use stoker_wire::{Encode, EventKind, Key, Status, Type};

/// A pool without processes of its own, and a TCP port. `more` begins with keys of `[listen]`.
#[track_caller]
fn start(more: &str) -> App {
    let config = format!(
        "[pool.far]\n[queue.mails]\npool = \"far\"\ntries = 5\nbackoff = [\"0s\"]\n[pool.near]\n[queue.other]\npool = \"near\"\n\
         [listen]\naddresses = [\"127.0.0.1:0\"]\n{more}"
    );
    setup().config(&config).launch()
}

fn hello(token: &str) -> Value {
    json!({"v": [1], "role": "worker", "name": "w", "pool": "far", "jobs": ["mails"], "token": token})
}

#[track_caller]
fn join(app: &App, token: &str) -> Client {
    connect(app, &hello(token)).expect("an answer to HELLO")
}

/// Reconnects after a lost connection, with the ids of the tasks that the worker still has.
#[track_caller]
fn rejoin(app: &App, token: &str, session: &Value, held: &[u32]) -> Client {
    let mut hello = hello(token);
    hello["session"] = session.clone();
    hello["held"] = json!(held);
    connect(app, &hello).expect("an answer to HELLO")
}

#[track_caller]
fn next(worker: &mut Client, kind: Type) -> Received {
    let got = worker.frame().expect("the connection stays open");
    assert_eq!(got.kind, kind, "{}", got.text());
    got
}

fn answer(worker: &mut Client, id: u32) {
    worker.write(&frame(Encode::new(Type::Res, id)));
}

#[track_caller]
fn work(app: &App) -> String {
    token(app, "work", &["--roles", "work", "--queues", "mails"])
}

#[test]
fn a_worker_joins_with_a_token_and_is_shown_with_its_address() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    assert!(worker.welcome["session"].is_string());
    assert_eq!(worker.welcome["grace_ms"], 10_000);
    let shown = &app.state()["workers"][0];
    assert_eq!(
        (&shown["kind"], &shown["pid"]),
        (&json!("connected"), &json!(0))
    );
    assert!(
        shown["address"]
            .as_str()
            .is_some_and(|address| address.starts_with("127.0.0.1:"))
    );
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    answer(&mut worker, task.id);
    app.client().job_in(&id, "done");
    let other =
        json!({"v": [1], "role": "worker", "pool": "near", "jobs": ["other"], "token": work});
    let refused = rejected(&app, &other);
    assert_eq!(refused.status(), Status::PERMISSION_DENIED);
    assert!(refused.text().contains("--queues"), "{}", refused.text());
}

/// A worker of a pool is assigned all tasks of the pool, so its token must permit all of them.
#[test]
fn a_token_for_one_queue_does_not_open_the_others_of_its_pool() {
    let app = start("[service.pay]\npool = \"far\"\n[queue.invoices]\npool = \"far\"");
    let work = work(&app);
    let nothing = json!({"v": [1], "role": "worker", "pool": "far", "token": work});
    for hello in [hello(&work), nothing] {
        let refused = rejected(&app, &hello);
        assert_eq!(refused.status(), Status::PERMISSION_DENIED);
        assert!(refused.text().contains("also serves"), "{}", refused.text());
    }
}

/// A pool can begin to serve another queue or service after a worker has joined it. The worker must not get its tasks.
#[test]
fn a_worker_leaves_when_its_pool_serves_a_queue_that_its_token_does_not_permit() {
    let app = start("");
    let work = work(&app);
    let mut narrow = join(&app, &work);
    let both = token(
        &app,
        "both",
        &["--roles", "work", "--queues", "mails,invoices"],
    );
    let mut hello_both = hello(&both);
    hello_both["jobs"] = json!(["mails", "invoices"]);
    let mut wide = connect(&app, &hello_both).expect("an answer to HELLO");
    next(&mut narrow, Type::Goaway);
    let id = app.client().push(&Request::push("invoices", "x"));
    let task = next(&mut wide, Type::Req);
    answer(&mut wide, task.id);
    app.client().job_in(&id, "done");
    drop(narrow);
    let refused = rejected(&app, &hello(&work));
    assert_eq!(refused.status(), Status::PERMISSION_DENIED);
    assert!(refused.text().contains("invoices"), "{}", refused.text());
}

/// The answer was written just when the connection was lost: the worker delivers it on the next one.
#[test]
fn a_worker_resumes_its_session_and_delivers_its_answer() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    drop(worker);
    let mut worker = rejoin(&app, &work, &session, &[task.id]);
    assert_eq!(worker.welcome["resumed"], true);
    assert_eq!(worker.welcome["open"], json!([task.id]));
    answer(&mut worker, task.id);
    let job = app.client().job_in(&id, "done");
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(1), &json!(0)));
    assert_eq!(app.pool()["restarts"], 0);
}

/// A task that was on its way when the connection was lost is sent again, and has run only once.
#[test]
fn a_lost_task_is_sent_again() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "payload"));
    let lost = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    drop(worker);
    let mut worker = rejoin(&app, &work, &session, &[]);
    assert_eq!(worker.welcome["resumed"], true);
    let again = next(&mut worker, Type::Req);
    assert_eq!((again.id, again.text()), (lost.id, "payload".to_owned()));
    answer(&mut worker, again.id);
    assert_eq!(app.client().job_in(&id, "done")["crashes"], 0);
}

/// What a task that is sent again has left of its time limits is what the server will wait for.
#[test]
fn a_lost_task_is_sent_again_with_the_time_that_it_has_left() {
    let app = start("[service.far]\npool = \"far\"");
    let scope = ["--queues", "mails", "--services", "far"];
    let work = token(&app, "work", &[&["--roles", "work"][..], &scope].concat());
    for name in ["mails", "far.x"] {
        let mut worker = serve_calls(&app, &work);
        let mut client = app.client();
        let limit = 30_000_u32;
        let request = match name {
            "mails" => Request::push("mails", "x").meta(Key::TIMEOUT, limit.to_be_bytes()),
            _ => Request::call("far.x", "x").ttl(limit),
        };
        client.send(&request);
        let limits = |task: &Received| match name {
            "mails" => task.uint(Key::TIMEOUT).unwrap_or_default(),
            _ => u64::from(task.ttl),
        };
        let lost = next(&mut worker, Type::Req);
        let read_at = Instant::now();
        let session = worker.welcome["session"].clone();
        drop(worker);
        until("some time has passed", || {
            (read_at.elapsed() >= Duration::from_millis(50)).then_some(())
        });
        let waited = read_at.elapsed().as_millis() as u64;
        let mut worker = rejoin(&app, &work, &session, &[]);
        let again = next(&mut worker, Type::Req);
        assert_eq!(again.id, lost.id);
        let (before, after) = (limits(&lost), limits(&again));
        assert!(
            after < before && after <= u64::from(limit) - waited,
            "{name}: {before} ms, and {after} ms after {waited} ms"
        );
        answer(&mut worker, again.id);
    }
}

/// A worker may reconnect before the gateway has noticed that its first connection was lost.
#[test]
fn a_session_moves_from_a_connection_that_is_still_open() {
    let app = start("");
    let work = work(&app);
    let mut first = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut first, Type::Req);
    let session = first.welcome["session"].clone();
    let mut second = rejoin(&app, &work, &session, &[task.id]);
    assert_eq!(second.welcome["resumed"], true);
    assert!(first.frame().is_none(), "the first connection is closed");
    answer(&mut second, task.id);
    app.client().job_in(&id, "done");
    assert_eq!(app.workers().len(), 1);
}

/// The lost connection does not count against the limit of the token, whether or not the session can be resumed.
#[test]
fn a_lost_connection_does_not_keep_its_worker_out() {
    let app = start("");
    let options = ["--roles", "work", "--queues", "mails", "--connections", "1"];
    let work = token(&app, "work", &options);
    let first = join(&app, &work);
    let refused = rejected(&app, &hello(&work));
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    // The first connection stays open: the gateway does not know that it is lost.
    let mut idle = rejoin(&app, &work, &first.welcome["session"], &[]);
    assert_eq!(idle.welcome.get("resumed"), None);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut idle, Type::Req);
    let session = idle.welcome["session"].clone();
    let mut busy = rejoin(&app, &work, &session, &[task.id]);
    assert_eq!(busy.welcome["resumed"], true);
    let refused = rejected(&app, &hello(&work));
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    answer(&mut busy, task.id);
    app.client().job_in(&id, "done");
    drop((first, idle));
    let mut others = hello(&work);
    others["session"] = json!("unknown");
    assert_eq!(
        rejected(&app, &others).status(),
        Status::RESOURCE_EXHAUSTED,
        "only a session of the token replaces a connection"
    );
}

/// A worker must not write anything between HELLO and WELCOME. What follows HELLO here is no frame.
#[test]
fn invalid_bytes_after_hello_are_a_fault_of_a_resumed_session() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let mut hello = hello(&work);
    hello["session"] = worker.welcome["session"].clone();
    hello["held"] = json!([task.id]);
    let body = hello.to_string();
    let mut bytes = frame(Encode {
        body: body.as_bytes(),
        ..Encode::new(Type::Hello, 0)
    });
    bytes.extend([0, 0, 0, 16, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut broken = Client::connect_over_tcp(app.relay_address());
    broken.write(&bytes);
    let fault = next(&mut broken, Type::Res);
    assert_eq!((fault.id, fault.status()), (0, Status::INVALID_ARGUMENT));
    assert!(broken.frame().is_none(), "no new session begins");
    app.wait_for_log("its answers to 1 task(s) are rejected");
    let mut other = join(&app, &work);
    let again = next(&mut other, Type::Req);
    answer(&mut other, again.id);
    assert_eq!(app.client().job_in(&id, "done")["crashes"], 1);
}

/// A session also ends if a task that was lost on the way is too large to be sent again, and if the connection is lost in
/// the middle of a large answer.
#[test]
fn late_answers_are_counted_however_the_session_ended() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    let id = app
        .client()
        .push(&Request::push("mails", vec![b'x'; 5 << 20]));
    next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    drop(worker);
    // It was lost on the way: the worker does not have it, and the gateway has not kept it.
    let mut worker = rejoin(&app, &work, &session, &[]);
    assert_eq!(worker.welcome.get("resumed"), None);
    let task = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    let large = vec![b'y'; 2 << 20];
    let answered = frame(Encode {
        body: &large,
        ..Encode::new(Type::Res, task.id)
    });
    worker.write(&answered[..1 << 20]);
    drop(worker);
    until("the session has ended", || {
        app.workers().is_empty().then_some(())
    });
    let mut worker = rejoin(&app, &work, &session, &[task.id]);
    assert_eq!(worker.welcome.get("resumed"), None);
    app.wait_for_log("its answers to 1 task(s) are rejected");
    let last = next(&mut worker, Type::Req);
    answer(&mut worker, last.id);
    assert_eq!(app.client().job_in(&id, "done")["crashes"], 2);
}

/// After the grace the loss counts as a crash, and the late answer is rejected.
#[test]
fn a_late_answer_is_rejected() {
    let app = start("resume_timeout = \"50ms\"");
    let work = work(&app);
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    drop(worker);
    app.wait_for_log("lost its connection in the middle of a task and did not reconnect");
    let mut worker = rejoin(&app, &work, &session, &[task.id]);
    assert_eq!(worker.welcome.get("resumed"), None);
    assert_ne!(worker.welcome["session"], session);
    app.wait_for_log(
        "reconnected after its session had ended: its answers to 1 task(s) are rejected",
    );
    let again = next(&mut worker, Type::Req);
    answer(&mut worker, again.id);
    let job = app.client().job_in(&id, "done");
    assert_eq!(job["crashes"], 1);
}

/// The server gives up on a worker whose task exceeds its time limit, also while the worker has no connection.
#[test]
fn a_late_answer_is_counted_if_the_server_gave_up_the_worker() {
    let config = "[pool.far]\ntask_timeout = \"100ms\"\nstop_grace = \"100ms\"\n[queue.mails]\npool = \"far\"\ntries = 5\n\
                  [listen]\naddresses = [\"127.0.0.1:0\"]\nresume_timeout = \"60s\"";
    let app = setup().config(config).launch();
    let work = work(&app);
    let mut worker = join(&app, &work);
    app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    drop(worker);
    until("the server gives up on the worker", || {
        app.workers().is_empty().then_some(())
    });
    let worker = rejoin(&app, &work, &session, &[task.id]);
    assert_eq!(worker.welcome.get("resumed"), None);
    app.wait_for_log("its answers to 1 task(s) are rejected");
}

/// Without a session to resume, a lost connection is the worker's death at once.
#[test]
fn sessions_can_be_disabled() {
    let app = start("resume_timeout = \"0s\"");
    let work = work(&app);
    let mut worker = join(&app, &work);
    assert_eq!(worker.welcome.get("session"), None);
    let id = app.client().push(&Request::push("mails", "x"));
    next(&mut worker, Type::Req);
    drop(worker);
    let mut worker = join(&app, &work);
    let again = next(&mut worker, Type::Req);
    answer(&mut worker, again.id);
    assert_eq!(app.client().job_in(&id, "done")["crashes"], 1);
}

/// No crash is counted if a worker ran no task when its connection was lost.
#[test]
fn losing_an_idle_worker_affects_no_task() {
    let app = start("");
    let work = work(&app);
    drop(join(&app, &work));
    until("the worker is gone", || {
        app.workers().is_empty().then_some(())
    });
    let id = app.client().push(&Request::push("mails", "x"));
    let mut worker = join(&app, &work);
    let task = next(&mut worker, Type::Req);
    answer(&mut worker, task.id);
    assert_eq!(app.client().job_in(&id, "done")["crashes"], 0);
}

/// A session belongs to its token.
#[test]
fn another_token_cannot_take_a_session() {
    let app = start("");
    let (work, other) = (work(&app), admin(&app));
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    let thief = rejoin(&app, &other, &session, &[task.id]);
    assert_eq!(thief.welcome.get("resumed"), None);
    drop(thief);
    answer(&mut worker, task.id);
    app.client().job_in(&id, "done");
    drop(worker);
    let ended = app.stop();
    assert!(!ended.log.contains("are rejected"), "{}", ended.log);
}

/// A worker that reconnects with another token drops its answers: they are late when the session ends.
#[test]
fn late_answers_of_a_worker_with_another_token_are_counted() {
    let app = start("resume_timeout = \"50ms\"\n[http]\nsocket = \"http.sock\"");
    let (work, other) = (work(&app), admin(&app));
    let mut worker = join(&app, &work);
    app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    // The gateway has not noticed yet that the first connection was lost.
    let second = rejoin(&app, &other, &session, &[task.id]);
    assert_eq!(second.welcome.get("resumed"), None);
    drop(worker);
    app.wait_for_log(
        "reconnected but could not resume its session, which belongs to the token 'work': its answers to 1 task(s) are rejected",
    );
    until("the metric is reported", || {
        let page = app.http().request("GET", "/metrics", &[], "").ok()?;
        let wanted = "stoker_gateway{gateway=\"relay\",name=\"late_answers\"} 1";
        let text = String::from_utf8_lossy(&page.body).into_owned();
        text.lines().any(|line| line == wanted).then_some(())
    });
}

/// The server knows what the worker offered with its old permissions, so a token that has fewer now begins a new session.
#[test]
fn a_session_is_not_resumed_with_fewer_permissions() {
    let app = start("");
    let work = token(
        &app,
        "work",
        &["--roles", "work", "--queues", "mails,notes"],
    );
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let session = worker.welcome["session"].clone();
    drop(worker);
    let set = ["token", "set", "work", "--queues", "mails"];
    assert_eq!(app.cli_with(&[], &set).code, 0);
    let mut worker = rejoin(&app, &work, &session, &[task.id]);
    assert_eq!(worker.welcome.get("resumed"), None);
    let again = next(&mut worker, Type::Req);
    answer(&mut worker, again.id);
    app.client().job_in(&id, "done");
}

/// A shutdown of the server reaches the worker, and a job that it runs is waited for.
#[test]
fn a_remote_worker_is_told_to_leave() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    app.term();
    app.wait_for_log("shutting down");
    answer(&mut worker, task.id);
    next(&mut worker, Type::Goaway);
    drop(worker);
    let dir = app.dir.clone();
    assert_eq!(app.wait_for_exit().code, 0);
    let store = dir.file("stoker.db").display().to_string();
    let again = setup()
        .config(&format!("[pool.far]\n[store]\npath = \"{store}\""))
        .launch();
    assert_eq!(again.client().job(&id)["state"], "done");
}

/// As on the unix socket, the server closes its sending side after GOAWAY, and reads what the worker still sends. So a worker
/// that waits for the end of its input leaves at once.
#[test]
fn a_remote_worker_that_is_asked_to_exit_sees_the_end_of_its_input() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    app.term();
    next(&mut worker, Type::Goaway);
    assert!(worker.frame().is_none(), "the server sends nothing more");
    worker.write(&frame(Encode {
        code: EventKind::LOG.0,
        body: b"its last line\n",
        ..Encode::new(Type::Event, 0)
    }));
    app.wait_for_log("its last line");
    drop(worker);
    assert_eq!(app.wait_for_exit().code, 0);
}

/// A reload asks a worker to exit while it runs a task. The server then sends nothing more, but still reads.
#[test]
fn a_worker_that_is_told_to_leave_in_a_task_still_answers_it() {
    let app = start("");
    let work = work(&app);
    let mut worker = join(&app, &work);
    let id = app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let socket = app.socket();
    let reload = std::thread::spawn(move || {
        let reload = json!({"op": "reload"});
        Client::connect(&socket)
            .try_call_server("stoker.pool", &reload)
            .is_ok()
    });
    next(&mut worker, Type::Goaway);
    answer(&mut worker, task.id);
    app.client().job_in(&id, "done");
    drop(worker);
    assert!(reload.join().expect("it does not panic"));
}

/// A server with the service `far`, and a token for its workers and clients.
fn start_with_service() -> (App, String) {
    let app = start("[service.far]\npool = \"far\"");
    let scope = ["--queues", "mails", "--services", "far"];
    let all = token(
        &app,
        "all",
        &[&["--roles", "work,call"][..], &scope].concat(),
    );
    (app, all)
}

/// A worker on another machine that serves `far.x`.
fn serve_calls(app: &App, token: &str) -> Client {
    let mut hello = hello(token);
    hello["calls"] = json!(["far.x"]);
    connect(app, &hello).expect("an answer to HELLO")
}

/// A call that a worker on another machine makes from within its task names that worker, and so is rejected instead of
/// waiting for itself.
#[test]
fn a_nested_call_of_the_only_worker_is_rejected() {
    let (app, all) = start_with_service();
    let mut worker = serve_calls(&app, &all);
    app.client().push(&Request::push("mails", "x"));
    let task = next(&mut worker, Type::Req);
    let inside =
        json!({"v": [1], "role": "client", "token": all, "worker": worker.welcome["worker"]});
    let mut client = connect(&app, &inside).expect("an answer to HELLO");
    let parent = Request::call("far.x", "").meta(Key::PARENT, task.id.to_be_bytes());
    let refused = client.request(&parent);
    assert_eq!(
        refused.status(),
        Status::RESOURCE_EXHAUSTED,
        "{}",
        refused.text()
    );
    answer(&mut worker, task.id);
}

/// Large bodies of requests and answers are in files of the server's machine. Workers on other machines do not get their
/// paths, and clients there can't name any.
#[test]
fn paths_of_files_do_not_pass_between_machines() {
    let (app, all) = start_with_service();
    let mut worker = serve_calls(&app, &all);
    let named = Request::call("far.x", "body")
        .meta(Key::BODY_FILE, "/spool/1")
        .meta(Key::CLIENT_ADDRESS, "192.0.2.7:1")
        .meta(Key::ANSWER_DIRECTORY, "/spool");
    let mut local = app.client();
    let call = local.send(&named);
    let task = next(&mut worker, Type::Req);
    assert_eq!(task.text(), "body");
    let address = task.meta(Key::CLIENT_ADDRESS);
    assert_eq!(address.as_deref(), Some("192.0.2.7:1"));
    for key in [Key::BODY_FILE, Key::ANSWER_DIRECTORY] {
        assert_eq!(task.meta(key), None);
    }
    answer(&mut worker, task.id);
    assert_eq!(local.answer(call).status(), Status::OK);
    let admin = admin(&app);
    for token in [&all, &admin] {
        let refused = super::client(&app, token).request(&named);
        assert_eq!(refused.status(), Status::INVALID_ARGUMENT);
        assert!(
            refused.text().contains("server's machine"),
            "{}",
            refused.text()
        );
    }
}
