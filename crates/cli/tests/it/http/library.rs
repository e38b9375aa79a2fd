//! The gateway as a library in another process: it is an ordinary client of the server.

use crate::{pool_of, setup};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use stoker_gateway::{client, http};
use stoker_testkit::{App, Http};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn settings(app: &App) -> http::Settings {
    let time = Duration::from_secs(10);
    http::Settings {
        token_file: app.dir.write("token", TOKEN),
        hosts: Vec::new(),
        max_connections: 10,
        has_default_max_connections: false,
        max_header: 16 << 10,
        max_body: 1 << 20,
        max_memory: 8 << 20,
        header_timeout: time,
        body_timeout: time,
        idle_timeout: time,
        write_timeout: time,
        sites: None,
        restarts: 0,
    }
}

#[test]
fn the_gateway_can_run_inside_another_process() {
    let app = setup().config(&pool_of("serve", "workers = 1")).start();
    let server = client::Settings {
        socket: app.socket(),
        name: "library".to_owned(),
        token: None,
        own_uid: rustix::process::geteuid().as_raw(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    listener.set_nonblocking(true).expect("it can be set");
    let settings = settings(&app);
    rustix::fs::chmod(&settings.token_file, rustix::fs::Mode::RUSR).expect("it is ours");
    let gateway = thread::spawn(move || http::run(settings, server, vec![listener.into()], || ()));
    let mut client = Http::tcp(address, Some(TOKEN)).expect("it listens");
    let answer = client.request("POST", "/call/t.run", &[], "ok");
    assert_eq!(answer.expect("an answer").status, 200);
    drop(app);
    let ended = gateway.join().expect("no panic");
    ended.expect("it ends with the server");
}
