//! Deploys that create a new directory for each release and point a symlink to it (issue 9, A24).

use crate::{pool_of, setup};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use stoker_testkit::{App, Client, Dir, Output, Request, Setup, Spawn, procs, run, until};

/// Socket and store in places that all releases share.
const SHARED: &str = "workers = 1\n[stoker]\nsocket = \"../../stoker.sock\"\n[store]\npath = \"../../shared/jobs.db\"";
/// The store beside the configuration, which is the default.
const OWN_STORE: &str = "workers = 1\n[stoker]\nsocket = \"../../stoker.sock\"";

/// Two releases with this configuration; the first is the current one.
fn releases(rest: &str) -> Setup {
    let setup = setup();
    let dir = setup.dir();
    fs::create_dir(dir.file("shared")).expect("it is new");
    for release in ["1", "2"] {
        fs::create_dir_all(dir.file("releases").join(release)).expect("it is new");
        dir.write(
            &format!("releases/{release}/stoker.toml"),
            pool_of("serve", rest),
        );
    }
    switch(dir, "releases/1");
    setup.serve(&["-c", "current/stoker.toml"])
}

/// Points `current` to a release, as deploy tools do: the link exists at every moment.
fn switch(dir: &Dir, release: &str) {
    symlink(release, dir.file("next")).expect("it is new");
    fs::rename(dir.file("next"), dir.file("current")).expect("it can be renamed");
}

fn stoker(dir: &Path, args: &[&str]) -> Output {
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
    run(spawn.args(args).within(dir))
}

/// The release directory in which a worker runs.
fn release_of_worker(app: &App) -> PathBuf {
    let pid = app.pids()[0];
    fs::read_link(format!("/proc/{pid}/cwd")).expect("it lives")
}

fn kill_server(app: &App) {
    procs::kill(app.server());
    app.wait_for_log("*the server was restarted*");
    app.ready();
}

