//! The HTTP gateway.

mod access;
mod admin;
mod calls;
pub(crate) mod deaths;
mod library;
mod limits;
mod metrics;
mod pushes;
mod sockets;

use crate::{pool_of, setup};
use stoker_testkit::{App, Http, HttpResponse};

/// Two workers, and HTTP on the unix socket `http.sock`; `more` begins with keys of `[http]`.
fn config(more: &str) -> String {
    pool_of(
        "serve",
        format!("workers = 2\n[http]\nsocket = \"http.sock\"\n{more}"),
    )
}

#[track_caller]
fn start(more: &str) -> App {
    setup().config(&config(more)).start()
}

/// One call on a connection of its own.
#[track_caller]
fn post(app: &App, path: &str, headers: &[(&str, &str)], body: &str) -> HttpResponse {
    let answer = app.http().request("POST", path, headers, body);
    answer.expect("an answer")
}

/// A TCP connection with the token.
#[track_caller]
fn on_tcp(app: &App) -> Http {
    let token = std::fs::read_to_string(app.dir.file("stoker.token")).expect("there is a token");
    Http::tcp(app.http_address(), Some(token.trim())).expect("the angel listens")
}
