//! The socket's file: removed, replaced, or reached through a changed link. Issue 9, A17.

use crate::{pool_of, setup, start};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;
use stoker_testkit::{App, limit, procs, until};
use stoker_wire::Status;

/// Waits until a process listens on a path.
#[track_caller]
fn is_reachable(path: &Path) {
    until("somebody listens there", || UnixStream::connect(path).ok());
}

/// A pool, with the socket in this directory.
#[track_caller]
fn start_below(directory: &str) -> App {
    let rest = format!("workers = 1\n[stoker]\nsocket = \"{directory}/s\"");
    let setup = setup().config(&pool_of("serve", rest));
    fs::create_dir(setup.dir().file("run")).expect("it is new");
    setup.launch_without_waiting()
}

#[test]
fn a_removed_socket_is_recreated_within_a_second() {
    let app = start("workers = 1\n[stoker]\nsocket_mode = \"0606\"");
    let workers = app.pids();
    let mut old = app.client();
    for round in 1..=3 {
        let from = app.log().len();
        let began = Instant::now();
        fs::remove_file(app.socket()).expect("it is there");
        is_reachable(&app.socket());
        assert!(
            began.elapsed() < limit(3.0),
            "{round}: {:?}",
            began.elapsed()
        );
        app.wait_for_log_after(
            from,
            "the socket file *stoker.sock was removed and was created again",
        );
    }
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    old.fence();
    assert_eq!(app.pids(), workers, "nothing else has happened");
    let mode = fs::metadata(app.socket())
        .expect("it is there")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o606);
    let (path, ended) = (app.socket(), app.stop());
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!path.exists(), "the new one goes as the first would have");
}

#[test]
fn a_removed_socket_is_recreated_while_the_server_restarts() {
    let app = start("workers = 1");
    procs::kill(app.server());
    fs::remove_file(app.socket()).expect("it is there");
    is_reachable(&app.socket());
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    app.wait_for_log("the server was restarted");
}

#[test]
fn a_socket_that_was_moved_away_is_recreated() {
    let app = start("workers = 1");
    fs::rename(app.socket(), app.dir.file("elsewhere")).expect("it is there");
    is_reachable(&app.socket());
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn a_foreign_file_at_the_socket_path_stays_until_it_is_removed() {
    let app = start("workers = 1");
    let mut client = app.client();
    let file = app.dir.write("file", "somebody's");
    fs::rename(file, app.socket()).expect("it replaces the socket");
    app.wait_for_log("stoker.sock is no longer this server's socket");
    client.fence();
    let text = fs::read_to_string(app.socket());
    assert_eq!(text.ok().as_deref(), Some("somebody's"));
    fs::remove_file(app.socket()).expect("it is there");
    is_reachable(&app.socket());
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn the_socket_of_another_process_is_neither_used_nor_removed() {
    let app = start("workers = 1");
    let path = app.dir.file("other");
    let other = UnixListener::bind(&path).expect("it can be bound");
    fs::rename(&path, app.socket()).expect("it replaces the socket");
    app.wait_for_log("stoker.sock is no longer this server's socket");
    let (path, ended) = (app.socket(), app.stop());
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(path.exists());
    drop(other);
}

#[test]
fn the_socket_is_recreated_when_its_directory_returns() {
    let app = start_below("run");
    let (directory, path) = (app.dir.file("run"), app.dir.file("run/s"));
    is_reachable(&path);
    fs::remove_dir_all(&directory).expect("it is there");
    app.wait_for_log(
        "the socket's file was removed, and clients can't reach this server: *No such file",
    );
    fs::create_dir(&directory).expect("it is gone");
    is_reachable(&path);
    fs::rename(&directory, app.dir.file("run.old")).expect("it is there");
    fs::create_dir(&directory).expect("it is gone");
    is_reachable(&path);
}

#[test]
fn the_socket_follows_a_changed_symlink() {
    let rest = "workers = 1\n[stoker]\nsocket = \"current/s\"";
    let setup = setup().config(&pool_of("serve", rest));
    let dir = setup.dir().path().to_owned();
    for release in ["one", "two"] {
        fs::create_dir(dir.join(release)).expect("it is new");
    }
    symlink("one", dir.join("current")).expect("it is new");
    let app = setup.launch_without_waiting();
    is_reachable(&dir.join("one/s"));
    // As deploy tools do it: the link exists at every moment.
    symlink("two", dir.join("next")).expect("it is new");
    fs::rename(dir.join("next"), dir.join("current")).expect("it can be renamed");
    is_reachable(&dir.join("two/s"));
    app.wait_for_log("the socket file *current/s was removed and was created again");
}

// Issue 9, A26
#[test]
fn log_lines_about_the_socket_have_fields() {
    let app = start("workers = 1\n[log]\nformat = \"json\"");
    let line = |event: &str| {
        until("it is logged", || {
            let lines = app.log();
            let lines = lines
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut lines = lines.filter(|line| line["event"] == event);
            lines.next_back()
        })
    };
    fs::remove_file(app.socket()).expect("it is there");
    let renewed = line("socket");
    assert_eq!(renewed["path"], app.socket().display().to_string());
    assert_eq!(renewed["reason"], "the file was removed");
    let foreign = app.dir.file("foreign");
    fs::write(&foreign, "").expect("there is room");
    fs::rename(&foreign, app.socket()).expect("both are in one directory");
    let lost = line("socket_lost");
    assert_eq!(lost["path"], app.socket().display().to_string());
    assert_eq!(lost["reason"], "another file was put in its place");
}
