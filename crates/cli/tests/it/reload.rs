//! Replacing workers, and changing their number, without losing a task.

use crate::{pool_of, setup, start, start_of};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use stoker_testkit::{App, Request, bad_worker, procs, until};
use stoker_wire::{Codec, Status};

/// Runs `work` while several clients call. Every call must succeed.
#[track_caller]
fn under_load(app: &App, work: impl FnOnce()) {
    let (done, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let client = |number: usize| {
        let mut client = app.client();
        while !done.load(Ordering::Relaxed) {
            let asks: Vec<Request> = (0..8)
                .map(|n| Request::call("t.run", format!("ok {number}.{n}")))
                .collect();
            for (n, id) in client.send_all(&asks).into_iter().enumerate() {
                assert_eq!(client.answer(id).text(), format!("{number}.{n}"));
            }
            made.fetch_add(asks.len(), Ordering::Relaxed);
        }
    };
    let more = |number: usize| {
        let before = made.load(Ordering::Relaxed);
        until("calls are served", || {
            (made.load(Ordering::Relaxed) >= before + number).then_some(())
        });
    };
    thread::scope(|scope| {
        for number in 0..6 {
            let client = &client;
            scope.spawn(move || client(number));
        }
        // The clients must end whatever happens, or the test would not end.
        let _ends = Ends(&done);
        more(200);
        work();
        more(200);
    });
}

/// Sets a flag when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[track_caller]
fn reload(app: &App) -> Value {
    app.client()
        .call_server("stoker.pool", &json!({"op": "reload"}))
}

#[test]
fn a_reload_replaces_every_worker_and_fails_no_call() {
    let app = start("workers = 3");
    let before = app.pids();
    under_load(&app, || {
        let answer = reload(&app);
        let wanted = json!({"pools": [{"name": "p", "version": 2, "reloaded": true}]});
        assert_eq!(answer, wanted);
        let now = app.pids();
        assert!(now.len() >= 3 && now.iter().all(|pid| !before.contains(pid)));
        reload(&app);
    });
    assert_eq!(app.pool()["version"], 3);
    assert_eq!(app.pool()["restarts"], 0);
    app.wait_for_log("all workers of pool p run version 3");
}

#[test]
fn a_reload_waits_for_running_tasks() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let call = client.send(&Request::call("t.run", "gate gate;ok by the old one"));
    let held = gate.wait_for_worker();
    let mut operator = app.client();
    let asked = operator.send(&Request::call(
        "stoker.pool",
        r#"{"op":"reload","pool":"p"}"#,
    ));
    app.wait_for_log("p-2 is ready");
    assert_eq!(
        app.call("t.run", "ok by the new one").text(),
        "by the new one"
    );
    assert!(!operator.has_answer(asked), "an old worker is still there");
    drop(held);
    assert_eq!(client.answer(call).text(), "by the old one");
    assert_eq!(operator.answer(asked).status(), Status::OK);
}

#[test]
fn a_version_that_cannot_boot_does_not_replace_the_old_one() {
    let setup = setup().config(&pool_of("if broken exit 5;serve", "workers = 2"));
    let app = setup.start();
    let before = app.pids();
    app.dir.write("broken", "");
    under_load(&app, || {
        let answer = reload(&app);
        assert_eq!(answer["pools"][0]["reloaded"], false, "{answer}");
        assert_eq!(answer["pools"][0]["version"], 1);
    });
    app.wait_for_log("pool p: the new version can't start; the old version keeps running");
    assert_eq!(app.pids(), before);
    std::fs::remove_file(app.dir.file("broken")).expect("it was written");
    assert_eq!(
        reload(&app)["pools"][0]["reloaded"],
        true,
        "it runs after the repair"
    );
}

