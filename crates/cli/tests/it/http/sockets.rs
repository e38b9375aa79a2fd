//! Sockets that systemd passes to Stoker.

use super::config;
use crate::setup;
use rustix::fd::OwnedFd;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use stoker_testkit::{App, Http, Setup, procs};

/// Passes the first socket of a unit as systemd does.
const PASS: &str = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1";

fn passing(setup: Setup, socket: OwnedFd) -> Setup {
    setup.after(PASS).stdin(socket)
}

#[track_caller]
fn is_served(app: &App) {
    assert_eq!(
        app.http()
            .request("GET", "/ready", &[], "")
            .expect("an answer")
            .status,
        200
    );
}

#[test]
fn a_systemd_socket_refuses_no_connection_during_a_restart() {
    let first = setup();
    let path = first.dir().file("http.sock");
    let listener = UnixListener::bind(&path).expect("it can be bound");
    let fd: OwnedFd = listener.into();
    let copy = fd.try_clone().expect("a descriptor");
    let app = passing(first.config(&config("")), copy).start();
    is_served(&app);
    procs::kill(app.angel());
    let dir = app.dir.clone();
    assert_ne!(app.wait_for_exit().code, 0);
    assert!(path.exists(), "it is not Stoker's to remove");
    // No Stoker runs now, and the client waits.
    let mut waiting = Http::unix(&path).expect("nothing is refused");
    waiting.send("GET", "/health", &[], "").expect("it is sent");
    let second = setup()
        .config(&config(&format!("socket = {path:?}")).replace("socket = \"http.sock\"\n", ""));
    let app = passing(second, fd).start();
    assert_eq!(waiting.answer().expect("an answer").status, 200);
    drop((app, dir));
}

#[test]
fn systemd_can_pass_a_tcp_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    let setup = setup().config(&config(&format!("listen = [\"{address}\"]")));
    let app = passing(setup, listener.into()).start();
    assert_eq!(app.http_address(), address);
    let mut http = Http::tcp(address, None).expect("it is listened on");
    assert_eq!(
        http.request("GET", "/ready", &[], "")
            .expect("an answer")
            .status,
        200
    );
}

#[test]
fn systemd_can_pass_stokers_own_socket() {
    let setup = setup();
    let path = setup.dir().file("stoker.sock");
    let listener = UnixListener::bind(&path).expect("it can be bound");
    let app = passing(setup.config(&config("")), listener.into()).start();
    is_served(&app);
    assert_eq!(app.stop().code, 0);
}

#[test]
fn an_unconfigured_systemd_socket_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    let ended = passing(setup().config(&config("")), listener.into())
        .launch_without_waiting()
        .wait_for_exit();
    assert_eq!(ended.code, 78, "{}", ended.log);
    assert!(ended.log.contains(&address.to_string()), "{}", ended.log);
}
