//! A program per task, which needs to know nothing about Stoker.

use crate::setup;
use rustix::process::Signal;
use serde_json::json;
use stoker_testkit::{App, Request, procs, until};
use stoker_wire::{Key, Status};

/// A script whose behaviour depends on its payload.
const SCRIPT: &str = "case $0 in \
    fail) echo bad >&2; exit 3;; \
    again) exit 75;; \
    crash) kill -SEGV $$;; \
    cries) echo crying >&2; kill -SEGV $$;; \
    slow) sleep 1000 & echo $! > child; sleep 1000;; \
    greedy) python3 -c 'x = bytearray(200 << 20); import signal; signal.pause()';; \
    leaves) sleep 1000 & echo $! > child; echo left;; \
    *) cat; echo \" from $STOKER_NAME, $# words\";; esac";

fn start(keys: &str) -> App {
    let config = format!(
        "[pool.p]\ncommand = [\"sh\", \"-c\", {SCRIPT:?}, \"{{body}}\", \"{{name}}\"]\nstrategy = \"exec\"\nworkers = 4\n{keys}\n\
         [queue.q]\npool = \"p\"\nbackoff = [\"0s\"]\n[service.sh]\npool = \"p\"\n"
    );
    let app = setup().config(&config).launch();
    app.wait_for_log("p-1 is ready (pid ");
    app
}

fn twice(body: &str) -> Request {
    Request::push("q", body).meta(Key::TRIES, 2u16.to_be_bytes())
}

#[test]
fn the_output_of_the_program_is_the_result() {
    let app = start("");
    assert_eq!(app.call("sh.run", "hi").text(), "hi from sh.run, 1 words\n");
    let mut client = app.client();
    let id = client.push(&twice("hi"));
    let job = client.job_in(&id, "done");
    assert_eq!(job["result"], "hi from q, 1 words\n");
}

#[test]
fn the_exit_code_decides_the_outcome() {
    let app = start("");
    let mut client = app.client();
    for (body, attempt, crashes, error) in [
        ("fail", 2, 0, "exit code 3: bad"),
        ("again", 2, 0, "exit code 75"),
        (
            "crash",
            0,
            3,
            "its program crashed 3 times, the last time with signal 11 (SEGV)",
        ),
    ] {
        let id = client.push(&twice(body));
        let job = client.job_in(&id, "failed");
        assert_eq!(job["error"]["message"], error, "{job}");
        assert_eq!(
            (&job["attempt"], &job["crashes"]),
            (&attempt.into(), &crashes.into())
        );
    }
    let crashed = app.call("sh.run", "crash");
    assert_eq!(crashed.status(), Status::WORKER_DIED);
    let text = "its program crashed (signal 11 (SEGV)) during the run";
    assert_eq!(crashed.text(), text);
    assert_eq!(app.call("sh.run", "fail").status(), Status::EXCEPTION);
    assert_eq!(app.pool()["restarts"], 0, "its adapter lives on");
}

/// Programs that run beside it are not affected.
#[test]
fn a_program_with_too_much_memory_is_killed_alone() {
    let app = start("memory_limit = \"60MB\"\ncrash_budget = 1");
    let mut client = app.client();
    let beside = client.push(&twice("slow"));
    left_child(&app);
    let greedy = client.push(&twice("greedy"));
    let failed = client.job_in(&greedy, "failed");
    let text = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(
        text.ends_with("it used more memory than memory_limit allows"),
        "{text}"
    );
    assert_eq!(client.job(&beside)["state"], "running");
    client.call_server("stoker.job", &json!({"op": "cancel", "id": beside}));
    assert_eq!(client.job_in(&beside, "cancelled")["crashes"], 0);
}

/// The pid of the process that the script left behind.
fn left_child(app: &App) -> i32 {
    until("the program has started another", || {
        let text = std::fs::read_to_string(app.dir.file("child")).ok()?;
        text.trim().parse().ok()
    })
}

#[test]
fn a_program_that_exceeds_its_timeout_is_killed_with_its_children() {
    let app = start("task_timeout = \"300ms\"");
    let mut client = app.client();
    let id = client.push(&Request::push("q", "slow").meta(Key::TRIES, 1u16.to_be_bytes()));
    client.job_in(&id, "failed");
    let child = left_child(&app);
    until("it is gone", || (!procs::is_alive(child)).then_some(()));
    assert_eq!(app.pool()["restarts"], 0, "its adapter lives on");
}

/// A process that a program leaves running delays neither the program's answer nor the next task.
#[test]
fn processes_left_by_a_program_are_killed() {
    let app = start("");
    assert_eq!(app.call("sh.run", "leaves").text(), "left\n");
    let child = left_child(&app);
    until("it is gone", || (!procs::is_alive(child)).then_some(()));
}

#[test]
fn a_missing_program_fails_its_task() {
    let config =
        "[pool.p]\ncommand = [\"/no/such\"]\nstrategy = \"exec\"\n[service.sh]\npool = \"p\"\n";
    let app = setup().config(config).launch();
    let got = app.call("sh.run", "x");
    assert_eq!(got.status(), Status::EXCEPTION);
    assert!(
        got.text()
            .starts_with("its program can't be started: No such file")
    );
}

