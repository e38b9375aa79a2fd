//! Zygotes that can't boot, hang, die or are replaced. The processes that they have forked go on.

use super::kind::Kind;
use crate::{pool_of, setup};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::thread::{self, JoinHandle};
use stoker_testkit::{App, Client, Dir, Request, Spawn, procs, run, until};
use stoker_wire::Status;

/// What a task knows: its process, and the one that has booted.
#[track_caller]
fn who(client: &mut Client) -> (i32, i32) {
    let answer = client.call("t.run", "who");
    assert_eq!(answer.status(), Status::OK, "{}", answer.text());
    let value: Value = serde_json::from_str(&answer.text()).expect("JSON");
    let pid = |key: &str| value[key].as_i64().expect("a pid") as i32;
    (pid("pid"), pid("booted"))
}

#[track_caller]
fn zygote(client: &mut Client) -> i32 {
    who(client).1
}

#[track_caller]
fn stop(app: App) {
    let ended = app.stop();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

pub(super) fn failed_boot(kind: Kind) {
    let app = kind.pool("boot-fails.php", "workers = 2").launch();
    app.wait_for_log("p-zygote[*stdout: booting");
    app.wait_for_log(
        "did not become ready (*its zygote ended with exit code 255: *there is no database",
    );
    app.wait_for_log("pool p is unhealthy");
    stop(app);
}

pub(super) fn boot_that_exits(kind: Kind) {
    let app = kind.pool("boot-exits.php", "workers = 2").launch();
    app.wait_for_log("did not become ready (*its zygote ended with exit code 7: booting");
    app.wait_for_log("pool p is unhealthy");
    stop(app);
}

pub(super) fn boot_that_hangs(kind: Kind) {
    let keys = "workers = 1\nboot_timeout = \"500ms\"";
    let app = kind.pool("boot-hangs.php", keys).launch();
    app.wait_for_log("p-1 is killed: it was not ready within boot_timeout");
    app.wait_for_log("p-zygote has ended (signal 9)");
    app.wait_for_log("p-2 is killed: it was not ready within boot_timeout");
    stop(app);
}

pub(super) fn death(kind: Kind) {
    let setup = kind.pool("boots.php", "workers = 2");
    let gate = setup.dir().gate("gate");
    let app = setup.start();
    let mut client = app.client();
    let old = zygote(&mut client);
    app.ready();
    let waiting = client.send(&Request::call("t.run", "wait"));
    let held = gate.wait_for_worker();
    procs::kill(old);
    app.wait_for_log("p-zygote died with signal 9");
    let mut seen = HashSet::new();
    until("a new zygote", || {
        let now = zygote(&mut client);
        seen.insert(now);
        (now != old).then_some(())
    });
    assert!(
        seen.contains(&old),
        "a process that was ready has served a task"
    );
    drop(held);
    assert_eq!(client.answer(waiting).text(), "done: wait");
    app.ready();
    assert_eq!(app.pool()["restarts"], 0);
    stop(app);
}

pub(super) fn broken_reload(kind: Kind) {
    let setup = kind.pool("boot-breaks.php", "workers = 2");
    let broken = setup.dir().file("broken");
    let app = setup.start();
    let mut client = app.client();
    let old = zygote(&mut client);
    std::fs::write(&broken, "").expect("a file");
    let output = app.cli(&["reload"]);
    let told = output.stdout + &output.stderr;
    assert_ne!(output.code, 0, "{told}");
    assert!(told.contains("the new version is broken"), "{told}");
    app.wait_for_log("pool p: the new version can't start; the old version keeps running");
    for _ in 0..5 {
        assert_eq!(zygote(&mut client), old);
    }
    std::fs::remove_file(&broken).expect("it is there");
    assert_eq!(app.cli(&["reload"]).code, 0);
    assert_ne!(zygote(&mut client), old, "it is repaired");
    stop(app);
}

pub(super) fn reload(kind: Kind) {
    let app = kind.pool("boots.php", "workers = 2").start();
    let mut client = app.client();
    let old = zygote(&mut client);
    let output = app.cli(&["reload"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_ne!(zygote(&mut client), old);
    assert!(procs::wait_for_exit(old, 5.0));
    app.wait_for_log("p-zygote has ended");
    assert_eq!(app.pool()["restarts"], 0);
    stop(app);
}

pub(super) fn new_server(kind: Kind) {
    let app = kind.pool("boots.php", "workers = 2").start();
    let old = zygote(&mut app.client());
    let server = app.server();
    procs::signal(server, Signal::KILL);
    assert!(procs::wait_for_exit(server, 5.0));
    app.ready();
    assert_ne!(zygote(&mut app.client()), old);
    assert!(!procs::is_alive(old));
    stop(app);
}

pub(super) fn failing_hook(kind: Kind) {
    let app = kind.pool("hook-fails.php", "workers = 1").launch();
    app.wait_for_log("p-1 did not become ready (exit code 255)*cannot reconnect");
    stop(app);
}

pub(super) fn failing_warm_up(kind: Kind) {
    let app = kind.pool("before-fork-fails.php", "workers = 1").launch();
    app.wait_for_log("its zygote ended with exit code 255: *there is nothing to warm up");
    stop(app);
}

pub(super) fn hooks(kind: Kind) {
    let app = kind.pool("hooks.php", "workers = 2").start();
    let answers: Vec<String> = (0..3).map(|_| app.call("t.run", "act").text()).collect();
    assert_eq!(answers, ["warm 1, connected"; 3]);
    app.wait_for_log("p-zygote*stdout: warming up");
    app.wait_for_log("p-1[*stdout: connected");
    assert_eq!(app.log().matches("warming up").count(), 1);
    stop(app);
}

/// A task has the application boot again.
pub(super) fn reboot(kind: Kind) {
    let app = kind.pool("reboots.php", "workers = 1").start();
    let old = app.call("t.reboot", "").text();
    app.wait_for_log("p-zygote has ended (exit code 0)");
    // A process that was forked before may serve the next call.
    until("a new zygote", || {
        (app.call("t.run", "").text() != old).then_some(())
    });
    assert!(!app.log().contains("failed start"), "{}", app.log());
    assert_eq!(app.pool()["restarts"], 0);
    stop(app);
}

pub(super) fn list(kind: Kind) {
    let zygotes = |app: &App| app.state()["zygotes"].as_array().cloned();
    let app = kind.pool("boot-hangs.php", "workers = 1").launch();
    let starting = until("the zygote is listed", || zygotes(&app)?.first().cloned());
    assert_eq!(starting["state"], "starting", "{starting}");
    stop(app);
    let app = kind.pool("boots.php", "workers = 2").start();
    let pid = zygote(&mut app.client());
    let listed = zygotes(&app).expect("there is one");
    assert_eq!(listed.len(), 1, "{listed:?}");
    let ready = &listed[0];
    assert_eq!(
        (&ready["id"], &ready["pool"]),
        (&json!("p-zygote"), &json!("p"))
    );
    assert_eq!(
        (&ready["version"], &ready["state"]),
        (&json!(1), &json!("ready"))
    );
    assert_eq!(ready["pid"], pid);
    // Without its workers: their memory would count twice.
    let resident = procs::resident_kib(pid) << 10;
    assert_eq!(ready["rss_bytes"], resident);
    let shown = app.cli(&["workers"]).stdout;
    let line = format!("p-zygote  {pid}");
    assert!(
        shown.lines().any(|shown| shown.starts_with(&line)),
        "{shown}"
    );
    assert_eq!(app.cli(&["reload"]).code, 0);
    let versions = || {
        let all = zygotes(&app)?;
        Some(
            all.iter()
                .filter_map(|zygote| zygote["version"].as_u64())
                .collect::<Vec<_>>(),
        )
    };
    until("only the new one is left", || {
        (versions()? == [2]).then_some(())
    });
    stop(app);
}

/// Jobs that are pushed while zygotes and workers are killed.
pub(super) fn kills(kind: Kind) {
    const JOBS: usize = 200;
    let keys = "workers = 3\ncrash_budget = 80";
    let app = kind.pool("boots.php", keys).start();
    let mut client = app.client();
    for round in 0..10 {
        for number in 0..JOBS / 10 {
            client.push(&Request::push("q", number.to_string()));
        }
        let answer = client.call("t.run", "who");
        // The worker of this call may be the one that the last round has killed.
        if let Ok(Value::Object(who)) = serde_json::from_str(&answer.text()) {
            procs::kill(who["booted"].as_i64().expect("a pid") as i32);
        }
        let pids = app.pids();
        if let Some(pid) = pids.get(round % pids.len().max(1)).filter(|pid| **pid > 0) {
            procs::kill(*pid);
        }
    }
    until("all jobs are done", || {
        (client.queue("q")["done"] == JOBS).then_some(())
    });
    app.ready();
    stop(app);
}

/// A server with another pool, whose log nobody reads yet.
fn start_with_blocked_log(kind: Kind) -> (App, File) {
    let other = pool_of("calls other.run;serve", "workers = 1").replace("[pool.p]", "[pool.other]");
    let config = kind.config("boot-floods.php", "workers = 1");
    let setup = setup().config(&format!("{config}{other}[log]\nfile = \"sink\"\n"));
    let sink = setup.dir().gate("sink").reader();
    (setup.launch(), File::from(sink))
}

fn read_log(mut sink: File) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut all = Vec::new();
        sink.read_to_end(&mut all).expect("it can be read");
        String::from_utf8_lossy(&all).into_owned()
    })
}

