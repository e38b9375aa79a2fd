//! Permissions of other users, and of workers that connect by themselves.

use crate::{pool_of, run_short_jobs, setup, start};
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Child;
use stoker_testkit::{
    App, Client, Dir, Request, Setup, Spawn, as_nobody, bad_worker, procs, run, until,
};
use stoker_wire::{Flags, Key, Status, Type};

#[test]
fn other_users_may_call_push_and_read_but_not_change() {
    let app = start("workers = 1\n[stoker]\nsocket_mode = \"0666\"");
    as_nobody(|| {
        let mut client = app.client();
        assert_eq!(client.call("t.run", "ok").status(), Status::OK);
        let id = client.push(&Request::push("mails", "ok"));
        assert_eq!(client.job(&id)["queue"], "mails");
        client.call_server("stoker.queue", &json!({"op": "list"}));
        client.call_server("stoker.worker", &json!({"op": "list"}));
        for (name, ask) in [
            ("stoker.job", json!({"op": "list"})),
            ("stoker.job", json!({"op": "cancel", "id": id})),
            ("stoker.job", json!({"op": "retry", "queue": "mails"})),
            ("stoker.queue", json!({"op": "pause", "queue": "mails"})),
            (
                "stoker.queue",
                json!({"op": "set", "queue": "mails", "weight": 2}),
            ),
            ("stoker.pool", json!({"op": "reload"})),
            (
                "stoker.pool",
                json!({"op": "scale", "pool": "p", "min": 1, "max": 1}),
            ),
            ("stoker.quarantine", json!({"op": "list"})),
        ] {
            let refused = client
                .try_call_server(name, &ask)
                .expect_err("it is for administrators");
            assert_eq!(refused.status(), Status::PERMISSION_DENIED, "{name} {ask}");
            assert!(
                refused
                    .text()
                    .contains("requires root or the user that Stoker runs as")
            );
        }
    });
    assert_eq!(
        app.client()
            .call_server("stoker.job", &json!({"op": "list"}))["next"],
        json!(null)
    );
}

#[test]
fn the_mode_of_the_socket_keeps_other_users_out() {
    let app = start("workers = 1");
    let connected = as_nobody(|| std::os::unix::net::UnixStream::connect(app.socket()).is_ok());
    assert_ne!(connected, Some(true));
}

const CONNECTED_POOL: &str = "[pool.d]\nworkers = 2\n[stoker]\nsocket_mode = \"0666\"\n";

/// A worker that was started by the test and not by Stoker.
fn connect_worker(app: &App, script: &str) -> Child {
    let spawn = Spawn::new(bad_worker()).args(&[script]);
    let spawn = spawn.env("STOKER_SOCKET", app.socket());
    spawn.within(app.dir.path()).start()
}

#[track_caller]
fn end(mut worker: Child) -> i32 {
    assert!(
        procs::wait_for_exit(worker.id() as i32, 5.0),
        "the worker has gone"
    );
    let status = worker.wait().expect("it is our child");
    status.code().unwrap_or(-1)
}

#[test]
fn a_connected_worker_serves_its_pool() {
    let app = setup().config(CONNECTED_POOL).launch();
    let worker = connect_worker(&app, "serve");
    app.wait_for_log(&format!("d-1 is ready (pid {})", worker.id()));
    assert_eq!(app.call("t.run", "ok dialled").text(), "dialled");
    let shown = &app.workers()[0];
    assert_eq!(
        (&shown["kind"], &shown["pid"]),
        (&"connected".into(), &worker.id().into())
    );
    let ended = app.stop();
    assert_eq!(ended.code, 0);
    assert_eq!(end(worker), 0, "it was told to go, and went");
}