fn count(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

const WARNING: &str = "lies in a release directory";

#[test]
fn a_store_inside_a_release_is_warned_about_once() {
    let app = releases(OWN_STORE).start();
    let store = app.dir.file("releases/1/stoker.db");
    let shared = app.dir.file("shared/stoker.db");
    let line = app.wait_for_log(&format!(
        "* warn the job store {} {WARNING}*",
        store.display()
    ));
    let advice = format!("[store] path = {:?}", shared.display().to_string());
    assert!(line.contains(&advice), "{line}");
    kill_server(&app);
    assert_eq!(count(&app.log(), WARNING), 1, "{}", app.log());
    let check = app.cli(&["check", "current/stoker.toml"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert_eq!(count(&check.stdout, WARNING), 1, "{}", check.stdout);
    let check = app.cli(&["check", "current/stoker.toml", "--json"]);
    let json: Value = serde_json::from_str(&check.stdout).expect("JSON");
    assert!(json["warnings"].to_string().contains(WARNING), "{json}");
}

/// Whether `check` warns about a store in a layout of directories.
#[track_caller]
fn is_warned(layout: impl FnOnce(&Dir), config: &str, store: &str) -> bool {
    let dir = Dir::new();
    layout(&dir);
    let path = dir.file(config);
    let toml = format!("[pool.p]\nworkers = 1\n[store]\npath = {store:?}\n");
    fs::write(path, toml).expect("it can be written");
    let output = stoker(dir.path(), &["check", config]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.stdout.contains(WARNING)
}

fn make(dir: &Dir, directories: &[&str]) {
    let make = |directory: &&str| fs::create_dir_all(dir.file(directory)).expect("it is new");
    directories.iter().for_each(make);
}

#[test]
fn stores_inside_releases_are_distinguished_from_others() {
    for release in ["1", "20261122123500", "2026-11-22_12.35", "v3", "3f2a9c1"] {
        let release = format!("releases/{release}");
        let config = format!("{release}/stoker.toml");
        let layout = |dir: &Dir| make(dir, &[&release]);
        assert!(is_warned(layout, &config, "stoker.db"), "{release}");
    }
    let linked = |link: &'static str, target: &'static str| {
        move |dir: &Dir| {
            make(dir, &["app", "shared", "builds/red"]);
            symlink(target, dir.file(link)).expect("it is new");
        }
    };
    let there = linked("live", "builds/red");
    assert!(is_warned(there, "live/stoker.toml", "stoker.db"));
    let elsewhere = linked("app/current", "../builds/red");
    assert!(is_warned(elsewhere, "app/current/stoker.toml", "stoker.db"));

    let there = linked("live", "builds/red");
    assert!(!is_warned(
        there,
        "live/stoker.toml",
        "../../shared/stoker.db"
    ));
    // A link to another place is a way to move directories, not to switch releases.
    let moved = linked("app/data", "../builds/red");
    assert!(!is_warned(moved, "app/data/stoker.toml", "stoker.db"));
    let plain = |dir: &Dir| make(dir, &["releases/notes"]);
    assert!(!is_warned(plain, "releases/notes/stoker.toml", "stoker.db"));
    let shared = |dir: &Dir| {
        make(dir, &["releases/1", "shared"]);
        symlink("../../shared/jobs.db", dir.file("releases/1/jobs.db")).expect("it is new");
        symlink("../../shared", dir.file("releases/1/storage")).expect("it is new");
        symlink("releases/1", dir.file("current")).expect("it is new");
    };
    for store in ["jobs.db", "storage/jobs.db", "../../shared/jobs.db"] {
        assert!(!is_warned(shared, "current/stoker.toml", store), "{store}");
    }
}

#[test]
fn no_new_store_is_created_while_another_stoker_runs_with_the_same_configuration() {
    let app = releases(OWN_STORE).start();
    let id = app.client().push(&Request::push("mails", "ok"));
    switch(&app.dir, "releases/2");
    let second = [
        "serve",
        "-c",
        "current/stoker.toml",
        "--socket",
        "second.sock",
    ];
    let refused = stoker(app.dir.path(), &second);
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    let (pid, socket) = (app.angel(), app.socket());
    let (store, config) = (
        app.dir.file("releases/2/stoker.db"),
        app.dir.file("current/stoker.toml"),
    );
    for part in [
        format!("refusing to create a new job store {}", store.display()),
        format!("pid {pid}"),
        format!("stoker reload --socket {}", socket.display()),
        config.display().to_string(),
        app.dir.file("shared/stoker.db").display().to_string(),
    ] {
        assert!(refused.stderr.contains(&part), "{part}: {}", refused.stderr);
    }
    // The link also counts if a shell has entered the directory through it.
    let current = app.dir.file("current");
    let inside = Spawn::new(env!("CARGO_BIN_EXE_stoker")).within(&current);
    let inside = inside
        .args(&["serve", "--socket", "../../second.sock"])
        .env("PWD", &current);
    assert_eq!(run(inside).code, 78);
    assert!(!store.exists() && !app.dir.file("second.sock").exists());
    app.client().job_in(&id, "done");
    // The error names the socket that the running Stoker listens on.
    let lost = stoker(&app.dir.file("current"), &["reload"]);
    let told = format!("(pid {pid}) listens on {}", socket.display());
    assert!(lost.code == 69 && lost.stderr.contains(&told), "{lost:?}");
    // The record of a Stoker that was killed does not count.
    procs::kill(app.angel());
    let dir = app.dir.clone();
    assert_eq!(app.wait_for_exit().code, 137);
    let first = dir.path().to_owned();
    let mut next = Spawn::new(env!("CARGO_BIN_EXE_stoker"))
        .args(&second)
        .within(&first)
        .stderr(fs::File::create(dir.file("next.log")).expect("a file"))
        .start();
    until("it serves", || {
        Client::try_connect_to(&dir.file("second.sock"))
    });
    assert!(store.exists());
    procs::signal(next.id() as i32, rustix::process::Signal::TERM);
    assert!(next.wait().expect("it is ours").success());
}

/// Runs another Stoker until it serves, and ends it.
fn serves(dir: &Dir, args: &[&str]) {
    let log = fs::File::create(dir.file("other.log")).expect("a file");
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker")).args(&["serve", "--socket", "other.sock"]);
    let mut other = spawn.args(args).within(dir.path()).stderr(log).start();
    until("it serves", || {
        Client::try_connect_to(&dir.file("other.sock"))
    });
    procs::signal(other.id() as i32, rustix::process::Signal::TERM);
    assert!(other.wait().expect("it is ours").success());
}

#[test]
fn a_second_stoker_with_its_own_store_is_allowed() {
    let app = releases(OWN_STORE).start();
    // Another name of the file is another configuration.
    serves(&app.dir, &["-c", "releases/2/stoker.toml"]);
    switch(&app.dir, "releases/2");
    // The store exists by now.
    assert!(app.dir.file("releases/2/stoker.db").exists());
    serves(&app.dir, &["-c", "current/stoker.toml"]);
    // A store in memory creates no file.
    fs::remove_file(app.dir.file("releases/2/stoker.db")).expect("it is there");
    let memory = format!("{OWN_STORE}\n[store]\ndriver = \"memory\"");
    app.dir
        .write("releases/2/stoker.toml", pool_of("serve", memory));
    serves(&app.dir, &["-c", "current/stoker.toml"]);
}

#[test]
fn stokers_with_different_root_directories_are_independent() {
    let probe = Spawn::new("/bin/sh").args(&["-c", "unshare -m true 2>/dev/null"]);
    if run(probe).code != 0 {
        println!("left out: this user may not have a mount namespace of its own");
        return;
    }
    let app = releases(OWN_STORE).start();
    switch(&app.dir, "releases/2");
    make(&app.dir, &["elsewhere/releases/1"]);
    let toml = app.dir.file("releases/2/stoker.toml");
    fs::copy(toml, app.dir.file("elsewhere/releases/1/stoker.toml")).expect("it can be copied");
    symlink("releases/1", app.dir.file("elsewhere/current")).expect("it is new");
    // In this mount namespace the same path leads to another deployment.
    let script =
        "mount --bind elsewhere . && cd \"$PWD\" && exec \"$0\" serve -c current/stoker.toml";
    let log = fs::File::create(app.dir.file("other.log")).expect("a file");
    let mut other = Spawn::new("unshare")
        .args(&["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_stoker")])
        .within(app.dir.path())
        .stderr(log)
        .start();
    until("it serves", || {
        Client::try_connect_to(&app.dir.file("elsewhere/stoker.sock"))
    });
    assert!(app.dir.file("elsewhere/releases/1/stoker.db").exists());
    procs::signal(other.id() as i32, rustix::process::Signal::TERM);
    assert!(other.wait().expect("it is ours").success());
}

#[test]
fn running_stokers_are_recorded_per_user() {
    let app = releases(OWN_STORE).start();
    let uid = rustix::process::geteuid();
    let place = if uid.is_root() { "/run" } else { "/tmp" };
    let directory = PathBuf::from(format!("{place}/stoker-{}", uid.as_raw()));
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&directory), 0o700);
    let config = app.dir.file("current/stoker.toml").display().to_string();
    let records = || {
        let entries = fs::read_dir(&directory).expect("it is there").flatten();
        let paths = entries.map(|entry| entry.path());
        let is_meant =
            |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(&config));
        paths.filter(is_meant).collect::<Vec<PathBuf>>()
    };
    let [record] = &records()[..] else {
        panic!("one record, not {:?}", records());
    };
    assert_eq!(mode(record), 0o600);
    app.stop();
    assert!(records().is_empty(), "it is removed at the end");
}