/// The zygote, which waits until its output is read.
fn blocked_zygote(app: &App) -> i32 {
    until("the zygote waits for its log", || {
        let mut all = procs::tree(app.angel()).into_iter();
        all.find(|pid| {
            procs::command(*pid).contains("boot-floods.php") && procs::is_blocked_writer(*pid)
        })
    })
}

/// A zygote that writes more than the log takes waits for it. Others do not.
pub(super) fn blocked_log(kind: Kind) {
    let (app, sink) = start_with_blocked_log(kind);
    blocked_zygote(&app);
    assert_eq!(app.call("other.run", "ok served").text(), "served");
    let log = read_log(sink);
    app.ready();
    assert_eq!(app.call("t.run", "it").text(), "done: it");
    stop(app);
    let log = log.join().expect("it reads to the end");
    let lines = log.lines().filter(|line| line.contains("stderr: 0000"));
    assert_eq!(lines.count(), 20_000, "nothing is lost");
}

/// What a zygote has written last is read although the log is behind.
pub(super) fn death_behind_a_blocked_log(kind: Kind) {
    let (app, sink) = start_with_blocked_log(kind);
    procs::kill(blocked_zygote(&app));
    let failed = until("the failed start is known", || {
        let pools = app.state()["pools"].as_array()?.clone();
        let mut failed = pools.iter().filter_map(|pool| pool["failed_boot"].as_str());
        failed.next().map(str::to_owned)
    });
    assert!(
        failed.contains("its zygote ended with signal 9"),
        "{failed}"
    );
    assert!(
        failed.contains(": 0000"),
        "its last words are known: {failed}"
    );
    assert_eq!(app.call("other.run", "ok served").text(), "served");
    let log = read_log(sink);
    app.ready();
    assert_eq!(app.call("t.run", "it").text(), "done: it");
    stop(app);
    let log = log.join().expect("it reads to the end");
    assert!(log.contains("did not become ready"), "{log:.1000}");
}

pub(super) fn check_of_a_failed_boot(kind: Kind) {
    let dir = Dir::new();
    dir.write("stoker.toml", kind.config("boot-fails.php", ""));
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker")).args(&["check", "--fork"]);
    let fails = run(spawn.within(dir.path()));
    assert_eq!(fails.code, 1, "{}", fails.stdout);
    let told = "stoker: pool.p: the zygote did not become ready: it exited with code 255: booting";
    assert!(fails.stderr.starts_with(told), "{}", fails.stderr);
    assert!(
        fails.stderr.contains("there is no database"),
        "{}",
        fails.stderr
    );
}