#[test]
fn the_death_of_a_connected_worker_is_noticed_at_once() {
    let app = setup().config(CONNECTED_POOL).launch();
    let worker = connect_worker(&app, "serve");
    app.wait_for_log("d-1 is ready");
    let answer = app.call("t.run", "ok first");
    assert_eq!(answer.text(), "first");
    let answer = app.call("t.run", "kill");
    assert_eq!(answer.status(), Status::WORKER_DIED);
    assert_eq!(end(worker), -1);
    let next = connect_worker(&app, "serve");
    app.wait_for_log("d-2 is ready");
    assert_eq!(app.call("t.run", "ok next").text(), "next");
    drop(app);
    end(next);
}

#[test]
fn a_connected_worker_that_hangs_is_killed() {
    let app = setup()
        .config("[pool.d]\nworkers = 1\ntask_timeout = \"200ms\"\n")
        .launch();
    let worker = connect_worker(&app, "serve");
    app.wait_for_log("d-1 is ready");
    let answer = app.call("t.run", "spin");
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert_eq!(end(worker), -1);
}

#[test]
fn a_connected_worker_is_cancelled_before_it_is_killed() {
    let app = setup().config(HANGING).launch();
    let worker = connect_worker(&app, "soft-cancel;serve");
    app.wait_for_log("d-1 is ready");
    let answer = app.call("t.run", "await-signal;fail 64 out of time");
    assert_eq!(answer.text(), "out of time", "its own answer counts");
    assert_eq!(app.call("t.run", "ok on").text(), "on");
    drop(app);
    end(worker);
}

const HANGING: &str = "[pool.d]\nworkers = 1\ntask_timeout = \"200ms\"\n";

/// Connects, lets a child serve the connection, writes the child's pid to a file, and stays.
const CONNECT_FOR_A_CHILD: &str = "\
import os, signal, socket, subprocess, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ['STOKER_SOCKET'])
os.set_inheritable(connection.fileno(), True)
environment = {**os.environ, 'STOKER_FD': str(connection.fileno())}
child = subprocess.Popen(sys.argv[1:], env=environment, close_fds=False)
open('child', 'w').write(f'{child.pid}\\n')
child.wait()
signal.pause()
";

/// A process that is killed at the end of its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts such a parent with its child; returns the parent and the child's pid.
#[track_caller]
fn dial_for_a_child(app: &App, script: &str) -> (Killed, i32) {
    let worker = bad_worker().display().to_string();
    let args = ["-c", CONNECT_FOR_A_CHILD, &worker, script];
    let spawn = Spawn::new("python3").args(&args);
    let spawn = spawn.env("STOKER_SOCKET", app.socket());
    let parent = Killed(spawn.within(app.dir.path()).start());
    let child = until("the child's pid", || {
        let text = std::fs::read_to_string(app.dir.file("child")).ok()?;
        text.ends_with('\n').then(|| text.trim().parse().ok())?
    });
    (parent, child)
}

/// Issue 9, A14.
#[test]
fn the_serving_child_is_killed_and_not_the_process_that_connected() {
    let app = setup().config(HANGING).launch();
    let (parent, child) = dial_for_a_child(&app, "pid;serve");
    app.wait_for_log(&format!("d-1 is ready (pid {child})"));
    let answer = app.call("t.run", "spin");
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert!(procs::wait_for_exit(child, 5.0));
    assert!(procs::is_alive(parent.0.id() as i32), "it serves nothing");
}

/// Issue 9, A14.
#[test]
fn a_process_that_is_not_a_child_of_the_connecting_one_is_not_accepted_as_the_worker() {
    let app = setup().config(HANGING).launch();
    let stranger = Killed(Spawn::new("sleep").args(&["1000"]).start());
    let worker = connect_worker(&app, &format!("pid {};serve", stranger.0.id()));
    app.wait_for_log(&format!("d-1 is ready (pid {})", worker.id()));
    let answer = app.call("t.run", "spin");
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert_eq!(end(worker), -1);
    assert!(procs::is_alive(stranger.0.id() as i32));
}

