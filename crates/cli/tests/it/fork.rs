//! The strategy `fork` with real PHP: workers are forked from a zygote, which has booted the application.

use crate::php::is_installed;
use crate::setup;
use serde_json::Value;
use std::collections::HashSet;
use stoker_testkit::{
    App, Client, Dir, Http, Request, Setup, Spawn, matches, pool_of, procs, repository,
    run as run_program, until,
};
use stoker_wire::Status;

fn pool(name: &str, rest: &str) -> Option<Setup> {
    let file = repository().join("tests/php").join(name);
    let toml = format!("[pool.php]\ncommand = [\"php\", {file:?}]\nstrategy = \"fork\"\n{rest}\n");
    is_installed().then(|| setup().config(&toml))
}

fn start(rest: &str) -> Option<App> {
    pool("zygote.php", rest).map(Setup::start)
}

fn run(client: &mut Client) -> Value {
    let answer = client.call("t.run", "");
    assert_eq!(answer.status(), Status::OK, "{}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

fn pid(value: &Value) -> i32 {
    value.as_i64().expect("a pid") as i32
}

#[test]
fn each_task_runs_in_a_process_of_its_own_that_has_booted() {
    let Some(app) = start("workers = { min = 2, max = 3 }") else {
        return;
    };
    let mut client = app.client();
    let runs: Vec<Value> = (0..8).map(|_| run(&mut client)).collect();
    let different = |key: &str| {
        let values: HashSet<String> = runs.iter().map(|run| run[key].to_string()).collect();
        values.len()
    };
    assert_eq!(different("pid"), 8, "{runs:#?}");
    assert_eq!(different("name"), 8);
    assert_eq!(different("zygote"), 1, "the application boots once");
    let random: HashSet<String> = runs
        .iter()
        .flat_map(|run| run["random"].as_array().expect("numbers"))
        .map(Value::to_string)
        .collect();
    assert_eq!(random.len(), 24, "{runs:#?}");
    for run in &runs {
        assert_eq!(run["tasks"], 1, "nothing is left of an earlier task");
        assert_eq!(run["forked"], run["pid"], "the hook has run");
        assert_eq!(run["compiled"], 0, "the SDK was loaded before the fork");
        assert_eq!(run["group"], run["pid"]);
        assert_eq!(run["inherited"], false);
        assert_ne!(run["zygote"], run["pid"]);
    }
    app.wait_for_log("php-zygote*stderr: stoker: lcg_value() was called at boot");
    assert_eq!(app.pool()["restarts"], 0);
    until("all ends are counted", || {
        (app.pool()["spent"] == 8).then_some(())
    });
    let log = app.log();
    assert!(!log.contains("has ended"), "{log}");
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn a_forked_process_runs_the_number_of_tasks_that_is_configured() {
    let Some(app) = start("workers = 1\ntasks_per_fork = 3") else {
        return;
    };
    let mut client = app.client();
    let tasks: Vec<i64> = (0..7)
        .map(|_| run(&mut client)["tasks"].as_i64().expect("a number"))
        .collect();
    assert_eq!(tasks, [1, 2, 3, 1, 2, 3, 1]);
}

#[test]
fn the_output_of_a_forked_process_is_that_of_its_task() {
    let Some(app) = start("workers = 2") else {
        return;
    };
    for body in ["one", "two"] {
        assert_eq!(app.call("t.print", body).text(), "printed");
        for wanted in [
            "stdout *echo",
            "stderr *stderr",
            "stdout *stdout",
            "stderr *program",
        ] {
            let (stream, text) = wanted.split_once('*').expect("a stream and a text");
            app.wait_for_log(&format!("php-*{stream}t.print#*: {text} {body}"));
        }
    }
}

#[test]
fn what_a_forked_process_leaves_behind_is_killed() {
    let Some(app) = start("workers = 1") else {
        return;
    };
    for what in ["program", "process"] {
        let left: i32 = app.call("t.leave", what).text().parse().expect("a pid");
        assert!(procs::wait_for_exit(left, 5.0), "{}", procs::command(left));
    }
    app.wait_for_log("left a process behind, which was killed: sleep 1000");
    app.wait_for_log("left a process behind, which was killed: php");
}

#[test]
fn missing_extensions_are_named() {
    if !is_installed() {
        return;
    }
    let file = repository().join("tests/php/zygote_plain.php");
    let toml = format!("[pool.php]\ncommand = [\"php\", \"-n\", {file:?}]\nstrategy = \"fork\"\n");
    let app = setup().config(&toml).launch();
    app.wait_for_log(
        "strategy \"fork\" needs the PHP extensions pcntl, posix, sockets; missing:*sockets",
    );
    app.stop();
}

const SHARED: [&str; 3] = [
    "the SQLite database *shared.db is open (descriptor *): using it in several processes can damage it; open it in the task*",
    "a TCP connection to port * is open (descriptor *): tasks that use it at the same time read each other's answers*",
    "a lock on *boot.lock is held: each forked process holds it too*",
];

#[test]
fn what_forked_processes_would_share_is_logged() {
    let Some(app) = pool("zygote_shares.php", "workers = 1").map(Setup::start) else {
        return;
    };
    for finding in SHARED {
        app.wait_for_log(&format!("warn php-zygote: {finding}"));
    }
    assert_eq!(app.call("t.run", "").text(), "answer");
}

#[test]
fn check_fork_boots_the_application_and_reports_what_would_be_shared() {
    let check = |name: &str| {
        let file = repository().join("tests/php").join(name);
        let dir = Dir::new();
        let toml = format!("[pool.php]\ncommand = [\"php\", {file:?}]\nstrategy = \"fork\"\n");
        dir.write("stoker.toml", toml);
        let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
        run_program(spawn.args(&["check", "--fork"]).within(dir.path()))
    };
    if !is_installed() {
        return;
    }
    let shares = check("zygote_shares.php");
    assert_eq!(shares.code, 1, "{}", shares.stderr);
    let has = |wanted: &str| {
        let mut lines = shares.stdout.lines();
        lines.any(|line| matches(line, wanted))
    };
    assert!(has("pool php printed: booted"), "{}", shares.stdout);
    for finding in SHARED {
        assert!(
            has(&format!("pool php: {finding}")),
            "{finding}: {}",
            shares.stdout
        );
    }
    let plain = check("zygote_plain.php");
    assert_eq!(plain.code, 0, "{}", plain.stdout);
    assert!(
        plain
            .stdout
            .ends_with("pool php can be forked: nothing is shared\n"),
        "{}",
        plain.stdout
    );
}

#[test]
fn saturated_processes_run_more_than_one_task_if_that_is_permitted() {
    let rest = "workers = 1\ntasks_per_fork = \"auto\"\n[queue.mails]";
    let Some(app) = start(rest) else {
        return;
    };
    let mut client = app.client();
    assert_eq!(run(&mut client)["tasks"], 1);
    assert_eq!(
        run(&mut client)["tasks"],
        1,
        "nothing waits, so one task each"
    );
    let calls: Vec<Request> = (0..20).map(|_| Request::call("t.run", "")).collect();
    let ids = client.send_all(&calls);
    let counts = ids.into_iter().map(|id| {
        let run: Value = serde_json::from_str(&client.answer(id).text()).expect("JSON");
        run["tasks"].as_i64().expect("a number")
    });
    assert!(counts.max() > Some(1));
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn requests_of_a_site_run_in_processes_of_their_own() {
    let rest = "workers = 2\n[site.shop]\nlisten = [\"127.0.0.1:0\"]";
    let Some(app) = pool("zygote_site.php", rest).map(Setup::start) else {
        return;
    };
    app.wait_for_log("gateway sites: listening on http://");
    let mut http = Http::tcp(app.site_address(0), None).expect("the angel listens");
    let mut pids = HashSet::new();
    for number in 0..5 {
        let path = format!("/orders/{number}");
        let answer = http.request("GET", &path, &[], "").expect("an answer");
        let answer = answer.json();
        assert_eq!(
            (&answer["path"], &answer["requests"]),
            (&path.into(), &1.into())
        );
        pids.insert(answer["pid"].to_string());
    }
    assert_eq!(pids.len(), 5);
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_pool_whose_program_takes_tasks_from_an_inbox_cannot_fork() {
    let Some(setup) = pool("zygote_inbox.php", "workers = 1") else {
        return;
    };
    let app = setup.launch();
    app.wait_for_log(
        "strategy \"fork\" forks processes in Worker::run(), and this process opens an Inbox",
    );
    app.stop();
}

/// What a zygote does wrong, and what the log says about it.
const FAULTS: [(&str, &str); 8] = [
    (
        "version",
        "its zygote ended with signal 9: it speaks version 2 of the zygote protocol",
    ),
    ("foreign", "as its child, which it is not"),
    (
        "init",
        "its zygote ended with signal 9: a record of 13 bytes is invalid",
    ),
    ("itself", "as its child, which it is not"),
    (
        "twice",
        "its zygote ended with signal 9: it reported twice that it is ready",
    ),
    (
        "garbage",
        "its zygote ended with signal 9: a record of 7 bytes is invalid",
    ),
    (
        "silent",
        "php-1 is killed: it was not ready within boot_timeout",
    ),
    ("refuses", "php-1 did not become ready (*there is no room"),
];

#[test]
fn a_zygote_that_breaks_its_protocol_harms_nobody() {
    if !is_installed() {
        return;
    }
    let file = repository().join("tests/php/zygote_hostile.php");
    for (fault, logged) in FAULTS {
        let toml = format!(
            "[pool.php]\ncommand = [\"php\", {file:?}, {fault:?}]\nstrategy = \"fork\"\nworkers = 1\n\
             boot_timeout = \"500ms\"\n{}",
            pool_of("serve", "workers = 1")
        );
        let app = setup().config(&toml).launch();
        app.wait_for_log(logged);
        assert_eq!(app.call("t.run", "ok served").text(), "served", "{fault}");
        let ended = app.stop();
        assert_eq!(ended.code, 0, "{fault}: {}", ended.log);
    }
}

/// A reload of one pool starts a zygote with its new version. Those of other pools stay, whatever their versions are.
#[test]
fn a_reload_of_one_pool_leaves_the_zygotes_of_others_alone() {
    let file = repository().join("tests/php/zygote.php");
    let other =
        format!("[pool.other]\ncommand = [\"php\", {file:?}]\nstrategy = \"fork\"\nworkers = 1");
    let Some(app) = start(&format!("workers = 1\n{other}")) else {
        return;
    };
    let zygote_of = |pool: &str| {
        let zygotes = app.state()["zygotes"].as_array().cloned()?;
        let ready = |zygote: &&Value| zygote["pool"] == pool && zygote["state"] == "ready";
        let all: Vec<i32> = zygotes
            .iter()
            .filter(ready)
            .map(|zygote| pid(&zygote["pid"]))
            .collect();
        (all.len() == 1).then(|| all[0])
    };
    let before = until("both pools have a zygote", || {
        zygote_of("php").zip(zygote_of("other"))
    });
    let reload = serde_json::json!({"op": "reload", "pool": "php"});
    app.client().call_server("stoker.pool", &reload);
    let (_, other) = until("the pool has a new zygote", || {
        let now = zygote_of("php").zip(zygote_of("other"))?;
        (now.0 != before.0).then_some(now)
    });
    assert_eq!(other, before.1, "the zygote of the other pool is the same");
}

fn has_ffi() -> bool {
    let spawn = Spawn::new("php").args(&["-r", "exit(extension_loaded('ffi') ? 0 : 1);"]);
    run_program(spawn).code == 0
}

/// Stops Stoker, which must not have found a process that was left behind.
fn stop_without_orphans(app: App) {
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(
        !ended.log.contains("left a process behind"),
        "{}",
        ended.log
    );
}

/// A stop or a reload cancels the request for the next worker, whose process its zygote has forked and not reported. That
/// process is killed too, and is not said to have been left behind.
#[test]
fn a_fork_that_is_no_longer_wanted_leaves_no_process_behind() {
    if !is_installed() || !has_ffi() {
        return;
    }
    let file = repository().join("tests/php/zygote_clone.php");
    let toml = format!(
        "[pool.php]\ncommand = [\"php\", {file:?}, \"300\"]\nstrategy = \"fork\"\nworkers = 4\n"
    );
    for is_reload in [false, true] {
        let app = setup().config(&toml).start();
        until("all workers are ready", || {
            let ready = |worker: &&Value| worker["state"] == "ready";
            (app.workers().iter().filter(ready).count() == 4).then_some(())
        });
        let before = procs::children(app.angel());
        run(&mut app.client());
        until("the process of the next worker runs", || {
            let now = procs::children(app.angel());
            now.iter().any(|pid| !before.contains(pid)).then_some(())
        });
        if is_reload {
            let reload = serde_json::json!({"op": "reload", "pool": "php"});
            app.client().call_server("stoker.pool", &reload);
        }
        stop_without_orphans(app);
    }
}

#[test]
fn a_zygote_may_make_its_children_those_of_the_angel() {
    let Some(setup) = pool("zygote_clone.php", "workers = 2").filter(|_| has_ffi()) else {
        return;
    };
    let app = setup.start();
    let mut client = app.client();
    let mut pids = HashSet::new();
    for _ in 0..20 {
        let run = run(&mut client);
        assert_eq!(pid(&run["parent"]), app.angel());
        pids.insert(run["pid"].to_string());
    }
    assert_eq!(pids.len(), 20);
    assert_eq!(client.call("t.dies", "").status(), Status::WORKER_DIED);
    app.wait_for_log("died with signal 9 (KILL) while it ran a task");
    until("all ends are counted", || {
        (app.pool()["spent"] == 20).then_some(())
    });
    stop_without_orphans(app);
}

#[test]
fn output_is_that_of_its_task_without_ffi() {
    if !is_installed() {
        return;
    }
    let file = repository().join("tests/php/zygote_print.php");
    let toml = format!(
        "[pool.php]\ncommand = [\"php\", \"-d\", \"ffi.enable=false\", {file:?}]\nstrategy = \"fork\"\n"
    );
    let app = setup().config(&toml).start();
    assert_eq!(app.call("t.print", "").text(), "printed");
    for wanted in [
        "stdout t.print#1: by echo",
        "stdout t.print#1: to a stream",
        "stderr t.print#1: to the other stream",
        "stderr t.print#1: by a program",
    ] {
        app.wait_for_log(&format!("php-*{wanted}"));
    }
}
