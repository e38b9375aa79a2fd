//! Real PHP with the SDK: each file of `tests/php` has one behaviour.

use crate::{setup, signal_all};
use rustix::process::Signal;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use stoker_testkit::{App, Request, Setup, Spawn, limit, pause, procs, repository, run, until};
use stoker_wire::{Flags, Key, Status};

/// Whether PHP is installed. In CI it must be.
pub(crate) fn is_installed() -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("php").is_file()));
    let must = std::env::var_os("CI").is_some();
    assert!(found || !must, "CI has no php");
    if !found {
        eprintln!("skipped: there is no php");
    }
    found
}

fn file(name: &str) -> PathBuf {
    repository().join("tests/php").join(name)
}

/// A pool of workers that run a PHP file; `None` if there is no PHP.
fn pool(name: &str, rest: &str) -> Option<Setup> {
    let file = file(name);
    let toml = format!("[pool.php]\ncommand = [\"php\", {file:?}]\n{rest}\n");
    is_installed().then(|| setup().config(&toml))
}

fn start(name: &str, rest: &str) -> Option<App> {
    pool(name, rest).map(Setup::start)
}

/// The log lines that begin with a worker's name, without time and pid.
fn output(log: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| line.split_once(" php-"));
    let lines = lines.filter_map(|(_, rest)| rest.split_once("] "));
    lines.map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn echo_is_a_log_line_of_its_task() {
    let Some(app) = start("echo.php", "workers = 1") else {
        return;
    };
    for name in ["one", "two"] {
        assert_eq!(app.call("t.run", name).text(), "answer");
    }
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    let lines = output(&ended.log);
    for wanted in [
        "stdout: at boot",
        "stdout t.run#1: in one",
        "stderr t.run#1: stderr in one",
        "stdout t.run#1: in two",
        "stderr t.run#1: stderr in two",
        "stdout: after run",
        "stdout: at shutdown",
    ] {
        assert!(
            lines.iter().any(|line| line == wanted),
            "{wanted}: {lines:#?}"
        );
    }
}

#[test]
fn a_warning_is_a_log_line() {
    let Some(app) = start("warning.php", "workers = 1") else {
        return;
    };
    assert_eq!(app.call("t.run", "").text(), "answer ");
    app.wait_for_log("php-1[*t.run#1: *Warning: *Undefined variable $undefined");
    assert_eq!(app.call("t.run", "").text(), "answer ");
    assert_eq!(app.pool()["restarts"], 0);
}

/// Makes a call at which the worker dies; checks the error that the caller receives, and waits for a log line.
#[track_caller]
fn dies(app: &App, body: &str, told: &str, logged: &str) {
    let answer = app.call("t.run", body);
    assert_eq!(answer.status(), Status::WORKER_DIED, "{}", answer.text());
    assert!(answer.text().contains(told), "{}", answer.text());
    app.wait_for_log(logged);
    app.ready();
    assert_eq!(app.pool()["restarts"], 1);
}

/// The task has failed: it does not run again, and it is not quarantined.
#[test]
fn exit_in_a_handler_is_a_failure_of_its_task() {
    let Some(app) = start("exit.php", "workers = 1") else {
        return;
    };
    let mut client = app.client();
    for _ in 0..4 {
        let call = Request::call("t.run", "7").flag(Flags::IDEMPOTENT);
        let answer = client.request(&call);
        assert_eq!(answer.code, 64, "{}", answer.text());
        let text = "exit() or die() was called while t.run ran";
        assert!(answer.text().starts_with(text), "{}", answer.text());
    }
    app.wait_for_log("php-1[*t.run#1: half a line");
    assert!(!app.log().contains(" died "), "{}", app.log());
}

#[test]
fn a_fatal_error_leaves_its_message_and_place() {
    let Some(app) = start("fatal.php", "workers = 1") else {
        return;
    };
    dies(
        &app,
        "",
        "exit code 255",
        "php-1 died with exit code 255*last words: E_COMPILE_ERROR: Cannot declare class Twice*fatal.php",
    );
}

#[test]
fn the_memory_limit_of_php_is_reported_as_such() {
    let Some(app) = start("memory.php", "workers = 1") else {
        return;
    };
    assert_eq!(app.call("t.run", "1000").text(), "1000");
    dies(
        &app,
        "100000000",
        "exit code 255",
        "last words: E_ERROR: Allowed memory size of 16777216 bytes exhausted*memory.php:",
    );
}