#[test]
fn a_connected_worker_that_violates_the_protocol_is_killed() {
    let app = setup().config(CONNECTED_POOL).launch();
    let worker = connect_worker(&app, "serve");
    app.wait_for_log("d-1 is ready");
    assert_eq!(
        app.call("t.run", "garbage;silence").status(),
        Status::WORKER_DIED
    );
    app.wait_for_log("d-1 broke the protocol");
    assert_eq!(end(worker), -1);
}

#[test]
fn a_reload_disconnects_connected_workers() {
    let app = setup().config(CONNECTED_POOL).launch();
    let worker = connect_worker(&app, "serve");
    app.wait_for_log("d-1 is ready");
    app.client()
        .call_server("stoker.pool", &json!({"op": "reload"}));
    assert_eq!(end(worker), 0);
}

#[test]
fn a_spawned_pool_accepts_connected_workers() {
    let app = setup().config(&pool_of("serve", "workers = 1")).start();
    let worker = connect_worker(&app, "serve");
    app.wait_for_log("p-2 is ready");
    let kinds: Vec<Value> = app.workers().iter().map(|it| it["kind"].clone()).collect();
    assert!(kinds.contains(&"connected".into()) && kinds.contains(&"spawned".into()));
    drop(app);
    end(worker);
}

/// The type, status (if rejected) and text of the answer to a worker's HELLO.
fn join(app: &App, hello: &Value) -> (Type, Option<Status>, String) {
    let mut worker = Client::connect_without_hello(&app.socket());
    worker.hello(hello);
    let got = worker.frame().expect("an answer");
    let status = (got.kind == Type::Res).then(|| got.status());
    (got.kind, status, got.text())
}

#[test]
fn another_user_needs_the_token_to_join_a_pool() {
    let config =
        "[pool.open]\n[pool.closed]\ntoken = \"secret\"\n[stoker]\nsocket_mode = \"0666\"\n";
    let app = setup().config(config).launch();
    let hello = |pool: &str, token: Option<&str>| json!({"v": [1], "role": "worker", "pool": pool, "token": token, "calls": [format!("{pool}.run")]});
    as_nobody(|| {
        for (pool, token) in [
            ("open", None),
            ("open", Some("secret")),
            ("closed", None),
            ("closed", Some("guess")),
        ] {
            let (_, status, text) = join(&app, &hello(pool, token));
            assert_eq!(status, Some(Status::UNAUTHENTICATED), "{pool} {token:?}");
            assert!(text.contains("requires the pool's token"), "{text}");
        }
        assert_eq!(
            join(&app, &hello("closed", Some("secret"))).0,
            Type::Welcome
        );
    });
    assert_eq!(
        join(&app, &hello("open", None)).0,
        Type::Welcome,
        "its own user needs none"
    );
    assert_eq!(join(&app, &hello("closed", None)).0, Type::Welcome);
}

/// A setup whose directory has a copy of a program, because other users may not be able to enter the build directory.
#[track_caller]
fn copied(program: &Path) -> (Setup, String) {
    let setup = setup();
    let copy = setup.dir().file("copy");
    std::fs::copy(program, &copy).expect("the test's directory takes a copy");
    (setup, copy.display().to_string())
}

#[test]
fn workers_of_another_user_reach_the_socket() {
    if !geteuid().is_root() {
        return;
    }
    let pool = |name: &str, program: &str, user: &str| {
        format!("[pool.{name}]\ncommand = [{program:?}, \"serve\"]\nworkers = 2\nuser = {user:?}\n")
    };
    for (user, group, rest) in [
        ("nobody", 65_534, ""),
        ("65534:4321", 4321, ""),
        ("65534:4321", 0, "[stoker]\nsocket_group = \"root\"\n"),
    ] {
        let (setup, program) = copied(&bad_worker());
        let app = setup
            .config(&format!("{}{rest}", pool("p", &program, user)))
            .start();
        let socket = std::fs::metadata(app.socket()).expect("it is there");
        assert_eq!((socket.gid(), socket.mode() & 0o777), (group, 0o660));
        if rest.is_empty() {
            let answer = app.call("t.run", "call t.again ok inside");
            assert_eq!(answer.text(), "OK inside");
        }
    }
}