#[test]
fn a_reload_gives_new_workers_another_niceness() {
    let config = |nice: &str| pool_of("serve", format!("workers = 1\n{nice}"));
    let app = setup().config(&config("nice = 5")).start();
    let own = procs::niceness(app.server());
    let check = |nice: i32| {
        let found = [app.pids()[0], app.server(), app.angel()].map(procs::niceness);
        assert_eq!(found, [(own + nice).min(19), own, own]);
    };
    check(5);
    for (line, nice) in [("nice = 19", 19), ("", 0), ("nice = 1", 1)] {
        app.dir.write("stoker.toml", config(line));
        let answer = reload(&app);
        assert_eq!(answer["applied"], json!(["pool.p.nice"]), "{answer}");
        check(nice);
    }
}

#[test]
fn hup_reloads_all_pools() {
    let app = start("workers = 1");
    let before = app.pids();
    procs::signal(app.angel(), Signal::HUP);
    app.wait_for_log("all workers of pool p run version 2");
    assert_ne!(app.pids(), before);
}

#[test]
fn scaling_up_and_down_fails_no_call() {
    let app = start("workers = 2");
    under_load(&app, || {
        for workers in [4, 8, 1, 2] {
            let ask = json!({"op": "scale", "pool": "p", "min": workers, "max": workers});
            app.client().call_server("stoker.pool", &ask);
            until("the pool has its size", || {
                (app.workers().len() == workers).then_some(())
            });
        }
    });
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn scaling_down_lets_busy_workers_finish() {
    let app = start("workers = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let calls: Vec<u32> = (0..2)
        .map(|_| client.send(&Request::call("t.run", "note begun;gate gate;ok finished")))
        .collect();
    until("both run", || (app.dir.notes().len() == 2).then_some(()));
    let held = gate.wait_for_worker();
    client.call_server(
        "stoker.pool",
        &json!({"op": "scale", "pool": "p", "min": 1, "max": 1}),
    );
    drop(held);
    gate.open();
    for id in calls {
        assert_eq!(client.answer(id).text(), "finished");
    }
    until("one is left", || (app.workers().len() == 1).then_some(()));
}

#[test]
fn an_invalid_scale_is_rejected_with_a_reason() {
    let app = start("workers = 2\n[service.t]\nreserve = 1");
    let mut client = app.client();
    for (ask, why) in [
        (
            json!({"op": "scale", "pool": "x", "min": 1, "max": 1}),
            "there is no pool 'x'; expected one of: p",
        ),
        (
            json!({"op": "scale", "pool": "p", "min": 3, "max": 2}),
            "\"min\" (3) is above \"max\" (2)",
        ),
        (
            json!({"op": "scale", "pool": "p", "min": 0, "max": 0}),
            "invalid \"max\": expected a whole number from 1 to 10000, got 0",
        ),
        (
            json!({"op": "scale", "pool": "p", "min": 0, "max": 1}),
            "add up to 1 worker, so min must be at least 1",
        ),
        (
            json!({"op": "scale", "pool": "p", "min": "1", "max": 1}),
            "invalid \"min\": expected a whole number from 0 to 10000, got \"1\"; write 1 without quotes",
        ),
    ] {
        let refused = client
            .try_call_server("stoker.pool", &ask)
            .expect_err("it makes no sense");
        assert!(refused.text().contains(why), "{ask}: {}", refused.text());
    }
    assert_eq!(app.pool()["max"], 2);
}

/// A configuration whose pool runs the script in its environment.
fn by_environment(script: &str, rest: &str) -> String {
    let start = format!("exec {} \"$SCRIPT\"", bad_worker().display());
    format!(
        "[pool.p]\ncommand = [\"sh\", \"-c\", {start:?}]\nenv = {{ SCRIPT = {script:?} }}\n{rest}\n"
    )
}

/// Kills the only worker, and waits until another one is ready.
fn replace_killed_worker(app: &App) {
    let before = app.pids();
    procs::kill(before[0]);
    until("another one is ready", || {
        let pids = app.pids();
        (pids.len() == 1 && pids != before).then_some(())
    });
}

#[test]
fn workers_restarted_after_a_failed_reload_have_the_old_version() {
    let config = by_environment("calls t.run,t.old;serve", "workers = 1");
    let app = setup().config(&config).start();
    app.dir
        .write("stoker.toml", by_environment("exit 1", "workers = 1"));
    assert_eq!(reload(&app)["pools"][0]["reloaded"], false);
    replace_killed_worker(&app);
    assert_eq!(app.call("t.old", "ok old").text(), "old");
}

#[test]
fn a_pool_whose_second_reload_fails_as_well_has_the_version_before_both() {
    let of = |script: &str| by_environment(script, "workers = 1\nboot_timeout = \"1m\"");
    let app = setup().config(&of("calls t.run,t.old;serve")).start();
    let gate = app.dir.gate("gate");
    app.dir.write("stoker.toml", of("gate gate;exit 1"));
    let mut client = app.client();
    let reload = Request::call("stoker.pool", r#"{"op":"reload"}"#).codec(Codec::JSON);
    let first = client.send(&reload);
    let booting = gate.wait_for_worker();
    app.dir.write("stoker.toml", of("exit 2"));
    let second = client.send(&reload);
    let is_changed = |line: &&str| line.contains("pool p was changed in");
    until("both reloads have begun", || {
        (app.log().lines().filter(is_changed).count() == 2).then_some(())
    });
    drop(booting);
    for id in [first, second] {
        let answer: Value = serde_json::from_str(&client.answer(id).text()).expect("JSON");
        assert_eq!(answer["pools"][0]["reloaded"], false, "{answer}");
    }
    replace_killed_worker(&app);
    assert_eq!(app.call("t.old", "ok old").text(), "old");
}

#[test]
fn a_scaled_size_that_is_less_than_the_reserves_of_the_file_is_reset() {
    let app = start("workers = { min = 1, max = 4 }\n[queue.mails]");
    let scaled = app.cli(&["scale", "p", "1..3"]);
    assert_eq!(scaled.code, 0, "{}", scaled.stderr);
    let reserving = "workers = { min = 2, max = 4 }\n[queue.mails]\nreserve = 2";
    app.dir.write("stoker.toml", pool_of("serve", reserving));
    reload(&app);
    app.wait_for_log("pool p has its configured size again*");
    let pool = app.pool();
    assert_eq!((&pool["min"], &pool["max"]), (&json!(2), &json!(4)));
}

#[test]
fn a_reload_applies_the_pool_settings_of_the_file() {
    let before = pool_of("serve", "workers = 1");
    let app = setup().config(&before).start();
    let after = by_environment("calls t.run,t.new;serve", "workers = 1\nmax_tasks = 2");
    app.dir.write("stoker.toml", &after);
    let output = app.cli(&["reload"]);
    assert_eq!(
        (output.code, output.stdout.as_str(), output.stderr.as_str()),
        (
            0,
            "p runs version 2\n",
            "stoker: applied from the configuration: pool.p.command, pool.p.env, pool.p.max_tasks\n"
        )
    );
    app.wait_for_log("pool p was changed in *: command, env, max_tasks");
    assert_eq!(app.call("t.new", "ok new").text(), "new");
    app.call("t.new", "ok");
    app.wait_for_log("p-2 has ended");
    app.ready();
    // The angel keeps the new configuration for a server that it starts again.
    procs::kill(app.server());
    until("the server is back", || {
        app.log().contains("the server was restarted").then_some(())
    });
    app.ready();
    assert_eq!(app.call("t.new", "ok new").text(), "new");
    assert_eq!(reload(&app)["restart"], Value::Null, "nothing has changed");
}

// Issue 9, A25
#[test]
fn a_reload_reports_what_needs_a_restart() {
    let app = start("workers = 1");
    let more = "workers = 1\n[stoker]\nmax_inflight = 5\nsocket_group = \"0\"\nsocket_mode = \"0600\"\n\
                [log]\nformat = \"json\"";
    app.dir.write("stoker.toml", pool_of("serve", more));
    let answer = reload(&app);
    // Issue 9, A23: the group of the socket
    let restart = json!(["stoker.socket_mode", "stoker.socket_group", "log.format"]);
    assert_eq!(answer["restart"], restart);
    assert_eq!(answer["applied"], json!(["stoker.max_inflight"]));
    app.wait_for_log("*stoker.toml has changes that need a restart: stoker.socket_mode, *");
    let output = app.cli(&["reload"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (0, "p runs version 3\n")
    );
    let told = "needs a restart: stoker.socket_mode, stoker.socket_group, log.format\n";
    assert!(output.stderr.ends_with(told), "{}", output.stderr);
}

// Issue 9, A25
#[test]
fn a_reload_applies_weights_limits_retention_and_sizes() {
    let app = start("workers = 1\n[queue.mails]\ntries = 1");
    let more = "workers = 2\n[queue.mails]\nweight = 3\nlimit = 7\ntries = 2\nbackoff = [\"0s\"]\n\
                [service.t]\nlimit = 5\n[stoker]\nmax_inflight = 77";
    app.dir.write("stoker.toml", pool_of("serve", more));
    let answer = reload(&app);
    assert_eq!(answer["restart"], Value::Null);
    let applied = json!([
        "stoker.max_inflight",
        "pool.p.workers",
        "queue.mails.weight",
        "queue.mails.limit",
        "queue.mails.tries",
        "queue.mails.backoff",
        "service.t"
    ]);
    assert_eq!(answer["applied"], applied);
    let queue = app.client().queue("mails");
    assert_eq!((&queue["weight"], &queue["limit"]), (&json!(3), &json!(7)));
    assert_eq!(app.client().queue("t")["limit"], 5);
    until("the pool has its size", || {
        (app.workers().len() == 2).then_some(())
    });
    let mut client = app.client();
    let id = client.push(&Request::push("mails", "fail 64 no"));
    let job = client.job_in(&id, "failed");
    assert_eq!(job["attempt"], 2, "{job}");
    // The next server has the new values too, without a reload.
    procs::kill(app.server());
    until("the server is back", || {
        app.log().contains("the server was restarted").then_some(())
    });
    app.ready();
    assert_eq!(app.client().queue("mails")["limit"], 7);
    assert_eq!(app.pool()["max"], 2);
}

/// A setting that is removed from the file returns to its default.
#[test]
fn a_reload_resets_settings_that_were_removed_from_the_file() {
    let rest =
        "workers = 1\n[queue.mails]\nweight = 3\nlimit = 1\nreserve = 1\n[service.t]\nlimit = 5";
    let app = start(rest);
    let rest = "workers = 1\n[queue.mails]\n[service.t]";
    app.dir.write("stoker.toml", pool_of("serve", rest));
    assert_eq!(reload(&app)["restart"], Value::Null);
    let mut client = app.client();
    let queue = client.queue("mails");
    let shares = ["weight", "limit", "reserve"].map(|key| queue[key].clone());
    assert_eq!(shares, [json!(1), Value::Null, json!(0)]);
    assert_eq!(client.queue("t")["limit"], Value::Null);
}

// Issue 9, A25
/// The waiting jobs are already in memory, with the old number of tries.
#[test]
fn waiting_jobs_get_the_new_tries_after_a_reload() {
    let app = start("workers = 1\n[queue.mails]\ntries = 1\nbackoff = [\"0s\"]");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.push(&Request::push("mails", "gate gate"));
    let held = gate.wait_for_worker();
    let waits = client.push(&Request::push("mails", "fail 64 no"));
    let more = "workers = 1\n[queue.mails]\ntries = 2\nbackoff = [\"0s\"]";
    app.dir.write("stoker.toml", pool_of("serve", more));
    let mut other = app.client();
    other.send(&Request::call("stoker.pool", r#"{"op":"reload"}"#).codec(Codec::JSON));
    app.wait_for_log("queue.mails.tries");
    drop(held);
    let job = client.job_in(&waits, "failed");
    assert_eq!(job["attempt"], 2, "{job}");
}

#[test]
fn overrides_survive_a_reload() {
    let app = start("workers = 1\n[queue.mails]\nweight = 2");
    let mut client = app.client();
    let scale = json!({"op": "scale", "pool": "p", "min": 3, "max": 3});
    client.call_server("stoker.pool", &scale);
    client.call_server(
        "stoker.queue",
        &json!({"op": "set", "queue": "mails", "weight": 9}),
    );
    let more = "workers = 2\n[queue.mails]\nweight = 4\nlimit = 6";
    app.dir.write("stoker.toml", pool_of("serve", more));
    let answer = reload(&app);
    assert_eq!(
        answer["kept"],
        json!(["pool.p.workers", "queue.mails.weight"])
    );
    let queue = app.client().queue("mails");
    assert_eq!((&queue["weight"], &queue["limit"]), (&json!(9), &json!(6)));
    assert_eq!(app.pool()["max"], 3);
    client.call_server(
        "stoker.queue",
        &json!({"op": "set", "queue": "mails", "reset": true}),
    );
    assert_eq!(
        app.client().queue("mails")["weight"],
        4,
        "as the file says by now"
    );
    let output = app.cli(&["reload"]);
    let told = "stoker: set by 'stoker scale' or 'stoker set', which overrides the configuration: pool.p.workers\n";
    assert_eq!(output.stderr, told);
}

// Issue 9, A25
#[test]
fn a_scaled_size_survives_a_crash_of_the_server_until_it_is_reset() {
    let app = start("workers = 1");
    let scaled = app.cli(&["scale", "p", "2..3"]);
    assert_eq!(scaled.stdout, "p: 2 to 3 workers\n");
    let size = || {
        let pool = app.pool();
        (pool["min"].clone(), pool["max"].clone())
    };
    let crash = |times: &str| {
        procs::kill(app.server());
        app.wait_for_log(&format!("the server was restarted ({times} so far)*"));
        app.ready();
    };
    crash("1 time");
    assert_eq!(size(), (json!(2), json!(3)));
    app.dir
        .write("stoker.toml", pool_of("serve", "workers = 4"));
    assert_eq!(reload(&app)["kept"], json!(["pool.p.workers"]));
    crash("2 times");
    assert_eq!(size(), (json!(2), json!(3)), "it is kept with a reload too");
    let reset = app.cli(&["scale", "p", "--reset"]);
    assert_eq!(reset.stdout, "p: 4 workers\n", "as the file says by now");
    crash("3 times");
    assert_eq!(size(), (json!(4), json!(4)));
    assert_eq!(reload(&app)["kept"], Value::Null);
}

// Issue 9, A25
#[test]
fn a_reload_adds_and_removes_pools() {
    let alone = pool_of("jobs mails;serve", "workers = 1");
    let late = pool_of("jobs late;serve", "workers = 2").replace("pool.p", "pool.late");
    let both = format!("{alone}{late}");
    let app = start_of("jobs mails;serve", "workers = 1");
    let before = app.pids();
    app.dir.write("stoker.toml", &both);
    let answer = reload(&app);
    assert_eq!(answer["applied"], json!(["pool.late"]));
    let pools = json!([{"name": "p", "version": 2, "reloaded": true},
        {"name": "late", "version": 1, "reloaded": false, "added": true}]);
    assert_eq!(answer["pools"], pools);
    until("it has its workers", || {
        (app.workers().len() == 3).then_some(())
    });
    let mut client = app.client();
    let id = client.push(&Request::push("late", "ok"));
    client.job_in(&id, "done");
    app.dir.write("stoker.toml", &alone);
    let output = app.cli(&["reload"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (0, "p runs version 3\n")
    );
    until("its workers have gone", || {
        (app.workers().len() == 1).then_some(())
    });
    let waits = client.push(&Request::push("late", "ok"));
    assert_eq!(client.job(&waits)["state"], "ready", "nobody serves it");
    app.dir.write("stoker.toml", &both);
    reload(&app);
    client.job_in(&waits, "done");
    assert!(app.pids().iter().all(|pid| !before.contains(pid)));
}

// Issue 9, A25
#[test]
fn a_removed_queue_keeps_its_jobs_and_runs_them_when_it_is_configured_again() {
    let two = |rest: &str| {
        pool_of("jobs none;serve", "workers = 1")
            + &pool_of("jobs other;serve", "workers = 1").replace("pool.p", "pool.q")
            + rest
    };
    let section = "[queue.mails]\npool = \"q\"\nlimit = 5\n";
    let app = setup().config(&two(section)).start();
    let mut client = app.client();
    let done = client.push(&Request::push("mails", "ok"));
    client.job_in(&done, "done");
    app.dir.write("stoker.toml", two(""));
    let answer = reload(&app);
    assert_eq!(answer["applied"], json!(["queue.mails"]));
    assert_eq!(app.client().queue("mails")["limit"], Value::Null);
    let waits = client.push(&Request::push("mails", "ok"));
    assert_eq!(client.job(&waits)["state"], "ready");
    app.dir.write("stoker.toml", two(section));
    reload(&app);
    client.job_in(&waits, "done");
    assert_eq!(app.client().queue("mails")["done"], 2);
}

// Issue 9, A25
#[test]
fn a_reload_of_one_pool_applies_nothing_else_and_reports_it() {
    let app = start("workers = 1");
    let more = "workers = 2\n[queue.mails]\nweight = 3";
    app.dir.write("stoker.toml", pool_of("serve", more));
    let output = app.cli(&["reload", "p"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let told = "stoker: applied from the configuration: pool.p.workers\nstoker: changed in the configuration, but \
                not applied by the reload of a single pool; use 'stoker reload' without a pool: queue.mails\n";
    assert_eq!(output.stderr, told);
    assert_eq!(app.pool()["max"], 2);
}

#[test]
fn a_reload_of_an_invalid_file_is_rejected_with_its_errors() {
    let app = start("workers = 1");
    let before = app.pids();
    app.dir.write("stoker.toml", "[pool.p]\ncomand = []\n");
    let output = app.cli(&["reload"]);
    assert_eq!((output.code, output.stdout.as_str()), (1, ""));
    let what = "stoker.toml:2: pool.p.comand: unknown key\n    did you mean 'command'?";
    assert!(output.stderr.contains(what), "{}", output.stderr);
    procs::signal(app.angel(), Signal::HUP);
    app.wait_for_log("the reload is rejected: *stoker.toml:2: pool.p.comand: unknown key");
    std::fs::remove_file(app.dir.file("stoker.toml")).expect("it was written");
    let output = app.cli(&["reload"]);
    assert!(output.stderr.contains("cannot read "), "{}", output.stderr);
    assert_eq!((app.pids(), &app.pool()["version"]), (before, &json!(1)));
}

#[test]
fn a_failed_reload_reports_the_last_output_and_does_not_change_the_pool() {
    let app = setup()
        .config(&by_environment("serve", "workers = 1"))
        .start();
    let broken = by_environment("stderr Parse error: odd;exit 255", "workers = 1");
    app.dir.write("stoker.toml", &broken);
    let output = app.cli(&["reload"]);
    assert_eq!(output.code, 1);
    let told = "p: the new version can't start; version 1 keeps running\np-";
    assert!(output.stdout.starts_with(told), "{}", output.stdout);
    let words = "did not become ready (exit code 255): Parse error: odd\n";
    assert!(output.stdout.ends_with(words), "{}", output.stdout);
    // Its workers are replaced by workers of the version that stays.
    procs::kill(app.pids()[0]);
    app.wait_for_log("p-5 is ready");
    assert_eq!(app.call("t.run", "ok as before").text(), "as before");
}

#[test]
fn the_outcome_of_the_last_boot_is_shown() {
    let script = "stdout Parse error: odd;exit 255";
    let app = setup().config(&pool_of(script, "workers = 1")).launch();
    app.wait_for_log("pool p is unhealthy*");
    let table = app.cli(&["workers"]).stdout;
    assert!(
        table
            .lines()
            .any(|line| line.ends_with("exit code 255 at boot")),
        "{table}"
    );
    let failed = app.pool()["failed_boot"].to_string();
    assert!(
        failed.contains("(exit code 255): Parse error: odd"),
        "{failed}"
    );
}

// Issue 9, A27
#[test]
fn a_worker_that_exits_without_serving_is_logged_with_a_hint() {
    let app = setup().config(&pool_of("exit 0", "workers = 1")).launch();
    app.wait_for_log(
        "*did not become ready (exit code 0). The process ended without serving: a worker script must end with a call of run()*",
    );
}