/// A reload changes the number of the adapter's slots to the one in the file.
#[test]
fn a_reload_changes_the_concurrency() {
    let app = start("");
    let text = std::fs::read_to_string(app.dir.file("stoker.toml")).unwrap();
    app.dir
        .write("stoker.toml", text.replace("workers = 4", "workers = 1"));
    app.client()
        .call_server("stoker.pool", &json!({"op": "reload"}));
    let workers = app.workers();
    assert_eq!(workers.len(), 1, "{workers:?}");
    assert_eq!(workers[0]["slots"], 1, "{workers:?}");
    assert_eq!(app.call("sh.run", "hi").text(), "hi from sh.run, 1 words\n");
}

/// A pool whose worker speaks the wire protocol becomes one that starts a program per task, and vice versa.
#[test]
fn a_reload_changes_the_strategy() {
    let app = start("");
    let exec = std::fs::read_to_string(app.dir.file("stoker.toml")).unwrap();
    let queues = exec.split_once("[queue.q]").unwrap().1;
    let lasting = crate::pool_of("serve", "");
    let lasting = lasting.replace("[service.t]\npool = \"p\"\n", "");
    let lasting = format!("{lasting}\n[queue.q]{queues}");
    let reload = || {
        app.client()
            .call_server("stoker.pool", &json!({"op": "reload"}))
    };
    app.dir.write("stoker.toml", &lasting);
    reload();
    assert_eq!(app.call("sh.run", "ok here").text(), "here");
    app.dir.write("stoker.toml", &exec);
    reload();
    assert_eq!(app.call("sh.run", "hi").text(), "hi from sh.run, 1 words\n");
}

/// A job that waits while its pool is replaced runs in that pool, although another pool could serve any queue.
#[test]
fn jobs_stay_with_their_pool_when_its_strategy_changes() {
    let other = "[pool.other]\ncommand = [\"sh\", \"-c\", \"echo other\"]\nstrategy = \"exec\"\nworkers = 1\n";
    let app = start(other);
    let mut client = app.client();
    for _ in 0..4 {
        client.push(&Request::push("q", "slow"));
    }
    until("no slot is free", || {
        (client.queue("q")["running"] == 4).then_some(())
    });
    let waiting = client.push(&Request::push("q", "ok waited"));
    let exec = std::fs::read_to_string(app.dir.file("stoker.toml")).unwrap();
    let (_, queues) = exec.split_once("[queue.q]").unwrap();
    let lasting = crate::pool_of("serve", "").replace("[service.t]\npool = \"p\"\n", "");
    let text = format!("{lasting}\n{other}[queue.q]{queues}");
    app.dir.write("stoker.toml", text);
    app.client()
        .send(&Request::call("stoker.pool", r#"{"op":"reload"}"#));
    app.wait_for_log("pool p was added");
    let job = client.job_in(&waiting, "done");
    assert_eq!(job["result"], "waited", "{job}");
    client.call_server("stoker.job", &json!({"op": "cancel", "queue": "q"}));
}

/// The program is killed even while its adapter is shutting down, and other programs are not affected.
#[test]
fn a_program_that_exceeds_its_timeout_is_killed_while_its_adapter_drains() {
    let app = start("kill_grace = \"100ms\"");
    let mut client = app.client();
    let slow = Request::push("q", "slow")
        .meta(Key::TRIES, 1u16.to_be_bytes())
        .meta(Key::TIMEOUT, 500u32.to_be_bytes());
    let id = client.push(&slow);
    left_child(&app);
    client.call_server("stoker.pool", &json!({"op": "reload"}));
    client.job_in(&id, "failed");
    assert!(!app.log().contains("is killed"), "{}", app.log());
}

/// The last words of a program are reported with its task, not for its adapter.
#[test]
fn the_output_of_programs_is_not_the_last_output_of_the_adapter() {
    let app = start("");
    let mut client = app.client();
    let id = client.push(&Request::push("q", "cries"));
    let job = client.job_in(&id, "failed");
    assert_eq!(
        job["error"]["message"],
        "its program crashed 3 times, the last time with signal 11 (SEGV): crying"
    );
    app.wait_for_log("*crying*");
    procs::signal(app.pids()[0], Signal::KILL);
    let line = app.wait_for_log("*p-1 died with signal 9 (KILL)*");
    assert!(!line.contains("crying"), "{line}");
}

/// An adapter counts as one worker per program that it can run.
#[test]
fn one_adapter_satisfies_the_reserves_of_its_queues() {
    let app = start("");
    let file = app.dir.file("stoker.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("[queue.q]\n", "[queue.q]\nreserve = 3\n");
    app.dir.write("stoker.toml", &text);
    let mut client = app.client();
    client.call_server("stoker.pool", &json!({"op": "reload"}));
    client.call_server(
        "stoker.pool",
        &json!({"op": "scale", "pool": "p", "min": 1, "max": 1}),
    );
    let set = json!({"op": "set", "queue": "q", "reserve": 4});
    assert_eq!(client.call_server("stoker.queue", &set)["reserve"], 4);
    let text = text.replace("workers = 4", "workers = 4\ntask_timeout = \"7s\"");
    app.dir.write("stoker.toml", text);
    client.call_server("stoker.pool", &json!({"op": "reload", "pool": "p"}));
    app.wait_for_log("pool p was changed in *: task_timeout");
}

/// The status says that a time limit was exceeded, because no client has cancelled the call.
#[test]
fn a_call_whose_program_exceeds_its_timeout_reports_it() {
    let app = start("task_timeout = \"300ms\"");
    let got = app.call("sh.run", "slow");
    assert_eq!(got.status(), Status::DEADLINE_EXCEEDED, "{}", got.text());
}