#[test]
fn a_restarted_server_runs_the_remaining_release() {
    let app = releases(SHARED).start();
    let first = app.dir.file("releases/1");
    assert_eq!(release_of_worker(&app), first);
    let held = app.client().push(&Request::push("mails", "fail 64 no"));
    app.client().job_in(&held, "failed");
    switch(&app.dir, "releases/2");
    assert_eq!(app.cli(&["reload"]).code, 0);
    fs::remove_dir_all(&first).expect("it is there");
    kill_server(&app);
    assert_eq!(release_of_worker(&app), app.dir.file("releases/2"));
    assert_eq!(
        app.client().job(&held)["state"],
        "failed",
        "in the same store"
    );
    let id = app.client().push(&Request::push("mails", "ok"));
    app.client().job_in(&id, "done");
}

#[test]
fn a_reload_works_after_the_old_release_was_removed() {
    let app = releases(SHARED).start();
    switch(&app.dir, "releases/2");
    fs::remove_dir_all(app.dir.file("releases/1")).expect("it is there");
    kill_server(&app);
    assert_eq!(release_of_worker(&app), app.dir.file("releases/2"));
    // The same without a crash of the server.
    make(&app.dir, &["releases/3"]);
    let toml = app.dir.file("releases/2/stoker.toml");
    fs::copy(toml, app.dir.file("releases/3/stoker.toml")).expect("it can be copied");
    switch(&app.dir, "releases/3");
    fs::remove_dir_all(app.dir.file("releases/2")).expect("it is there");
    procs::kill(app.pids()[0]);
    app.wait_for_log("*p-2 is ready*");
    assert_eq!(release_of_worker(&app), app.dir.file("releases/3"));
}

