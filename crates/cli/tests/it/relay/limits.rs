//! The limits of tokens, and hostile peers.

use super::{admin, client, rejected, start, token};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use stoker_testkit::{Client, Request, until};
use stoker_wire::{Encode, Flags, Key, Status, Type};

#[test]
fn a_token_has_limits_of_its_own() {
    let app = start("[queue.mails]\n[service.echo]");
    let gate = app.dir.gate("gate");
    let options = ["--roles", "push,call", "--queues", "*", "--services", "*"];
    let limits = [
        "--connections",
        "2",
        "--inflight",
        "2",
        "--pushes-per-second",
        "3",
    ];
    let web = token(&app, "web", &[&options[..], &limits].concat());
    let (mut one, mut two) = (client(&app, &web), client(&app, &web));
    let third = json!({"v": [1], "role": "client", "token": web});
    let refused = rejected(&app, &third);
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    assert!(refused.uint(Key::RETRY_AFTER).is_some());

    let waiting = one.send(&Request::call("echo.x", "gate gate"));
    let worker = gate.wait_for_worker();
    let cancelled = two.send(&Request::call("echo.x", "gate gate"));
    let refused = two.request(&Request::call("echo.x", ""));
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    assert!(
        refused.text().contains("2 unanswered requests"),
        "{}",
        refused.text()
    );
    assert!(refused.flags.has(Flags::NOT_PROCESSED));
    two.cancel(cancelled);
    let statuses = (0..4).map(|_| two.request(&Request::push("mails", "note x")).status());
    let statuses: Vec<Status> = statuses.collect();
    let accepted = statuses
        .iter()
        .filter(|status| **status == Status::OK)
        .count();
    assert_eq!(accepted, 3, "{statuses:?}");
    drop(worker);
    assert_eq!(one.answer(waiting).status(), Status::OK);
    drop(one);
    until("a place is free", || {
        let mut client = Client::connect_over_tcp(app.relay_address());
        client.hello(&third);
        let frame = client.frame()?;
        (frame.kind == Type::Welcome).then_some(())
    });
}

/// A worker may still run a cancelled call, so the call takes up a place of `--inflight` until it ends.
#[test]
fn a_cancelled_call_counts_until_its_work_ends() {
    let app = start("[service.echo]");
    let gate = app.dir.gate("gate");
    let options = ["--roles", "call", "--services", "echo", "--inflight", "1"];
    let web = token(&app, "web", &options);
    let mut client = client(&app, &web);
    let call = Request::call("echo.x", "");
    let running = client.send(&Request::call("echo.x", "gate gate"));
    let worker = gate.wait_for_worker();
    client.cancel(running);
    let refused = client.request(&call);
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    assert!(
        refused.text().contains("including cancelled"),
        "{}",
        refused.text()
    );
    let set = ["token", "set", "web", "--inflight", "2"];
    assert_eq!(app.cli_with(&[], &set).code, 0);
    until("the higher limit applies", || {
        (client.request(&call).status() == Status::OK).then_some(())
    });
    let set = ["token", "set", "web", "--inflight", "1"];
    assert_eq!(app.cli_with(&[], &set).code, 0);
    until("the lower limit applies", || {
        (client.request(&call).status() == Status::RESOURCE_EXHAUSTED).then_some(())
    });
    drop(worker);
    until("the place is free", || {
        (client.request(&call).status() == Status::OK).then_some(())
    });
}

/// The places beyond a user's share are for administrators. A token that may only read has none of them.
#[test]
fn only_administrators_exceed_the_share_of_connections() {
    let app = start("[stoker]\nuser_connections = 2");
    let read = token(&app, "watch", &["--roles", "read"]);
    let admin = admin(&app);
    let _open = [client(&app, &read), client(&app, &read)];
    let refused = rejected(&app, &json!({"v": [1], "role": "client", "token": read}));
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    assert!(
        refused.text().contains("user_connections"),
        "{}",
        refused.text()
    );
    let _more = [(); 3].map(|()| client(&app, &admin));
}

/// Peers of one address that send nothing take up only a share of the places: any more are closed at once.
#[test]
fn silent_peers_of_one_address_are_limited() {
    let app = start("max_connections = 40\nhello_timeout = \"60s\"");
    let address = app.relay_address();
    let silent: Vec<TcpStream> = (0..16)
        .map(|_| TcpStream::connect(address).expect("the angel listens"))
        .collect();
    let mut next = TcpStream::connect(address).expect("the angel listens");
    assert_eq!(next.read(&mut [0]).expect("it is closed"), 0);
    drop(silent);
    let web = token(&app, "web", &["--roles", "push", "--queues", "*"]);
    until("a place is free", || {
        let mut client = Client::connect_over_tcp(address);
        client.hello(&json!({"v": [1], "role": "client", "token": web}));
        let frame = client.frame()?;
        (frame.kind == Type::Welcome).then_some(())
    });
}