#[test]
fn workers_without_access_to_the_socket_are_warned_about() {
    let pools = "[pool.a]\ncommand = [\"true\"]\nuser = \"4001:4321\"\n\
                 [pool.b]\ncommand = [\"true\"]\nuser = \"4002:4322\"\n";
    let warning = "workers run under several groups: 4321 (pool a), 4322 (pool b). The socket can belong to one";
    let check = |toml: &str| {
        let dir = Dir::new();
        dir.write("stoker.toml", toml);
        let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker")).args(&["check"]);
        run(spawn.within(dir.path()))
    };
    let told = check(pools).stdout;
    assert!(told.contains(warning), "{told}");
    for rest in ["socket_mode = \"0666\"", "socket_group = \"4321\""] {
        let told = check(&format!("{pools}[stoker]\n{rest}\n")).stdout;
        assert!(
            told.contains("is valid") && !told.contains(warning),
            "{told}"
        );
    }
    let one = check(&pools.replace("4322", "4321")).stdout;
    assert!(
        one.contains("the socket has group 4321 and mode 0660"),
        "{one}"
    );
    let wrong = check("[pool.a]\n[stoker]\nsocket_group = \"no such group\"\n");
    assert_eq!(wrong.code, 78);
    let wanted = "stoker: stoker.socket_group: unknown group 'no such group'\n";
    assert_eq!(wrong.stderr, wanted);
    let app = setup().config(pools).launch();
    app.wait_for_log(&format!("stoker: {warning}"));
    assert_eq!(app.stop().code, 0);
}

#[test]
fn an_access_error_names_the_owner_and_group_of_the_socket() {
    let (setup, program) = copied(Path::new(env!("CARGO_BIN_EXE_stoker")));
    let app = setup.config(&pool_of("serve", "workers = 1")).start();
    let output = as_nobody(|| {
        let spawn = Spawn::new(&program).args(&["queues"]);
        run(spawn.env("STOKER_SOCKET", app.socket()))
    });
    let Some(output) = output else { return };
    assert_eq!(output.code, 69);
    let wanted = "it belongs to user root and group root, with mode 0660; the server's configuration sets these as \
    socket_group and socket_mode of [stoker]";
    assert!(output.stderr.contains(wanted), "{}", output.stderr);
    assert!(
        output.stderr.contains("permission denied for the socket"),
        "{}",
        output.stderr
    );
}

/// The token of one pool gives no access to another pool's names, pinned by the configuration or not (issue 9, A8).
#[test]
fn a_token_allows_serving_only_the_queues_and_calls_of_its_pool() {
    let pool = pool_of("serve", "workers = 1");
    let config =
        format!("{pool}\n[pool.open]\ntoken = \"secret\"\n[queue.ours]\npool = \"open\"\n");
    let app = setup().config(&config).launch();
    app.wait_for_log("p-1 is ready");
    let hello = |names: Value| {
        let mut hello =
            json!({"v": [1], "role": "worker", "pool": "open", "token": "secret", "pull": true});
        let fields = hello.as_object_mut().expect("an object");
        fields.extend(names.as_object().cloned().expect("an object"));
        hello
    };
    app.client().push(&Request::push("mails", "ok"));
    for names in [json!({"calls": ["t.run"]}), json!({"jobs": ["mails"]})] {
        let (_, status, text) = join(&app, &hello(names));
        assert_eq!(status, Some(Status::PERMISSION_DENIED));
        assert!(
            text.contains("is served by pool 'p', not by 'open'"),
            "{text}"
        );
    }
    let names = json!({"jobs": ["ours", "*"], "calls": ["own.run"]});
    let mut guest = Client::connect_as(&app.socket(), &hello(names));
    guest.write(&stoker_testkit::frame(stoker_wire::Encode {
        ttl: 1,
        ..stoker_wire::Encode::new(Type::Ready, 0)
    }));
    let mut client = app.client();
    let other = client.push(&Request::push("others", "ok"));
    client.job_in(&other, "done");
    client.push(&Request::push("ours", "ok"));
    let got = guest.frame().expect("the guest's own work");
    assert_eq!((got.kind, got.name.as_str()), (Type::Req, "ours"));
}

