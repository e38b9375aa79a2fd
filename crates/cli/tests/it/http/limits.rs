//! Limits on header, body, time and connections.

use super::{post, start};
use stoker_testkit::until;

#[test]
fn the_size_of_headers_and_bodies_is_limited() {
    let app = start("max_header = \"8KB\"\nmax_body = \"64KB\"");
    let long = "x".repeat(9 << 10);
    let answer = app
        .http()
        .request("POST", "/call/t.run", &[("long", &long)], "ok");
    assert_eq!(answer.expect("an answer").status, 431);
    let body = format!("ok;{}", " ".repeat((64 << 10) - 3));
    assert_eq!(
        post(&app, "/call/t.run", &[], &body).status,
        200,
        "exactly as much as may be"
    );
    let answer = post(&app, "/call/t.run", &[], &(body + " "));
    assert_eq!(answer.status, 413);
    assert!(answer.json()["detail"].to_string().contains("max_body"));
    // A body without a declared length.
    let mut http = app.http();
    http.raw(b"POST /call/t.run HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .expect("it is sent");
    let chunk = [b"8000\r\n".as_slice(), &[b' '; 0x8000], b"\r\n"].concat();
    for _ in 0..3 {
        // The answer may come before all is sent.
        http.raw(&chunk).ok();
    }
    assert_eq!(http.answer().expect("an answer").status, 413);
}

#[test]
fn the_total_size_of_all_bodies_is_limited() {
    let app = start("max_body = \"1MB\"\nmax_memory = \"1MB\"");
    let mut first = app.http();
    // The rest of this body is missing.
    first
        .raw(b"POST /call/t.run HTTP/1.1\r\nhost: x\r\ncontent-length: 700000\r\n\r\nok")
        .expect("it is sent");
    let refused = until("the first is read", || {
        let answer = post(
            &app,
            "/call/t.run",
            &[],
            &format!("ok;{}", " ".repeat(400_000)),
        );
        (answer.status == 503).then_some(answer)
    });
    assert!(refused.json()["detail"].to_string().contains("max_memory"));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(
        post(&app, "/call/t.run", &[], "ok").status,
        200,
        "small ones fit"
    );
    drop(first);
    until("its room is free again", || {
        let answer = post(
            &app,
            "/call/t.run",
            &[],
            &format!("ok;{}", " ".repeat(400_000)),
        );
        (answer.status == 200).then_some(())
    });
}

#[test]
fn slow_clients_are_disconnected() {
    let app = start(
        "header_timeout = \"100ms\"\nidle_timeout = \"200ms\"\nbody_timeout = \"100ms\"\nwrite_timeout = \"100ms\"",
    );
    let mut silent = app.http();
    let mut slow = app.http();
    slow.raw(b"POST /call/t.run HTTP/1.1\r\nhost:")
        .expect("it is sent");
    let mut idle = app.http();
    assert_eq!(
        idle.request("GET", "/health", &[], "")
            .expect("an answer")
            .status,
        200
    );
    for http in [&mut silent, &mut slow, &mut idle] {
        let rest = http.rest().unwrap_or_default();
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
    let mut half = app.http();
    half.raw(b"POST /call/t.run HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nok")
        .expect("it is sent");
    assert_eq!(half.answer().expect("an answer").status, 408);
    // A client that does not read a large answer.
    let mut deaf = app.http();
    deaf.send("POST", "/call/t.run", &[], "big 4000000")
        .expect("it is sent");
    until("the deaf one is gone", || deaf.raw(b"x").err());
}

#[test]
fn a_call_may_take_longer_than_the_connection_timeouts() {
    let app = start("header_timeout = \"50ms\"\nidle_timeout = \"50ms\"\nwrite_timeout = \"50ms\"");
    assert_eq!(post(&app, "/call/t.run", &[], "sleep 400;ok").status, 200);
}

#[test]
fn connections_beyond_the_limit_wait() {
    let app = start("max_connections = 2");
    let mut first = app.http();
    let mut second = app.http();
    for http in [&mut first, &mut second] {
        assert_eq!(
            http.request("GET", "/health", &[], "")
                .expect("an answer")
                .status,
            200
        );
    }
    let mut third = app.http();
    third.send("GET", "/health", &[], "").expect("it is sent");
    drop(first);
    assert_eq!(third.answer().expect("an answer").status, 200);
    assert_eq!(
        second
            .request("GET", "/health", &[], "")
            .expect("an answer")
            .status,
        200
    );
}
