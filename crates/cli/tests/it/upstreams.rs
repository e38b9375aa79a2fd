//! Pools that pass HTTP requests on to a server (`strategy = "fastcgi"`, `"http"`), and pools of CGI programs.

use crate::setup;
use serde_json::json;
use stoker_testkit::{App, Dir, procs, until};

/// A server that accepts connections at a socket, which it replaces.
const SERVER: &str = "import os, socket, sys; place = sys.argv[1]; os.path.exists(place) and os.unlink(place); \
    s = socket.socket(socket.AF_UNIX); s.bind(place); s.listen(); [s.accept() for _ in range(100000)]";

/// A pool whose server has a socket of this name, in a folder of its own because the configuration names it.
fn config(strategy: &str, dir: &Dir, name: &str) -> String {
    let socket = dir.file(name).to_string_lossy().into_owned();
    format!(
        "[pool.p]\ncommand = [\"python3\", \"-c\", {SERVER:?}, \"{{address}}\"]\nstrategy = {strategy:?}\naddress = {socket:?}\nworkers = 3\n"
    )
}

/// The pids of the adapter and of the server that it has started.
fn processes(app: &App) -> (i32, i32) {
    let pid = app.workers()[0]["pid"].as_i64().expect("a pid") as i32;
    (pid, procs::children(pid)[0])
}

#[test]
fn the_adapter_starts_the_server_and_stops_it() {
    for strategy in ["fastcgi", "http"] {
        let dir = Dir::new();
        let app = setup().config(&config(strategy, &dir, "up.sock")).launch();
        app.wait_for_log("p-1 is ready (pid ");
        assert_eq!(app.workers()[0]["slots"], 3);
        let (_, server) = processes(&app);
        app.stop();
        assert!(!procs::is_alive(server));
    }
}

/// An adapter that is killed can't stop its server: the angel does.
#[test]
fn the_server_of_a_killed_adapter_is_killed() {
    let dir = Dir::new();
    let app = setup().config(&config("http", &dir, "up.sock")).launch();
    app.wait_for_log("p-1 is ready (pid ");
    let (adapter, server) = processes(&app);
    procs::kill(adapter);
    until("the server has ended", || {
        (!procs::is_alive(server)).then_some(())
    });
    app.wait_for_log("p-2 is ready (pid ");
}

/// With addresses of their own, the new server accepts connections before the old one is stopped. With the same address it is
/// started afterwards.
#[test]
fn a_reload_replaces_the_server() {
    for name in ["up-{worker}.sock", "up.sock"] {
        let dir = Dir::new();
        let app = setup().config(&config("http", &dir, name)).launch();
        app.wait_for_log("p-1 is ready (pid ");
        let (_, old) = processes(&app);
        let reload = json!({"op": "reload"});
        app.client().call_server("stoker.pool", &reload);
        assert!(!procs::is_alive(old));
        let socket = name.replace("{worker}", "p-2");
        until("the new server has started", || {
            let workers = app.workers();
            assert_eq!(workers.len(), 1, "{workers:?}");
            assert_eq!(workers[0]["id"], "p-2", "{workers:?}");
            let children = procs::children(workers[0]["pid"].as_i64()? as i32);
            // Until it has executed the server, the process has the command line of the adapter.
            let command = procs::command(*children.first()?);
            command.contains(&socket).then_some(())
        });
    }
}

#[test]
fn a_server_that_does_not_start_is_a_failed_boot() {
    let config = "[pool.p]\ncommand = [\"sh\", \"-c\", \"exit 3\"]\nstrategy = \"http\"\naddress = \"./up.sock\"\n";
    let app = setup().config(config).launch();
    app.wait_for_log("sh exited with code 3 before it accepted connections at */up.sock");
    until("the boot has failed", || {
        app.pool()["failed_boot"].as_str().map(drop)
    });
}

/// The server gets the absolute path of its socket, because it may work in another directory.
#[test]
fn a_relative_address_is_relative_to_the_directory_of_the_pool() {
    let script = format!("cd / && exec python3 -c '{SERVER}' \"$STOKER_ADDRESS\"");
    let config = format!(
        "[pool.p]\ncommand = [\"sh\", \"-c\", {script:?}]\nstrategy = \"http\"\naddress = \"up.sock\"\n"
    );
    let app = setup().config(&config).launch();
    app.wait_for_log("p-1 is ready (pid ");
    assert!(app.dir.file("up.sock").exists());
}

/// Without a command the server runs elsewhere.
#[test]
fn a_pool_without_a_command_waits_for_the_server() {
    let dir = Dir::new();
    let socket = dir.file("up.sock");
    let config = format!("[pool.p]\nstrategy = \"fastcgi\"\naddress = {socket:?}\nworkers = 1\n");
    let app = setup().config(&config).launch();
    assert_eq!(app.pool()["ready"], 0);
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    app.wait_for_log("p-1 is ready (pid ");
    drop(listener.accept().unwrap());
}