/// Sends a request about another user's job, which must be denied.
#[track_caller]
fn denied(client: &mut Client, ask: &Value) {
    let refused = client
        .try_call_server("stoker.job", ask)
        .expect_err("it is another user's");
    assert_eq!(refused.status(), Status::PERMISSION_DENIED, "{ask}");
    assert!(
        refused.text().contains("another user"),
        "{}",
        refused.text()
    );
}

// Issue 9, A5.
#[test]
fn a_job_is_visible_only_to_its_owner_and_administrators() {
    let app = start("workers = 1\n[stoker]\nsocket_mode = \"0666\"");
    let mut admin = app.client();
    let secret = admin.push(&Request::push("mails", "ok secret"));
    admin.job_in(&secret, "done");
    let own = as_nobody(|| {
        let mut client = app.client();
        denied(&mut client, &json!({"op": "show", "id": secret}));
        denied(&mut client, &json!({"op": "show", "id": secret, "note": 1}));
        let own = client.push(&Request::push("mails", "ok mine"));
        assert_eq!(client.job_in(&own, "done")["owner"], "uid:65534");
        own
    });
    if let Some(own) = own {
        assert_eq!(admin.job(&own)["owner"], "uid:65534");
    }
}

// Issue 9, A5: the ids of running tasks used to be shown to all users.
#[test]
fn ids_of_running_tasks_are_shown_only_with_permission() {
    let app = start("workers = 1\n[stoker]\nsocket_mode = \"0666\"");
    let gate = app.dir.gate("gate");
    let mut admin = app.client();
    let id = admin.push(&Request::push("mails", "gate gate"));
    let held = gate.wait_for_worker();
    as_nobody(|| {
        let shown = app
            .client()
            .call_server("stoker.worker", &json!({"op": "list"}));
        let task = &shown["workers"][0]["task"];
        assert_eq!(
            (&task["id"], &task["queue"]),
            (&Value::Null, &json!("mails"))
        );
    });
    assert_eq!(app.workers()[0]["task"]["id"], id.as_str());
    drop(held);
    admin.job_in(&id, "done");
}

// Issue 9, A5: a guessed key used to return the id of another user's job.
#[test]
fn a_unique_key_of_another_users_job_is_rejected_without_its_id() {
    let app = start("workers = 1\n[stoker]\nsocket_mode = \"0666\"");
    let mut admin = app.client();
    let with = |key, body: &str| {
        let ask = Request::push("mails", body).meta(Key::DELAY, 600_000_u64.to_be_bytes());
        ask.meta(key, "invoice-7")
    };
    let later = |key| with(key, "ok");
    let unique = admin.push(&later(Key::UNIQUE));
    let once = admin.push(&later(Key::IDEMPOTENCY));
    let taken = admin.request(&later(Key::UNIQUE));
    assert_eq!(
        (taken.status(), taken.text()),
        (Status::ALREADY_EXISTS, unique.clone())
    );
    assert!(taken.flags.has(Flags::NOT_PROCESSED), "{taken:?}");
    assert_eq!(admin.push(&later(Key::IDEMPOTENCY)), once, "the same push");
    as_nobody(|| {
        let mut client = app.client();
        for key in [Key::UNIQUE, Key::IDEMPOTENCY] {
            let refused = client.request(&later(key));
            assert_eq!(refused.status(), Status::ALREADY_EXISTS);
            assert!(refused.flags.has(Flags::NOT_PROCESSED), "{refused:?}");
            let text = refused.text();
            assert!(!text.contains(&unique) && !text.contains(&once), "{text}");
            assert!(text.contains("another user"), "{text}");
        }
    });
    let refused = admin.request(&with(Key::IDEMPOTENCY, "note another"));
    assert_eq!(refused.status(), Status::INVALID_ARGUMENT, "another body");
    assert!(refused.flags.has(Flags::NOT_PROCESSED), "{refused:?}");
    assert!(
        refused.text().contains("a different body"),
        "{}",
        refused.text()
    );
}