#[test]
fn a_shared_store_survives_the_removal_of_a_release() {
    let by_link = SHARED
        .replace("../../shared/jobs.db", "storage/jobs.db")
        .replace("../../stoker.sock", "storage/s");
    for rest in [SHARED, &by_link] {
        let setup = releases(rest);
        if rest == by_link {
            symlink("shared/s", setup.dir().file("stoker.sock")).expect("it is new");
        }
        for release in ["1", "2"] {
            let link = format!("releases/{release}/storage");
            symlink("../../shared", setup.dir().file(&link)).expect("it is new");
        }
        let app = setup.start();
        switch(&app.dir, "releases/2");
        assert_eq!(app.cli(&["reload"]).code, 0);
        fs::remove_dir_all(app.dir.file("releases/1")).expect("it is there");
        let id = app.client().push(&Request::push("mails", "ok"));
        app.client().job_in(&id, "done");
        kill_server(&app);
        app.client().job_in(&id, "done");
        let log = app.log();
        assert_eq!(count(&log, WARNING) + count(&log, "the socket"), 0, "{log}");
        let id = app.client().push(&Request::push("mails", "ok"));
        app.client().job_in(&id, "done");
    }
}

#[test]
fn a_store_removed_with_its_release_is_not_replaced_by_an_empty_one() {
    let app = releases(OWN_STORE).start();
    switch(&app.dir, "releases/2");
    fs::remove_dir_all(app.dir.file("releases/1")).expect("it is there");
    procs::kill(app.server());
    app.wait_for_log(
        "*the job store */releases/1/stoker.db and its directory no longer exist: if it*",
    );
    let ended = app.stop();
    assert_eq!(ended.code, 1, "{}", ended.log);
    assert!(!ended.dir.file("releases/2/stoker.db").exists());
}

#[test]
fn a_socket_beside_the_configuration_follows_the_current_release() {
    let rest = "workers = 1\n[store]\npath = \"../../shared/jobs.db\"\n[log]\nfile = \"storage/stoker.log\"";
    let setup = releases(rest);
    for release in ["1", "2"] {
        let link = format!("releases/{release}/storage");
        symlink("../../shared", setup.dir().file(&link)).expect("it is new");
    }
    let app = setup.launch_without_waiting();
    let dir = app.dir.clone();
    let (first, second) = (
        dir.file("releases/1/stoker.sock"),
        dir.file("releases/2/stoker.sock"),
    );
    until("it serves", || Client::try_connect_to(&first));
    switch(&dir, "releases/2");
    until("it serves there", || Client::try_connect_to(&second));
    let reloaded = stoker(&dir.file("current"), &["reload"]);
    assert_eq!(
        (reloaded.code, &*reloaded.stdout),
        (0, "p runs version 2\n")
    );
    fs::remove_dir_all(dir.file("releases/1")).expect("it is there");
    let workers = stoker(&dir.file("current"), &["workers", "--json"]);
    let workers: Value = serde_json::from_str(&workers.stdout).expect("JSON");
    let pid = &workers["workers"][0]["pid"];
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).expect("it lives");
    let socket = environment
        .split('\0')
        .find_map(|pair| pair.strip_prefix("STOKER_SOCKET="));
    let socket = socket.expect("workers have STOKER_SOCKET");
    assert!(
        Client::try_connect_to(Path::new(socket)).is_some(),
        "{socket}"
    );
    // The log follows the link too, when it is reopened.
    fs::rename(dir.file("shared/stoker.log"), dir.file("shared/old.log")).expect("it is there");
    procs::signal(app.angel(), rustix::process::Signal::USR1);
    until("the log is made anew", || {
        dir.file("shared/stoker.log").exists().then_some(())
    });
}
