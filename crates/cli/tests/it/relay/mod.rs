//! Clients and workers on other machines, which connect over TCP and TLS.

mod deaths;
mod limits;
mod tls;
mod tokens;
mod workers;

use crate::{pool_of, setup};
use serde_json::{Value, json};
use stoker_testkit::{App, Client, Output, Received};
use stoker_wire::Type;

/// Two workers, and a TCP port of loopback. `more` begins with keys of `[listen]`.
#[track_caller]
fn start(more: &str) -> App {
    let listen = format!("workers = 2\n[listen]\naddresses = [\"127.0.0.1:0\"]\n{more}");
    setup().config(&pool_of("serve", listen)).start()
}

/// Creates a token with these options, and returns it.
#[track_caller]
fn token(app: &App, name: &str, options: &[&str]) -> String {
    let words = [&["token", "create", name], options].concat();
    let created = app.cli_with(&[], &words);
    assert_eq!(created.code, 0, "{}", created.stderr);
    created.stdout.trim().to_owned()
}

/// A token for everything.
#[track_caller]
fn admin(app: &App) -> String {
    token(app, "admin", &["--roles", "admin"])
}

/// Runs a command with this token over TCP.
#[track_caller]
fn remote(app: &App, token: &str, words: &[&str]) -> Output {
    let url = format!("tcp://{}", app.relay_address());
    app.cli_with(&[("STOKER_URL", &url), ("STOKER_TOKEN", token)], words)
}

/// Connects as a client with this token.
#[track_caller]
fn client(app: &App, token: &str) -> Client {
    let hello = json!({"v": [1], "role": "client", "name": "test", "token": token});
    connect(app, &hello).expect("an answer to HELLO")
}

/// Connects over TCP; `None` if the connection ends before WELCOME.
#[track_caller]
fn connect(app: &App, hello: &Value) -> Option<Client> {
    Client::connect_over_tcp(app.relay_address()).greet(hello)
}

/// Sends a HELLO that is rejected, and returns the answer.
#[track_caller]
fn rejected(app: &App, hello: &Value) -> Received {
    let mut client = Client::connect_over_tcp(app.relay_address());
    client.hello(hello);
    let answer = client.frame().expect("an answer");
    assert_eq!(
        (answer.kind, answer.id),
        (Type::Res, 0),
        "{}",
        answer.text()
    );
    assert!(client.frame().is_none(), "the connection is closed");
    answer
}
