//! Paths in a configuration are relative to its file.

use crate::{pool_of, setup};
use stoker_testkit::{Spawn, run};

#[test]
fn paths_are_relative_to_the_directory_of_the_configuration() {
    let toml = pool_of(
        "serve",
        "workers = 1\n[stoker]\nsocket = \"../stoker.sock\"\n[log]\nfile = \"own.log\"",
    );
    let setup = setup();
    std::fs::create_dir(setup.dir().file("app")).expect("a directory can be made");
    setup.dir().write("app/stoker.toml", toml);
    let app = setup.serve(&["-c", "app/stoker.toml"]).start();
    assert_eq!(app.call("t.run", "note here;stdout logged").text(), "done");
    let notes = std::fs::read_to_string(app.dir.file("app/notes"));
    assert_eq!(
        notes.ok().as_deref(),
        Some("here\n"),
        "workers run beside the file"
    );
    let ended = app.stop();
    let log =
        std::fs::read_to_string(ended.dir.file("app/own.log")).expect("the log stands beside it");
    assert!(log.contains("stdout t.run#1: logged"), "{log}");
}

#[test]
fn the_socket_in_the_environment_is_relative_to_the_current_directory() {
    let setup = setup().config(&pool_of(
        "serve",
        "workers = 1\n[stoker]\nsocket = \"other.sock\"",
    ));
    let app = setup.env("STOKER_SOCKET", "stoker.sock").start();
    assert!(!app.dir.file("other.sock").exists());
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", app.pids()[0]));
    let socket = format!("STOKER_SOCKET={}\0", app.socket().display());
    assert!(
        environment.expect("it lives").contains(&socket),
        "workers get it absolute"
    );
}

#[test]
fn an_unwritable_log_file_is_a_configuration_error() {
    let dir = stoker_testkit::Dir::new();
    dir.write(
        "stoker.toml",
        pool_of("serve", "workers = 1\n[log]\nfile = \"no/such/place.log\""),
    );
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"))
        .args(&["serve"])
        .within(dir.path());
    let output = run(spawn);
    assert_eq!(output.code, 78, "{}", output.stderr);
    assert!(
        output.stderr.contains("log.file: its directory")
            && output.stderr.contains("/no/such does not exist"),
        "{}",
        output.stderr
    );
    assert!(!dir.file("stoker.sock").exists());
}