#[test]
fn an_exception_fails_the_task_and_not_the_worker() {
    let Some(app) = start(
        "exception.php",
        "workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"0s\"]",
    ) else {
        return;
    };
    let before = app.call("t.ok", "").text();
    let answer = app.call("t.run", "Ada");
    assert_eq!(answer.status(), Status::EXCEPTION);
    assert!(
        answer.text().starts_with("there is no user Ada"),
        "{}",
        answer.text()
    );
    assert_eq!(answer.meta(Key::ERROR_CLASS).as_deref(), Some("NoSuchUser"));
    assert!(
        answer
            .meta(Key::ERROR_PLACE)
            .is_some_and(|place| place.contains("exception.php:"))
    );
    let mut client = app.client();
    let id = client.push(&Request::push("mails", ""));
    let job = client.job_in(&id, "failed");
    assert_eq!(
        (&job["attempt"], &job["error"]["class"]),
        (&2.into(), &"NoSuchUser".into())
    );
    assert!(
        job["error"]["place"]
            .as_str()
            .is_some_and(|place| place.contains("exception.php:"))
    );
    assert_eq!(app.call("t.ok", "").text(), before);
}

#[test]
fn open_output_buffers_do_not_affect_the_next_task() {
    let Some(app) = start("buffer.php", "workers = 1") else {
        return;
    };
    assert_eq!(app.call("t.open", "one").text(), "open");
    assert_eq!(app.call("t.echo", "two").text(), "plain");
    assert_eq!(app.call("t.close", "").text(), "closed");
    assert_eq!(app.call("t.echo", "three").text(), "plain");
    app.wait_for_log("t.open#1: left in a buffer of one");
    app.wait_for_log("t.echo#1: plain two");
    app.wait_for_log("t.echo#1: plain three");
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_forked_child_of_a_handler_is_not_the_worker() {
    let Some(app) = start("fork.php", "workers = 1") else {
        return;
    };
    for body in ["returns", "exits", "returns"] {
        assert_eq!(
            app.call("t.run", body).text(),
            "the parent answers",
            "{body}"
        );
    }
    app.wait_for_log("php-1[*child prints");
    assert_eq!(app.call("t.run", "stays").text(), "the parent answers");
    until("the child stays", || {
        (app.processes().len() == 4).then_some(())
    });
    assert_eq!(app.pool()["restarts"], 0);
    assert_eq!(
        app.call("t.dies", "").status(),
        Status::WORKER_DIED,
        "death is the process's, not the socket's"
    );
    app.wait_for_log("php-1 left a process behind, which was killed");
    until("it has gone", || (app.processes().len() == 3).then_some(()));
}

#[test]
fn a_process_that_outlives_its_worker_is_killed() {
    let Some(app) = start("proc_open.php", "workers = 1") else {
        return;
    };
    let pid: i32 = app.call("t.run", "").text().parse().expect("a pid");
    until("it sleeps", || {
        procs::command(pid).starts_with("sleep").then_some(())
    });
    assert_eq!(app.call("t.kill", "").status(), Status::WORKER_DIED);
    assert!(procs::wait_for_exit(pid, 3.0), "{}", procs::command(pid));
    app.wait_for_log("php-1 left a process behind, which was killed: sleep 1000");
    app.ready();
}

#[test]
fn a_worker_that_writes_into_its_own_socket_is_replaced() {
    let Some(app) = start("garbage.php", "workers = 1") else {
        return;
    };
    dies(&app, "", "KILL", "php-1 broke the protocol");
}

#[test]
fn an_endless_loop_is_killed_with_its_worker() {
    let Some(app) = start("loop.php", "workers = 1\ntask_timeout = \"300ms\"") else {
        return;
    };
    assert_eq!(app.call("t.run", "").status(), Status::DEADLINE_EXCEEDED);
    app.wait_for_log("php-1 is killed at t.run#1: its task exceeded its timeout");
    assert_eq!(app.call("t.ok", "").text(), "ok");
}

#[test]
fn a_timeout_interrupts_a_loop_by_an_exception() {
    let Some(app) = start(
        "soft.php",
        "workers = 1\ntask_timeout = \"300ms\"\nkill_grace = \"5s\"",
    ) else {
        return;
    };
    let before = app.call("t.ok", "").text();
    let answer = app.call("t.run", "");
    assert_eq!(answer.status(), Status::EXCEPTION, "{}", answer.text());
    assert_eq!(
        answer.meta(Key::ERROR_CLASS).as_deref(),
        Some("Stoker\\TaskTimeout")
    );
    assert_eq!(app.call("t.tidy", "").text(), "tidied up");
    assert_eq!(app.call("t.ok", "").text(), before, "it lives on");
}

// Issue 9, A22
#[test]
fn a_call_past_its_deadline_is_interrupted_and_frees_its_worker() {
    let Some(app) = start("soft.php", "workers = 1\ntask_timeout = \"60s\"") else {
        return;
    };
    let mut client = app.client();
    let pid = client.call("t.ok", "").text();
    let late = client.request(&Request::call("t.run", "").ttl(200));
    assert_eq!(late.status(), Status::DEADLINE_EXCEEDED, "{}", late.text());
    assert_eq!(
        client.call("t.ok", "").text(),
        pid,
        "it did not wait for task_timeout"
    );
    // The same for a call that its client cancels, and for one whose client disconnects.
    let given_up = client.send(&Request::call("t.run", ""));
    app.wait_for_log("spins");
    client.cancel(given_up);
    assert_eq!(client.call("t.ok", "").text(), pid);
    let mut other = app.client();
    other.send(&Request::call("t.run", ""));
    other.fence();
    drop(other);
    assert_eq!(client.call("t.ok", "").text(), pid);
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn invalid_utf8_passes_unchanged_and_is_shown_as_escapes() {
    let Some(app) = start("binary.php", "workers = 1") else {
        return;
    };
    let all: Vec<u8> = (0..=255).chain([0, 255]).collect();
    assert_eq!(
        app.client().request(&Request::call("t.run", [0, 255])).body,
        all
    );
    app.wait_for_log(r"t.run#1: \u{0}\xff\u{1b}[31m red");
}

#[test]
fn lines_of_up_to_a_mebibyte_are_not_split() {
    let Some(app) = start("line.php", "workers = 1\n[log]\nformat = \"json\"") else {
        return;
    };
    const MIB: usize = 1 << 20;
    for (method, bytes, lines) in [
        ("t.echo", MIB, 1),
        ("t.write", MIB, 2),
        ("t.echo", MIB + 9, 4),
    ] {
        assert_eq!(app.call(method, &bytes.to_string()).status(), Status::OK);
        // If the log is behind, output stays in the pipe and is attributed to the next task.
        let log = || app.log().matches("\"stream\"").count();
        until("it is in the log", || (log() >= lines).then_some(()));
    }
    let ended = app.stop();
    let lines = ended
        .log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let shape: Vec<(usize, u64)> = lines
        .filter(|line| line["stream"].is_string())
        .map(|line| {
            (
                line["message"].as_str().map_or(0, str::len),
                line["part"].as_u64().unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(shape, [(MIB, 0), (MIB, 0), (MIB, 1), (9, 2)]);
}

#[test]
fn a_worker_may_idle_for_longer_than_phps_socket_timeout() {
    let Some(app) = start("idle.php", "workers = 1") else {
        return;
    };
    let before = app.call("t.run", "").text();
    pause(Duration::from_millis(1_300));
    assert_eq!(app.call("t.run", "").text(), before);
}

#[test]
fn a_worker_that_does_not_exit_is_killed_after_the_grace_period() {
    let Some(app) = start("stubborn.php", "workers = 1\nstop_grace = \"1200ms\"") else {
        return;
    };
    let mut client = app.client();
    client.send(&Request::call("t.run", ""));
    until("it runs", || (app.pool()["busy"] == 1).then_some(()));
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.took < limit(4.0), "{:?}", ended.took);
    assert!(
        ended.log.contains("it did not end within stop_grace"),
        "{}",
        ended.log
    );
}

#[test]
fn the_handler_decides_the_outcome_of_a_job() {
    let rest =
        "workers = 1\n[queue.flaky]\ntries = 3\nbackoff = [\"0s\"]\n[queue.release]\ntries = 5";
    let Some(app) = start("jobs.php", rest) else {
        return;
    };
    let mut client = app.client();
    let mut ended = |queue: &str, state: &str| {
        let id = client.push(&Request::push(queue, ""));
        (client.job_in(&id, state), id)
    };
    let (_, id) = ended("done", "done");
    assert_eq!(ended("release", "done").0["attempt"], 3);
    assert_eq!(
        ended("fail", "failed").0["error"]["message"],
        "it makes no sense"
    );
    assert_eq!(ended("flaky", "done").0["attempt"], 3);
    assert_eq!(ended("crash", "done").0["crashes"], 1);
    app.wait_for_log(&format!("stdout {id}: {id} attempt 1"));
}

#[test]
fn a_handler_may_call_stoker_itself() {
    let Some(app) = start("nested.php", "workers = 2") else {
        return;
    };
    let answer = app
        .client()
        .request(&Request::call("t.outer", "").ttl(3_000));
    let told: Value =
        serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.text()));
    let left = told["inner"]["left"].as_f64().unwrap_or(0.0);
    assert!(
        left > 1.0 && left <= 3.0,
        "what is left of its caller's time: {told}"
    );
    let job = told["job"].as_str().expect("an id");
    app.client().job_in(job, "done");
    app.wait_for_log("mail to x");
}

#[test]
fn a_handler_that_would_wait_for_its_own_worker_is_rejected() {
    let Some(app) = start("nested.php", "workers = 1") else {
        return;
    };
    let answer = app.call("t.outer", "");
    let told: Value =
        serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.text()));
    assert!(
        told["message"]
            .as_str()
            .is_some_and(|text| text.contains("every worker that could serve this call")),
        "{told}"
    );
}