// Issue 9, A21: the protocol page calls this a fault of the connection.
#[test]
fn two_unanswered_pushes_with_one_id_are_a_protocol_error() {
    let app = start("workers = 1");
    let mut client = app.client();
    let push = Request::push("mails", "ok");
    client.write(&[push.bytes(7), push.bytes(7)].concat());
    let mut last = None;
    while let Some(got) = client.frame() {
        last = Some(got);
    }
    let fault = last.expect("the fault is the last frame");
    assert_eq!((fault.id, fault.status()), (0, Status::FAILED_PRECONDITION));
    assert!(
        fault.text().contains("still unanswered"),
        "{}",
        fault.text()
    );
}

/// A task acts for its own owner, not for the owners of tasks that its worker has not begun.
#[test]
fn tasks_behind_a_running_one_lend_it_no_rights() {
    if !geteuid().is_root() {
        return;
    }
    let (setup, program) = copied(&bad_worker());
    let pool = format!(
        "[pool.p]\ncommand = [{program:?}, \"quick;serve\"]\nworkers = 1\nuser = \"nobody\"\n"
    );
    let app = setup
        .config(&format!("{pool}[stoker]\nsocket_mode = \"0666\"\n"))
        .start();
    let mut admin = app.client();
    run_short_jobs(&mut admin);
    let gate = app.dir.gate("gate");
    let running = admin.push(&Request::push("mails", "gate gate;push mails ok"));
    let held = gate.wait_for_worker();
    as_nobody(|| {
        let mut client = app.client();
        (0..40).for_each(|_| drop(client.push(&Request::push("mails", "ok"))));
    });
    let assigned = app.workers()[0]["assigned"].as_u64();
    assert!(assigned > Some(8), "many are prefetched: {assigned:?}");
    drop(held);
    let child = admin.job_in(&running, "done")["result"].clone();
    let child = child.as_str().expect("the id of its child");
    assert_eq!(admin.job(child)["owner"], "uid:0", "of the running job");
}

// Issue 9, A5.
#[test]
fn a_job_pushed_inside_a_task_belongs_to_the_owner_of_the_task() {
    if !geteuid().is_root() {
        return;
    }
    let (setup, program) = copied(&bad_worker());
    let pool =
        format!("[pool.p]\ncommand = [{program:?}, \"serve\"]\nworkers = 1\nuser = \"nobody\"\n");
    let app = setup
        .config(&format!("{pool}[stoker]\nsocket_mode = \"0666\"\n"))
        .start();
    let mut admin = app.client();
    let child_of = |app: &App| app.call("t.run", "push mails ok").text();
    let by_call = child_of(&app);
    assert_eq!(
        admin.job_in(&by_call, "done")["owner"],
        "uid:0",
        "of the caller"
    );
    let parent = admin.push(&Request::push("mails", "push mails ok"));
    let by_job = admin.job_in(&parent, "done")["result"].clone();
    let by_job = by_job.as_str().expect("the id of its child");
    assert_eq!(admin.job(by_job)["owner"], "uid:0", "of the parent");
    // A client that only claims to run inside a worker acts for itself.
    as_nobody(|| {
        let hello = json!({"v": [1], "role": "client", "worker": "p-1"});
        let mut client = Client::connect_as(&app.socket(), &hello);
        let id = client.push(&Request::push("mails", "ok"));
        assert_eq!(client.job_in(&id, "done")["owner"], "uid:65534");
        denied(&mut client, &json!({"op": "show", "id": parent}));
    });
}