/// Whatever a peer sends, the gateway serves the others.
#[test]
fn foreign_protocols_and_broken_frames_are_rejected() {
    let app = start("hello_timeout = \"1s\"\n[service.echo]");
    let admin = admin(&app);
    let address = app.relay_address();
    let exchange = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.write_all(bytes).expect("it is read");
        let mut answer = Vec::new();
        // The connection may be reset.
        socket.read_to_end(&mut answer).ok();
        answer
    };
    let http = exchange(b"GET / HTTP/1.1\r\n\r\n");
    assert!(String::from_utf8_lossy(&http).contains("Stoker's protocol"));
    let tls = exchange(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]);
    assert_eq!(tls, [21, 3, 3, 0, 2, 2, 40]);
    assert_eq!(exchange(&[0, 0, 0]), b"", "HELLO takes too long");
    let huge = exchange(&[
        0, 0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    assert!(huge.len() > 20, "the answer says that HELLO is too long");
    let request = Request::call("a.b", "").bytes(1);
    assert!(String::from_utf8_lossy(&exchange(&request)).contains("HELLO"));

    let mut open = client(&app, &admin);
    open.write(&[0, 0, 0, 16, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let fault = open.frame().expect("an answer with the error");
    assert_eq!((fault.id, fault.status()), (0, Status::INVALID_ARGUMENT));
    assert!(open.frame().is_none());
    assert_eq!(client(&app, &admin).call("echo.x", "").status(), Status::OK);
}

/// A request that is rejected may have a body, which is skipped; what follows is served.
#[test]
fn the_body_of_a_rejected_request_is_skipped() {
    let app = start("[queue.mails]");
    let web = token(&app, "web", &["--roles", "push", "--queues", "mails"]);
    let mut client = client(&app, &web);
    let large = vec![b'x'; 3 << 20];
    let ids = client.send_all(&[
        Request::push("other", large.clone()),
        Request::call("stoker.job", large).flag(Flags::ONEWAY),
        Request::push("mails", "note x"),
    ]);
    assert_eq!(client.answer(ids[0]).status(), Status::PERMISSION_DENIED);
    assert_eq!(client.answer(ids[2]).status(), Status::OK);
    assert!(!client.has_answer(ids[1]));
}

/// Large bodies pass in both directions, and a peer that does not read is not read from forever.
#[test]
fn large_bodies_pass_and_slow_readers_block_only_themselves() {
    let app = start("[service.echo]");
    let admin = admin(&app);
    let mut fast = client(&app, &admin);
    let body = format!("ok {}", "y".repeat(9 << 20));
    let answer = fast.request(&Request::call("echo.x", body.clone()));
    assert_eq!((answer.status(), answer.body.len()), (Status::OK, 9 << 20));
    let mut slow = client(&app, &admin);
    let body = format!("ok {}", "y".repeat(2 << 20));
    let calls = [(); 4].map(|()| Request::call("echo.x", body.clone()));
    let ids = slow.send_all(&calls);
    for _ in 0..5 {
        assert_eq!(fast.call("echo.x", "ok 1").status(), Status::OK);
    }
    assert!(ids.iter().all(|id| {
        let status = slow.answer(*id).status();
        status == Status::OK || status == Status::RESOURCE_EXHAUSTED
    }));
}

#[test]
fn frames_that_only_the_server_may_send_are_a_fault() {
    let app = start("");
    let admin = admin(&app);
    let mut open = client(&app, &admin);
    open.write(&stoker_testkit::frame(Encode::new(Type::Welcome, 0)));
    assert_eq!(open.frame().expect("a fault").id, 0);
    assert!(open.frame().is_none());
}

/// The gateway reports what it does to the server, which shows it in its stats and in Prometheus' metrics.
#[test]
fn the_gateway_reports_metrics() {
    let app = start("[http]\nsocket = \"http.sock\"");
    let admin = admin(&app);
    let _open = client(&app, &admin);
    let shown = until("a report", || {
        let page = app.http().request("GET", "/metrics", &[], "").ok()?;
        let text = String::from_utf8_lossy(&page.body).into_owned();
        text.contains("name=\"connections\"} 1").then_some(text)
    });
    assert!(
        shown.contains("stoker_gateway{gateway=\"relay\",name=\"accepted\"} 1"),
        "{shown}"
    );
}