#[test]
fn a_worker_that_stops_by_itself_is_replaced() {
    let Some(app) = start("stop.php", "workers = 1") else {
        return;
    };
    let first = app.call("t.run", "").text();
    assert_ne!(app.call("t.run", "").text(), first);
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_php_program_can_be_a_client() {
    if !is_installed() {
        return;
    }
    let app = crate::start("workers = 2");
    let client = file("client.php");
    let spawn = Spawn::new("php").args(&[client.to_str().expect("a plain path")]);
    let output = run(spawn.env("STOKER_SOCKET", app.socket()));
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let told: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(told["call"]["a"], 1);
    assert_eq!(
        (&told["first"], &told["second"]),
        (&1.into(), &"two".into())
    );
    assert!(
        told["no worker"]
            .as_str()
            .is_some_and(|text| text.contains("did you mean 't'?")),
        "{told}"
    );
    assert_eq!(
        (&told["ids"], &told["state"]),
        (&3.into(), &"delayed".into())
    );
    assert!(
        told["queues"]
            .as_array()
            .is_some_and(|names| names.contains(&"mails".into()))
    );
}

#[test]
fn a_php_worker_can_connect_by_itself() {
    if !is_installed() {
        return;
    }
    let app = setup().config("[pool.far]\nworkers = 1\n").launch();
    let echo = file("echo.php");
    let spawn = Spawn::new("php").args(&[echo.to_str().expect("a plain path")]);
    let spawn = spawn
        .env("STOKER_SOCKET", app.socket())
        .stdout(std::process::Stdio::null());
    let mut worker = spawn.stderr(std::process::Stdio::null()).start();
    app.wait_for_log("far-1 is ready");
    assert_eq!(app.call("t.run", "").text(), "answer");
    app.wait_for_log("far-1[*stdout t.run#1: in ");
    assert_eq!(app.stop().code, 0);
    assert!(
        procs::wait_for_exit(worker.id() as i32, 5.0),
        "it was told to go"
    );
    assert_eq!(worker.wait().ok().and_then(|status| status.code()), Some(0));
}

#[test]
fn the_hello_example_works_as_documented() {
    if !is_installed() {
        return;
    }
    let worker = repository().join("examples/hello/worker.php");
    let app = setup()
        .serve(&[worker.to_str().expect("a plain path")])
        .start();
    let stoker = |args: &[&str]| {
        let output = app.cli(args);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{args:?}");
        output.stdout
    };
    let reply = stoker(&["call", "hello.greet", r#"{"name":"Ada"}"#]);
    assert_eq!(reply, "{\n  \"greeting\": \"Hello, Ada!\"\n}\n");
    let ids = stoker(&["push", "mails", r#"{"to":"x"}"#, "--count", "1000"]);
    assert_eq!(ids.lines().count(), 1_000);
    let mut client = app.client();
    until("all are sent", || {
        (client.queue("mails")["done"] == 1_000).then_some(())
    });
    app.wait_for_log("stdout *: mail to x sent");
    let poison = stoker(&["push", "poison"]);
    client.job_in(poison.trim(), "failed");
    let failed: Value =
        serde_json::from_str(&stoker(&["jobs", "list", "--state", "failed", "--json"]))
            .expect("JSON");
    assert_eq!(failed["jobs"][0]["error"]["class"], "Quarantined");
    assert!(stoker(&["quarantine", "list"]).contains("poison"));
    let flaky = stoker(&["push", "flaky", "--tries", "3"]);
    assert_eq!(client.job(flaky.trim())["queue"], "flaky");
    let queues: Value = serde_json::from_str(&stoker(&["queues", "--json"])).expect("JSON");
    let named = |name: &str| {
        queues["queues"]
            .as_array()
            .is_some_and(|all| all.iter().any(|it| it["name"] == name))
    };
    assert!(named("mails") && named("hello"));
    assert_eq!(stoker(&["pause", "mails"]), "mails is paused\n");
    app.ready();
    assert_eq!(stoker(&["reload"]), "default runs version 2\n");
    let workers: Value = serde_json::from_str(&stoker(&["workers", "--json"])).expect("JSON");
    assert_eq!(workers["workers"][0]["version"], 2);
}

#[test]
fn term_or_int_to_all_processes_lets_a_job_finish() {
    for signal in [Signal::TERM, Signal::INT] {
        let Some(app) = start("term.php", "workers = 2") else {
            return;
        };
        let gate = app.dir.gate("gate");
        let mut client = app.client();
        let id = client.push(&Request::push("mails", ""));
        let held = gate.wait_for_worker();
        signal_all(&app, signal);
        app.wait_for_log("shutting down");
        drop(held);
        let ended = app.wait_for_exit();
        assert_eq!(ended.code, 0, "{}", ended.log);
        let line = format!("stdout {id}: attempt 1");
        let log = ended.log.trim_end();
        assert!(log.contains(&line) && log.ends_with("drained"), "{log}");
        assert!(
            !log.contains("died") && !log.contains("stay in the store"),
            "{log}"
        );
    }
}

#[test]
fn term_to_a_worker_alone_does_not_interrupt_its_task() {
    let Some(app) = start("term.php", "workers = 1") else {
        return;
    };
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let call = client.send(&Request::call("t.run", ""));
    let held = gate.wait_for_worker();
    procs::signal(app.pids()[0], Signal::TERM);
    drop(held);
    assert_eq!(client.answer(call).text(), "finished");
    procs::signal(app.pids()[0], Signal::TERM);
    assert_eq!(app.call("t.ok", "").text(), "ok");
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn programs_started_by_a_task_receive_term() {
    let Some(app) = start("term.php", "workers = 1") else {
        return;
    };
    assert_eq!(app.call("t.child", "").text(), "15");
    assert_eq!(app.call("t.fork", "").text(), "15");
}

/// A worker that Stoker did not start may get TERM from the process that did: the worker finishes its task and ends.
#[test]
fn term_to_a_connected_worker_lets_it_finish_and_exit() {
    if !is_installed() {
        return;
    }
    let app = setup().config("[pool.far]\nworkers = 1\n").launch();
    let gate = app.dir.gate("gate");
    let script = file("term.php");
    let dial = || {
        let spawn = Spawn::new("php").args(&[script.to_str().expect("a plain path")]);
        let spawn = spawn.env("STOKER_SOCKET", app.socket());
        spawn.within(app.dir.path()).start()
    };
    for (number, busy) in [(1, true), (2, false)] {
        let mut worker = dial();
        app.wait_for_log(&format!("far-{number} is ready"));
        let mut client = app.client();
        let call = busy.then(|| client.send(&Request::call("t.run", "")));
        let held = busy.then(|| gate.wait_for_worker());
        procs::signal(worker.id() as i32, Signal::TERM);
        drop(held);
        if let Some(call) = call {
            assert_eq!(client.answer(call).text(), "finished");
        }
        assert!(procs::wait_for_exit(worker.id() as i32, 5.0), "it goes");
        assert_eq!(worker.wait().ok().and_then(|status| status.code()), Some(0));
        app.wait_for_log(&format!("far-{number} has ended"));
    }
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_worker_that_writes_much_after_its_last_answer_ends_by_itself() {
    let keys = "strategy = \"spare\"\nworkers = { min = 1, max = 2 }";
    let Some(app) = start("afterword.php", keys) else {
        return;
    };
    assert_eq!(app.call("t.run", "").text(), "done");
    until("its end is counted", || {
        (app.pool()["spent"] == 1).then_some(())
    });
    app.wait_for_log("xxx");
    assert_eq!(app.pool()["restarts"], 0, "{}", app.log());
}
