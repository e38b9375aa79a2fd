//! Every command against a running Stoker: its output and its exit code.

use crate::{setup, start, start_of};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Instant;
use stoker_testkit::{App, Client, Output, Request, Spawn, bad_worker, limit, procs, run};
use stoker_wire::Key;

/// Runs a command that must succeed; returns its output.
#[track_caller]
fn expect_success(app: &App, args: &[&str]) -> String {
    let Output {
        code,
        stdout,
        stderr,
    } = app.cli(args);
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}: {stdout}");
    stdout
}

#[track_caller]
fn json_of(app: &App, args: &[&str]) -> Value {
    let text = expect_success(app, &[args, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
}

/// Runs a command that must fail with this code, and must print nothing but the reason.
#[track_caller]
fn expect_failure(app: &App, args: &[&str], code: i32, why: &str) {
    let output = app.cli(args);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (code, ""),
        "{args:?}: {}",
        output.stderr
    );
    assert!(output.stderr.contains(why), "{args:?}: {}", output.stderr);
}

#[test]
fn call_prints_the_response() {
    let app = start("workers = 1");
    let reply = expect_success(&app, &["call", "t.run", r#"{"name":"Ada","tags":["a"]}"#]);
    assert_eq!(
        reply,
        "{\n  \"name\": \"Ada\",\n  \"tags\": [\n    \"a\"\n  ]\n}\n"
    );
    assert_eq!(expect_success(&app, &["call", "t.run", "[1,2]"]), "[1,2]\n");
    assert_eq!(expect_success(&app, &["call", "t.run"]), "null\n");
    assert_eq!(
        expect_success(&app, &["call", "t.run", r#""ok as it is""#]),
        "as it is",
        "no JSON, so unchanged"
    );
    let told = expect_success(
        &app,
        &[
            "call",
            "t.run",
            r#""tell""#,
            "--timeout",
            "2s",
            "--priority",
            "1",
        ],
    );
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&told["prio"], &told["codec"]), (&json!(1), &json!(1)));
    assert!(told["ttl"].as_u64() <= Some(2_000));
    let again = expect_success(
        &app,
        &["call", "t.run", r#""once died;kill""#, "--idempotent"],
    );
    assert_eq!(again, "done", "it may run again");
}

#[test]
fn a_failed_call_reports_its_error() {
    let app = start("workers = 1");
    expect_failure(
        &app,
        &["call", "t.run", r#""fail 64 no such user""#],
        1,
        "stoker: EXCEPTION: no such user\n",
    );
    expect_failure(
        &app,
        &["call", "t.run", r#""exit 3""#],
        1,
        "stoker: WORKER_DIED: its worker died (exit code 3) during the run",
    );
    expect_failure(
        &app,
        &["call", "tt.run"],
        1,
        "stoker: NO_WORKER: no worker serves 'tt'; did you mean 't'?\n",
    );
    expect_failure(
        &app,
        &["call", "t.run", r#""sleep 300""#, "--timeout", "100ms"],
        1,
        "stoker: DEADLINE_EXCEEDED: its deadline passed",
    );
}

#[test]
fn push_prints_ids() {
    let app = start("workers = 2");
    let id = expect_success(&app, &["push", "mails", r#"{"to":"x"}"#]);
    app.client().job_in(id.trim(), "done");
    let ids = expect_success(&app, &["push", "mails", "--count", "1200"]);
    let mut ids: Vec<&str> = ids.lines().collect();
    assert!(ids.is_sorted());
    ids.dedup();
    assert_eq!(ids.len(), 1_200);
    ids.iter()
        .for_each(|id| drop(app.client().job_in(id, "done")));
    let both = json_of(&app, &["push", "mails", "--count", "2"]);
    assert_eq!(both["ids"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_body_can_come_from_standard_input() {
    let app = start("workers = 1");
    expect_success(&app, &["pause", "mails", "--create"]);
    let piped = |script: &str| {
        let script = format!("{script} | \"$0\" push mails -");
        let stoker = env!("CARGO_BIN_EXE_stoker");
        let args = ["-c", &script, stoker];
        run(Spawn::new("/bin/sh")
            .args(&args)
            .env("STOKER_SOCKET", app.socket()))
    };
    let pushed = piped(r#"printf '{"to":"x"}'"#);
    assert_eq!((pushed.code, pushed.stderr.as_str()), (0, ""));
    assert_eq!(
        app.client().job(pushed.stdout.trim())["body"],
        r#"{"to":"x"}"#
    );
    let wrong = piped("printf {");
    assert_eq!(wrong.code, 2);
    assert!(
        wrong
            .stderr
            .starts_with("stoker: the body is not JSON: EOF"),
        "{}",
        wrong.stderr
    );
    assert!(!wrong.stderr.contains("shell"), "{}", wrong.stderr);
    // The largest body that fits, and one that is a byte longer: a JSON string of digits.
    let zeros = |len: usize| piped(&format!("printf '\"%0{}d\"' 0", len - 2));
    let max = (16 << 20) - 1 - (128 << 10) - (64 << 10);
    let large = zeros(max);
    assert_eq!((large.code, large.stderr.as_str()), (0, ""));
    let larger = zeros(max + 1);
    let told = format!(
        "stoker: the body has more than {max} bytes, but the limit is {max}; store the data elsewhere, and send its \
         location\n"
    );
    assert_eq!((larger.code, larger.stderr), (2, told));
}

#[test]
fn push_sends_its_options() {
    let app = start("workers = 1");
    let args = [
        "push",
        "mails",
        "1",
        "--delay",
        "1h",
        "--key",
        "tenant",
        "--tries",
        "4",
        "--priority",
        "6",
    ];
    let id = expect_success(&app, &args);
    let job = app.client().job(id.trim());
    assert_eq!(
        (&job["state"], &job["key"], &job["priority"]),
        (&json!("delayed"), &json!("tenant"), &json!(6))
    );
    assert_eq!((&job["tries"], &job["body"]), (&json!(4), &json!("1")));
}

#[test]
fn jobs_are_listed_shown_retried_and_cancelled() {
    let app = start("workers = 1");
    assert_eq!(expect_success(&app, &["jobs", "list"]), "no jobs\n");
    let failed = expect_success(
        &app,
        &["push", "mails", r#""if repaired ok;fail 64 broken""#],
    );
    let failed = failed.trim();
    app.client().job_in(failed, "failed");
    let delayed = expect_success(&app, &["push", "mails", "--delay", "1h", "--count", "3"]);
    let table = expect_success(&app, &["jobs", "list", "--state", "failed"]);
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "ID", "QUEUE", "TYPE", "STATE", "ATTEMPT", "CRASHES", "DUE", "ERROR"
        ]
    );
    assert_eq!(
        (lines[1][0], &lines[1][1..6], lines[1][7]),
        (failed, &["mails", "-", "failed", "1", "0"][..], "broken")
    );
    let list = json_of(&app, &["jobs", "list", "--queue", "mails", "--limit", "2"]);
    assert_eq!(list["jobs"].as_array().map(Vec::len), Some(2));
    let next = list["next"].as_str().expect("there are more");
    let page = expect_success(&app, &["jobs", "list", "--limit", "2"]);
    assert!(
        page.ends_with(&format!("there are more jobs: add --after {next}\n")),
        "{page}"
    );
    let rest = json_of(&app, &["jobs", "list", "--after", next]);
    assert_eq!(rest["jobs"].as_array().map(Vec::len), Some(2));
    assert_eq!(rest["next"], Value::Null);
    let shown: Value =
        serde_json::from_str(&expect_success(&app, &["jobs", "show", failed])).expect("JSON");
    assert_eq!(shown["error"]["message"], "broken");
    assert_eq!(json_of(&app, &["jobs", "show", failed]), shown);
    app.dir.write("repaired", "");
    let dry = expect_success(&app, &["jobs", "retry", failed, "--dry-run"]);
    assert_eq!(dry, "1 job\n");
    app.client().job_in(failed, "failed");
    assert_eq!(expect_success(&app, &["jobs", "retry", failed]), "1 job\n");
    app.client().job_in(failed, "done");
    let first = delayed.lines().next().expect("three ids");
    assert_eq!(expect_success(&app, &["jobs", "cancel", first]), "1 job\n");
    assert_eq!(
        json_of(&app, &["jobs", "cancel", "--state", "delayed"]),
        json!({"count": 2})
    );
    assert_eq!(
        expect_success(&app, &["jobs", "retry", "--state", "failed"]),
        "0 jobs\n"
    );
    expect_failure(
        &app,
        &["jobs", "cancel", first],
        1,
        "FAILED_PRECONDITION: the job is cancelled",
    );
    expect_failure(
        &app,
        &["jobs", "show", "x"],
        2,
        "invalid job id 'x': expected a UUID",
    );
    expect_failure(
        &app,
        &["jobs", "list", "--state", "dead"],
        2,
        "invalid \"state\": expected one of ready, running,",
    );
}

#[test]
fn a_dry_run_rejects_what_the_command_itself_would_reject() {
    // A pool that serves only these queues.
    let app = start_of("jobs mails,other;serve", "workers = 1");
    let failed = expect_success(&app, &["push", "mails", r#""fail 49 no""#]);
    let failed = failed.trim();
    app.client().job_in(failed, "failed");
    for (args, why) in [
        (
            &["move", "--queue", "mails", "--to", "othre"][..],
            "NOT_FOUND: there is no queue 'othre'; did you mean 'other'?",
        ),
        (&["move", failed, "--to", "othre"], "NOT_FOUND: "),
        (
            &["release", failed],
            "FAILED_PRECONDITION: the job is failed",
        ),
        (
            &["suspend", failed],
            "FAILED_PRECONDITION: the job is failed",
        ),
        (
            &["cancel", failed],
            "FAILED_PRECONDITION: the job is failed",
        ),
        (
            &["retry", "--state", "running"],
            "INVALID_ARGUMENT: running jobs can only be cancelled",
        ),
        (
            &["retry", "--state", "dead"],
            "invalid \"state\": expected one of",
        ),
        (&["retry", "--queue", "othre"], "NOT_FOUND: "),
    ] {
        let args = [&["jobs"], args].concat();
        let (real, dry) = (
            app.cli(&args),
            app.cli(&[&args[..], &["--dry-run"]].concat()),
        );
        assert!(dry.stderr.contains(why), "{args:?}: {}", dry.stderr);
        assert_eq!((dry.code, dry.stderr), (real.code, real.stderr), "{args:?}");
    }
    let fine = ["jobs", "move", failed, "--to", "other", "--dry-run"];
    assert_eq!(expect_success(&app, &fine), "1 job\n");
    assert_eq!(app.client().job(failed)["queue"], "mails");
}

#[test]
fn running_jobs_are_cancelled_by_a_state_filter() {
    let app = start("workers = 3");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let push = |client: &mut Client, queue: &str, number: usize| -> Vec<String> {
        let ask = Request::push(queue, "gate gate;note ran");
        (0..number).map(|_| client.push(&ask)).collect()
    };
    let mut running = push(&mut client, "mails", 2);
    running.extend(push(&mut client, "other", 1));
    let all_run = |client: &mut Client, ids: &[String]| {
        ids.iter().for_each(|id| drop(client.job_in(id, "running")));
    };
    all_run(&mut client, &running);
    for queue in ["mails", "other"] {
        expect_success(&app, &["pause", queue, "--create"]);
    }
    let ready = push(&mut client, "mails", 3);
    let delayed =
        client.push(&Request::push("mails", "ok").meta(Key::DELAY, 600_000u64.to_be_bytes()));
    let cancel = ["jobs", "cancel", "--state", "running"];
    let of_one = [&cancel[..], &["--queue", "other"]].concat();
    assert_eq!(expect_success(&app, &of_one), "1 job\n");
    client.job_in(&running[2], "cancelled");
    all_run(&mut client, &running[..2]);
    assert_eq!(expect_success(&app, &cancel), "2 jobs\n");
    for id in &running {
        let job = client.job_in(id, "cancelled");
        assert_eq!(job["crashes"], 0, "it was no crash: {job}");
    }
    assert_eq!(
        expect_success(&app, &cancel),
        "0 jobs\n",
        "they no longer exist"
    );
    ready.iter().for_each(|id| drop(client.job_in(id, "ready")));
    client.job_in(&delayed, "delayed");
    expect_success(&app, &["resume", "mails"]);
    gate.open();
    ready.iter().for_each(|id| drop(client.job_in(id, "done")));
    assert_eq!(app.dir.notes(), ["ran"; 3]);
    assert_eq!(
        expect_success(&app, &["quarantine", "list"]),
        "no quarantine\n"
    );
    app.ready();
}

/// A prefetched job behind the running one is ready, and runs on another worker.
#[test]
fn jobs_prefetched_behind_a_cancelled_job_run_on_another_worker() {
    let app = start_of("quick;serve", "workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    for _ in 0..100 {
        let id = client.push(&Request::push("mails", "ok"));
        client.job_in(&id, "done");
    }
    let running = client.push(&Request::push("mails", "gate gate;note no"));
    let held = gate.wait_for_worker();
    let behind: Vec<String> = (0..5)
        .map(|_| client.push(&Request::push("mails", "note ran")))
        .collect();
    let worker = &app.state()["workers"][0];
    assert!(
        worker["assigned"].as_u64() > Some(1),
        "prefetched: {worker}"
    );
    let cancel = ["jobs", "cancel", "--state", "running"];
    assert_eq!(expect_success(&app, &cancel), "1 job\n");
    client.job_in(&running, "cancelled");
    for id in &behind {
        let job = client.job_in(id, "done");
        assert_eq!((&job["attempt"], &job["crashes"]), (&1.into(), &0.into()));
    }
    drop(held);
    assert_eq!(app.dir.notes(), ["ran"; 5]);
}

#[test]
fn queues_are_shown_paused_resumed_and_set() {
    let app = start("workers = 1\n[queue.mails]\nweight = 3");
    expect_success(&app, &["call", "t.run"]);
    let table = expect_success(&app, &["queues"]);
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        &lines[0][..9],
        [
            "NAME", "KIND", "POOL", "WEIGHT", "PAUSED", "READY", "DELAYED", "RUNNING", "DONE"
        ]
    );
    assert_eq!(&lines[1][..5], ["mails", "jobs", "p", "3", "no"]);
    assert_eq!(
        &lines[2][..9],
        ["t", "calls", "p", "1", "no", "0", "0", "0", "1"]
    );
    assert_eq!(
        expect_success(&app, &["pause", "mails", "--create"]),
        "mails is paused\n"
    );
    assert_eq!(json_of(&app, &["queues"])["queues"][0]["paused"], true);
    assert_eq!(
        expect_success(&app, &["resume", "mails"]),
        "mails is resumed\n"
    );
    assert_eq!(
        json_of(&app, &["pause", "t"]),
        json!({"queue": "t", "paused": true})
    );
    let set = [
        "set",
        "mails",
        "--weight",
        "5",
        "--reserve",
        "1",
        "--limit",
        "2",
    ];
    assert_eq!(
        expect_success(&app, &set),
        "mails: weight 5, reserve 1, limit 2\n"
    );
    assert_eq!(
        json_of(&app, &["set", "mails", "--weight", "6"])["weight"],
        6
    );
    expect_failure(
        &app,
        &["set", "mails"],
        2,
        "expected --weight, --reserve, --limit or --reset",
    );
    expect_failure(
        &app,
        &["set", "mails", "--reserve", "9"],
        1,
        "the reserve would exceed the limit",
    );
}

/// Settings made with `stoker set` outlive a restart, and are reported.
#[test]
fn queue_overrides_are_shown_and_can_be_reset() {
    let config = crate::pool_of("serve", "workers = 2\n[queue.mails]\nweight = 3\nlimit = 9");
    let app = setup().config(&config).start();
    assert!(!expect_success(&app, &["queues"]).contains("BY STOKER SET"));
    let set = ["set", "mails", "--weight", "5", "--limit", "none"];
    assert_eq!(
        expect_success(&app, &set),
        "mails: weight 5, reserve 0, limit none\n"
    );
    expect_success(&app, &["set", "mails", "--reserve", "0"]);
    procs::kill(app.server());
    app.wait_for_log(
        "queue mails has settings from `stoker set`: weight 5 (configured: 3), limit none (configured: 9); `stoker \
         set mails --reset` restores the configuration",
    );
    app.ready();
    let table = expect_success(&app, &["queues"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].ends_with("BY STOKER SET"), "{table}");
    assert!(lines[1].ends_with("weight 5, limit none"), "{table}");
    let listed = json_of(&app, &["queues"]);
    assert_eq!(listed["queues"][0]["set"], json!(["weight", "limit"]));
    let reset = expect_success(&app, &["set", "mails", "--reset"]);
    assert_eq!(reset, "mails: weight 3, reserve 0, limit 9\n");
    assert!(!expect_success(&app, &["queues"]).contains("BY STOKER SET"));
    let from = app.log().len();
    procs::kill(app.server());
    app.wait_for_log_after(from, "pool p is healthy");
    assert_eq!(json_of(&app, &["queues"])["queues"][0]["weight"], 3);
    assert!(!app.log()[from..].contains("stoker set"), "{}", app.log());
    expect_failure(
        &app,
        &["set", "mails", "--limit", "some"],
        2,
        "invalid limit 'some': expected a number or none",
    );
    expect_failure(
        &app,
        &["set", "mails", "--reset", "--weight", "1"],
        2,
        "cannot be used with",
    );
}

#[test]
fn workers_are_shown_scaled_and_reloaded() {
    let app = start("workers = 1");
    let table = expect_success(&app, &["workers"]);
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        &lines[0][..8],
        [
            "POOL", "STATE", "VERSION", "MIN", "MAX", "READY", "BUSY", "RESTARTS"
        ]
    );
    assert_eq!(
        lines[1],
        ["p", "healthy", "1", "1", "1", "1", "0", "0", "-"]
    );
    assert_eq!(
        &lines[3][..5],
        ["WORKER", "PID", "KIND", "VERSION", "STATE"]
    );
    let pid = app.pids()[0].to_string();
    assert_eq!(&lines[4][..6], ["p-1", &pid, "spawned", "1", "ready", "0"]);
    let json = json_of(&app, &["workers"]);
    assert_eq!(json["workers"][0]["pid"].to_string(), pid);
    assert!(json["workers"][0]["rss_bytes"].as_u64() > Some(100_000));
    assert_eq!(expect_success(&app, &["scale", "p", "2"]), "p: 2 workers\n");
    assert_eq!(
        expect_success(&app, &["scale", "p", "1..3"]),
        "p: 1 to 3 workers\n"
    );
    app.ready();
    let reloaded = app.cli(&["reload"]);
    assert_eq!(
        (reloaded.code, reloaded.stdout.as_str()),
        (0, "p runs version 2\n")
    );
    assert!(
        reloaded.stderr.contains("pool.p.workers"),
        "what was set stays, and is reported"
    );
    assert_eq!(json_of(&app, &["reload", "p"])["pools"][0]["version"], 3);
    expect_failure(
        &app,
        &["reload", "q"],
        1,
        "there is no pool 'q'; expected one of: p",
    );
    expect_failure(
        &app,
        &["scale", "p", "3..1"],
        1,
        "\"min\" (3) is above \"max\" (1)",
    );
    expect_failure(
        &app,
        &["scale", "p", "some"],
        2,
        "invalid number of workers 'some': expected a number or MIN..MAX",
    );
}

#[test]
fn a_reload_to_a_command_that_cannot_run_fails() {
    let config = crate::pool_of("if broken exit 1;serve", "workers = 1");
    let app = setup().config(&config).start();
    app.dir.write("broken", "");
    let output = app.cli(&["reload"]);
    assert_eq!(output.code, 1);
    assert_eq!(
        output.stdout,
        "p: the new version can't start; version 1 keeps running\n\
         p-4 did not become ready (exit code 1)\n"
    );
}

#[test]
fn quarantine_lists_the_tasks_that_killed_workers() {
    let app = start("workers = 1\ncrash_budget = 1");
    assert_eq!(
        expect_success(&app, &["quarantine", "list"]),
        "no quarantine\n"
    );
    let id = expect_success(&app, &["push", "mails", r#""last-words it burns;segv""#]);
    app.client().job_in(id.trim(), "failed");
    let table = expect_success(&app, &["quarantine", "list"]);
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "ID", "KIND", "NAME", "TASK", "CRASHES", "EXIT", "AT", "LAST", "WORDS"
        ]
    );
    assert_eq!(lines[1][..5], ["1", "job", "mails", id.trim(), "1"]);
    assert!(table.trim_end().ends_with("it burns"), "{table}");
    let shown = json_of(&app, &["quarantine", "show", "1"]);
    assert_eq!(shown["body"], r#""last-words it burns;segv""#);
    expect_failure(
        &app,
        &["quarantine", "show", "99"],
        1,
        "NOT_FOUND: there is no quarantine entry with the id \"99\"",
    );
}

#[test]
fn usage_errors_show_the_usage() {
    let app = start("workers = 1");
    for (args, why) in [
        (&["frobnicate"][..], "unrecognized subcommand 'frobnicate'"),
        (&["pauze", "x"], "a similar subcommand exists: 'pause'"),
        (&["call"], "<METHOD>"),
        (&["call", "t.run", "{oops"], "the body is not JSON: "),
        (
            &["call", "t.run", "{oops"],
            r#"quote it for the shell, such as '{"name":"Ada"}'"#,
        ),
        (&["call", "t run"], "invalid name"),
        (
            &["call", "t.run", "--timeout", "soon"],
            "invalid duration \"soon\": expected a positive number and a unit, such as 500ms, 2s or 5m",
        ),
        (
            &["call", "t.run", "--timeout", "0s"],
            "invalid duration \"0s\"",
        ),
        (&["call", "t.run", "--priority", "8"], "8 is not in 0..=7"),
        (&["push"], "<QUEUE>"),
        (&["push", "a b"], "invalid name"),
        (
            &["push", "mails", "--count", "0"],
            "0 is not in 1..=10000000",
        ),
        (
            &["push", "mails", "--delay", "later"],
            "invalid duration \"later\": expected a number and a unit, such as 30s, 5m or 2h",
        ),
        (
            &["push", "mails", "--key", ""],
            "invalid --key of 0 bytes: expected 1 to 200 bytes",
        ),
        (&["jobs"], "Usage: stoker jobs"),
        (
            &["jobs", "cancel"],
            "name a job by its id, or many by --queue",
        ),
        (
            &["jobs", "cancel", "x", "--queue", "y"],
            "cannot be used with",
        ),
        (&["jobs", "list", "--limit", "0"], "0 is not in 1..=1000"),
        (
            &["jobs", "retry", "--all", "--per-second", "0"],
            "0 is not in 1..=1000000",
        ),
        (
            &["serve", "no-such-worker.php"],
            "file not found: no-such-worker.php",
        ),
        (
            &["serve", "-c", "x.toml", "worker.php"],
            "cannot be used with",
        ),
    ] {
        expect_failure(&app, args, 2, why);
    }
    assert_eq!(app.cli(&["--help"]).code, 0);
    let version = expect_success(&app, &["--version"]);
    assert!(version.starts_with("stoker "), "{version}");
}

#[test]
fn without_a_server_every_command_names_the_socket_that_it_tried() {
    let dir = stoker_testkit::Dir::new();
    let stoker = |args: &[&str]| {
        let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
        run(spawn.args(args).within(dir.path()))
    };
    for args in [
        &["call", "t.run"][..],
        &["push", "mails"],
        &["jobs", "list"],
        &["queues"],
        &["workers"],
        &["pause", "mails"],
        &["reload"],
        &["scale", "p", "1"],
        &["quarantine", "list"],
    ] {
        let output = stoker(args);
        assert_eq!((output.code, output.stdout.as_str()), (69, ""), "{args:?}");
        assert!(
            output
                .stderr
                .starts_with("stoker: no server answers at stoker.sock"),
            "{}",
            output.stderr
        );
    }
    let elsewhere = stoker(&["--socket", "/nowhere/s.sock", "queues"]);
    assert!(
        elsewhere.stderr.contains("at /nowhere/s.sock"),
        "{}",
        elsewhere.stderr
    );
}

#[test]
fn the_socket_option_overrides_the_variable() {
    let app = start("workers = 1");
    let socket = app.socket();
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"))
        .args(&["queues", "--socket", socket.to_str().expect("a plain path")])
        .env("STOKER_SOCKET", "/nowhere/s.sock");
    assert_eq!(run(spawn).code, 0);
}

#[test]
fn a_command_fails_if_the_server_ends_meanwhile() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let output = std::thread::scope(|scope| {
        let call = scope.spawn(|| app.cli(&["call", "t.run", r#""gate gate;silence""#]));
        let held = gate.wait_for_worker();
        procs::kill(app.server());
        drop(held);
        call.join().expect("it ends")
    });
    assert_eq!(output.code, 1);
    assert!(
        output.stderr.contains("the server closed the connection"),
        "{}",
        output.stderr
    );
    app.ready();
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let app = start("workers = 1");
    expect_success(&app, &["push", "mails", "--delay", "1h", "--count", "900"]);
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"))
        .args(&["jobs", "list", "--limit", "900"])
        .env("STOKER_SOCKET", app.socket());
    let mut child = spawn.stdout(writer).start();
    assert!(procs::wait_for_exit(child.id() as i32, 10.0));
    assert_eq!(child.wait().ok().and_then(|status| status.code()), Some(0));
}

#[test]
fn serve_works_without_a_configuration_file() {
    let worker = bad_worker();
    let worker = worker.to_str().expect("a plain path");
    let app = setup().serve(&[worker, "serve"]).start();
    assert_eq!(app.pool()["name"], "default");
    assert_eq!(expect_success(&app, &["call", "t.run", "1"]), "1\n");
    let id = app.client().push(&Request::push("anything", "ok"));
    app.client().job_in(&id, "done");
}

#[test]
fn a_too_long_socket_path_is_a_usage_error() {
    let dir = stoker_testkit::Dir::new();
    dir.write("stoker.toml", "[pool.p]\nworkers = 1\n");
    let long = dir.file(&"x".repeat(120));
    let args = ["serve", "--socket", long.to_str().expect("a plain path")];
    let output = run(Spawn::new(env!("CARGO_BIN_EXE_stoker"))
        .args(&args)
        .within(dir.path()));
    assert_eq!(output.code, 2);
    assert!(
        output
            .stderr
            .contains("is longer than 107 bytes, the maximum for a unix socket"),
        "{}",
        output.stderr
    );
}

/// One pass over all states, in order of the ids, even if a job changes its state meanwhile.
#[test]
fn an_export_contains_every_unfinished_job_once_in_push_order() {
    let app = start("workers = 1");
    let mut client = app.client();
    let mut push = |script: &str, state: &str, delay: u64| {
        let ask = Request::push("mails", script).meta(Key::DELAY, delay.to_be_bytes());
        let id = client.push(&ask);
        client.job_in(&id, state);
        id
    };
    let failed = push("fail 49 no", "failed", 0);
    let delayed = push("ok", "delayed", 3_600_000);
    push("ok", "done", 0);
    expect_success(&app, &["pause", "mails", "--create"]);
    let ready = push("ok", "ready", 0);
    let later = push("ok", "delayed", 3_600_000);
    let ids = |args: &[&str]| -> Vec<String> {
        let jobs = expect_success(&app, &[&["jobs", "export"], args].concat());
        let jobs = jobs.lines().map(serde_json::from_str);
        let jobs = jobs.map(|job: Result<Value, _>| job.expect("a JSON object a line"));
        jobs.map(|job| job["id"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(
        ids(&[]),
        [&failed, &delayed, &ready, &later].map(Clone::clone)
    );
    assert_eq!(ids(&["--state", "delayed"]), [delayed.clone(), later]);
    assert_eq!(ids(&[&delayed]), [delayed]);
    assert_eq!(ids(&["--state", "done"]).len(), 1);
}

#[test]
fn the_import_of_one_job_prints_the_singular() {
    let app = start("workers = 1");
    app.dir.write("jobs", r#"{"queue": "mails", "body": "ok"}"#);
    assert_eq!(expect_success(&app, &["jobs", "import", "jobs"]), "1 job\n");
    app.dir
        .write("jobs", "{\"queue\": \"mails\", \"body\": \"ok\"}\n{");
    expect_failure(&app, &["jobs", "import", "jobs"], 1, "line 2: ");
}

#[test]
fn an_import_names_the_invalid_line_of_the_file() {
    let app = start("workers = 1");
    let mut lines = vec![r#"{"queue": "mails", "state": "suspended"}"#; 700];
    lines[3] = "";
    lines[650] = r#"{"queue": "mails", "priority": 9}"#;
    app.dir.write("jobs", lines.join("\n"));
    let wrong = "line 651: invalid \"priority\": expected a whole number from 0 to 7, got 9 (649 jobs imported before it)";
    expect_failure(&app, &["jobs", "import", "jobs"], 1, wrong);
}

#[test]
fn temporary_failures_have_their_own_exit_code() {
    let app = start("workers = 1\n[queue.mails]\nmax_waiting = 1");
    expect_success(&app, &["pause", "mails", "--create"]);
    expect_success(&app, &["push", "mails"]);
    expect_failure(&app, &["push", "mails"], 75, "stoker: RESOURCE_EXHAUSTED: ");
    let none = "01900000-0000-7000-8000-000000000000";
    expect_failure(&app, &["jobs", "show", none], 1, "NOT_FOUND");
}

#[test]
fn errors_are_json_with_the_option_json() {
    let app = start("workers = 1");
    let told = |args: &[&str], code: i32| -> Value {
        let output = app.cli(&[args, &["--json"]].concat());
        assert_eq!((output.code, output.stdout.as_str()), (code, ""));
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        let json: Value = serde_json::from_str(&output.stderr).expect("JSON");
        json["error"].clone()
    };
    assert_eq!(
        told(&["jobs", "show", "x"], 2),
        json!({"status": "USAGE", "message": "invalid job id 'x': expected a UUID"})
    );
    assert_eq!(
        told(&["call", "t.run", r#""fail 64 no such user""#], 1)["status"],
        "EXCEPTION"
    );
    assert_eq!(told(&["push", "a b"], 2)["status"], "USAGE");
    let typo = told(&["frobnicate"], 2);
    let message = typo["message"].as_str().unwrap_or_default();
    assert!(message.contains("'frobnicate'"), "{message}");
    assert_eq!(
        told(&["queues", "--socket", "/nowhere/s.sock"], 69)["status"],
        "NO_SERVER"
    );
    assert_eq!(told(&["check", "no.toml"], 78)["status"], "CONFIG");
}

/// Issue 9, A16: a stopped server still accepts connections, because the kernel does that.
#[test]
fn commands_wait_for_a_stopped_server_no_longer_than_their_timeout() {
    let app = start("workers = 1");
    procs::signal(app.server(), Signal::STOP);
    for args in [
        ["queues"].as_slice(),
        &["call", "t.run", "null"],
        &["jobs", "cancel", "--queue", "q", "--all"],
        &["reload"],
        &["push", "q", "1"],
    ] {
        let began = Instant::now();
        let option = if args[0] == "push" {
            "--wait"
        } else {
            "--timeout"
        };
        let output = app.cli(&[args, &[option, "300ms"]].concat());
        assert_eq!(output.code, 69, "{args:?}: {}", output.stderr);
        assert!(
            output.stderr.contains("did not answer in time"),
            "{}",
            output.stderr
        );
        assert!(
            began.elapsed() < limit(10.0),
            "{args:?}: {:?}",
            began.elapsed()
        );
    }
    procs::signal(app.server(), Signal::CONT);
}

/// Issue 9, A16: connecting blocks while the backlog is full, and sending while the socket buffer is.
#[test]
fn the_timeout_includes_connecting_and_sending() {
    let dir = stoker_testkit::Dir::new();
    let path = dir.file("stoker.sock");
    let script = "import os, signal, socket, sys\n\
                  listener = socket.socket(socket.AF_UNIX)\n\
                  listener.bind(sys.argv[1])\n\
                  listener.listen(0)\n\
                  child = os.fork()\n\
                  print(child, flush=True) if child else (os.close(1), signal.pause())";
    let spawn = Spawn::new("python3").args(&["-c", script, path.to_str().expect("a plain path")]);
    let holder: i32 = run(spawn).stdout.trim().parse().expect("its pid");
    let large = dir.write("large", format!("{:?}", "x".repeat(4 << 20)));
    let script = "exec \"$0\" call a.b - --timeout 300ms <\"$1\"";
    // The first client is in the backlog and can't send everything; then the backlog is full and the next one can't
    // connect.
    for _ in 0..2 {
        let began = Instant::now();
        let stoker = env!("CARGO_BIN_EXE_stoker");
        let args = ["-c", script, stoker, large.to_str().expect("a plain path")];
        let output = run(Spawn::new("/bin/sh")
            .args(&args)
            .env("STOKER_SOCKET", &path));
        assert!(
            output.stderr.contains("did not answer in time"),
            "{}",
            output.stderr
        );
        assert!(began.elapsed() < limit(10.0), "{:?}", began.elapsed());
    }
    procs::kill(holder);
}

// Issue 9, A15: text that users control used to reach the operator's terminal unescaped.
#[test]
fn control_characters_from_users_are_escaped_on_the_terminal() {
    const EVIL: &str = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{7f}";
    let app = start("workers = 1");
    let mut client = app.client();
    let ask = Request::push("mails", format!("fail 64 {EVIL}")).key(EVIL);
    let id = client.push(&ask.meta(Key::JOB_TYPE, EVIL));
    client.job_in(&id, "failed");
    let commands: [&[&str]; 8] = [
        &["jobs", "list"],
        &["jobs", "failures"],
        &["jobs", "show", &id],
        &["jobs", "show", &id, "--json"],
        &["jobs", "list", "--json"],
        &["jobs", "export", &id],
        &["call", "t.run", &format!("{:?}", format!("fail 64 {EVIL}"))],
        &["pause", EVIL],
    ];
    for args in commands {
        let output = app.cli(args);
        for text in [&output.stdout, &output.stderr] {
            let found = text.chars().find(|c| c.is_control() && *c != '\n');
            let found = found.or(text.chars().find(|c| *c == '\u{202e}'));
            assert_eq!(found, None, "{args:?}: {text:?}");
        }
    }
    let list = expect_success(&app, &["jobs", "list"]);
    assert!(
        list.contains(r"\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{7f}"),
        "{list}"
    );
    let exported: Value =
        serde_json::from_str(&expect_success(&app, &["jobs", "export", &id])).expect("JSON");
    assert_eq!(exported["key"], EVIL, "the value stays the same");
}
