//! Invalid bytes from a peer: a typed answer, the end of that connection, and no other effect.

use crate::start;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use stoker_testkit::{App, Client, Received, Request, frame, procs, until};
use stoker_wire::{Encode, Flags, Status, Type};

const HELLO: &str = r#"{"v":[1],"role":"client"}"#;

fn hello(body: &str) -> Vec<u8> {
    frame(Encode {
        body: body.as_bytes(),
        ..Encode::new(Type::Hello, 0)
    })
}

/// The bytes of a frame, some of them changed.
fn corrupted(of: Encode<'_>, changes: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = frame(of);
    changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
    bytes
}

/// Sends bytes and expects a protocol error and the end of the connection.
#[track_caller]
fn refused(app: &App, bytes: &[u8]) -> Received {
    let mut client = Client::connect_without_hello(&app.socket());
    client.write(bytes);
    let mut last = None;
    while let Some(got) = client.frame() {
        last = Some(got);
    }
    let last = last.expect("a fault is told before the end");
    assert_eq!((last.kind, last.id), (Type::Res, 0), "{}", last.text());
    last
}

#[test]
fn a_protocol_error_is_answered_with_its_reason_and_closes_the_connection() {
    let app = start("workers = 1");
    let server = app.server();
    let call = Encode {
        name: "t.run",
        ..Encode::new(Type::Req, 1)
    };
    let meta = |bytes: &[u8]| {
        let mut whole = frame(call);
        whole[3] += bytes.len() as u8;
        whole[17] = bytes.len() as u8;
        whole.extend_from_slice(bytes);
        whole
    };
    let after_hello: &[(&str, Vec<u8>, &str)] = &[
        ("too long", vec![0, 255, 255, 255], "above the limit of"),
        ("too short", vec![0, 0, 0, 15], "below the minimum of 16"),
        (
            "unknown type",
            corrupted(call, &[(4, 99)]),
            "unknown frame type 99",
        ),
        (
            "unassigned type",
            corrupted(call, &[(4, 14)]),
            "unknown frame type 14",
        ),
        (
            "reserved flag",
            corrupted(call, &[(5, 1)]),
            "reserved flag bits 0x01",
        ),
        (
            "a name with a space",
            corrupted(call, &[(20, b' ')]),
            "invalid name",
        ),
        ("no name", frame(Encode::new(Type::Req, 1)), "invalid name"),
        (
            "a name where none belongs",
            corrupted(call, &[(4, 7)]),
            "invalid name",
        ),
        ("number 0", corrupted(call, &[(11, 0)]), "id is 0"),
        (
            "name beyond the end",
            corrupted(call, &[(18, 200)]),
            "do not fit",
        ),
        (
            "metadata beyond the end",
            corrupted(call, &[(16, 9)]),
            "do not fit",
        ),
        (
            "metadata that ends early",
            meta(&[5, 9, b'x']),
            "metadata ends inside an entry",
        ),
        (
            "a key twice",
            meta(&[5, 1, b'x', 5, 1, b'y']),
            "repeats a key",
        ),
        ("key 0", meta(&[0, 1, b'x']), "uses key 0"),
        (
            "a wrong width",
            meta(&[19, 1, 0]),
            "key 19 has an invalid value",
        ),
        (
            "an answer",
            frame(Encode::new(Type::Res, 1)),
            "a client may send only REQ, CANCEL, CREDIT, PING and PONG",
        ),
        (
            "an event",
            frame(Encode::new(Type::Event, 1)),
            "a client may send only REQ",
        ),
        ("a second HELLO", hello(HELLO), "a client may send only REQ"),
        (
            "a number twice",
            [frame(call), frame(call)].concat(),
            "still unanswered",
        ),
    ];
    for (what, bytes, why) in after_hello {
        let fault = refused(&app, &[hello(HELLO), bytes.clone()].concat());
        assert!(fault.text().contains(why), "{what}: {}", fault.text());
        assert_ne!(fault.status(), Status::OK, "{what}");
    }
    assert_eq!(app.server(), server, "it is the same server");
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn an_invalid_hello_is_rejected() {
    let app = start("workers = 1");
    let long = format!(r#"{{"v":[1],"name":"{}"}}"#, "x".repeat(70_000));
    for (body, why) in [
        ("", "HELLO is not valid"),
        ("[]", "HELLO is not valid"),
        // Issue 9, A21: the protocol page promises that the error names the mistake.
        (r#"{"v":[2]}"#, "its field v must contain 1"),
        (
            r#"{"v":[1],"role":"worker","slots":2,"pull":true}"#,
            "invalid number of slots",
        ),
        (r#"{"v":[1],"role":"king"}"#, "HELLO is not valid"),
        (
            r#"{"v":[1],"role":"worker","calls":["a b"]}"#,
            "invalid name",
        ),
        (
            r#"{"v":[1],"role":"worker","slots":0}"#,
            "invalid number of slots",
        ),
        (
            r#"{"v":[1],"role":"worker","slots":1001}"#,
            "invalid number of slots",
        ),
        (
            r#"{"v":[1],"role":"worker","pool":"other"}"#,
            "there is no pool 'other'; expected one of: p",
        ),
        (&long, "above the limit of 65536"),
    ] {
        let fault = refused(&app, &hello(body));
        assert!(fault.text().contains(why), "{body:.60}: {}", fault.text());
    }
    let early = refused(&app, &frame(Encode::new(Type::Cancel, 1)));
    assert_eq!(early.text(), "the first frame must be a HELLO");
    assert_eq!(app.pids().len(), 1);
}

#[test]
fn requests_before_a_protocol_error_are_answered() {
    let app = start("workers = 1");
    let mut client = app.client();
    let ids = client.send_all(&[
        Request::call("nobody.there", ""),
        Request::call("stoker.worker", r#"{"op": "list"}"#),
    ]);
    client.write(&[0, 0, 0, 1]);
    assert_eq!(client.answer(ids[0]).status(), Status::NO_WORKER);
    assert_eq!(client.answer(ids[1]).status(), Status::OK);
    assert!(client.frame().is_some_and(|got| got.id == 0));
    assert!(client.frame().is_none());
}

#[test]
fn a_frame_may_arrive_byte_by_byte() {
    let app = start("workers = 1");
    let mut client = Client::connect_without_hello(&app.socket());
    let call = frame(Encode {
        name: "t.run",
        body: b"ok slowly",
        ..Encode::new(Type::Req, 9)
    });
    for byte in [hello(HELLO), call].concat() {
        client.write(&[byte]);
    }
    assert_eq!(client.answer(9).text(), "slowly");
}

#[test]
fn an_unfinished_frame_closes_the_connection_after_a_timeout() {
    let app = start("workers = 1\n[stoker]\nframe_timeout = \"200ms\"");
    let call = frame(Encode {
        name: "t.run",
        body: &[b' '; 1000],
        ..Encode::new(Type::Req, 1)
    });
    for (what, bytes) in [
        ("a HELLO", hello(HELLO)[..9].to_vec()),
        ("its length", [hello(HELLO), call[..3].to_vec()].concat()),
        ("its head", [hello(HELLO), call[..17].to_vec()].concat()),
        ("its body", [hello(HELLO), call[..900].to_vec()].concat()),
    ] {
        let fault = refused(&app, &bytes);
        assert_eq!(fault.status(), Status::DEADLINE_EXCEEDED, "{what}");
        assert!(fault.text().contains("stoker.frame_timeout"), "{what}");
    }
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn a_client_whose_frames_arrive_in_parts_is_not_disconnected() {
    let app = start("workers = 1\n[stoker]\nframe_timeout = \"2s\"");
    // Half a frame of the lively client is always in transit.
    let ping = |id: u32| frame(Encode::new(Type::Ping, id));
    let mut lively = app.client();
    lively.write(&ping(1)[..7]);
    let mut quiet = UnixStream::connect(app.socket()).expect("it listens");
    quiet.write_all(&hello(HELLO)[..9]).expect("it reads");
    // Waits for the end of the quiet connection; the lively client writes each time that nothing has come.
    quiet
        .set_read_timeout(Some(Duration::from_millis(20)))
        .expect("that is a timeout");
    let mut pings = 1;
    until("the quiet one is disconnected", || {
        let halves = [&ping(pings)[7..], &ping(pings + 1)[..7]].concat();
        lively.write(&halves);
        pings += 1;
        matches!(quiet.read(&mut [0; 1024]), Ok(0)).then_some(())
    });
    lively.write(&ping(pings)[7..]);
    for id in 1..=pings {
        let pong = lively.frame().expect("it is still connected");
        assert_eq!((pong.kind, pong.id), (Type::Pong, id));
    }
}

#[test]
fn random_bytes_and_corrupted_frames_never_harm_the_server() {
    let app = start("workers = 1");
    let server = app.server();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let valid = [
        hello(HELLO),
        frame(Encode {
            name: "stoker.queue",
            body: b"{}",
            ..Encode::new(Type::Req, 1)
        }),
        frame(Encode::new(Type::Ping, 7)),
    ]
    .concat();
    for round in 0..600 {
        let mut bytes = valid.clone();
        match round % 3 {
            // Some bytes changed, the end missing, or everything after the first byte replaced with noise.
            0 => (0..3).for_each(|_| bytes[next() as usize % valid.len()] = next() as u8),
            1 => bytes.truncate(next() as usize % valid.len()),
            _ => bytes
                .iter_mut()
                .skip(1)
                .for_each(|byte| *byte = next() as u8),
        }
        let mut stream = UnixStream::connect(app.socket()).expect("it listens");
        stream.write_all(&bytes).ok();
    }
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    assert_eq!(app.server(), server);
    assert!(procs::is_alive(server));
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_worker_cannot_be_used_as_a_client() {
    let app = start("workers = 1");
    let mut client = Client::connect_as(&app.socket(), &json!({"v": [1], "worker": "p-99"}));
    assert_eq!(
        client.call("t.run", "ok").status(),
        Status::OK,
        "an unknown worker is nobody's"
    );
    client.write(&frame(Encode {
        flags: Flags::NONE,
        ..Encode::new(Type::Goaway, 0)
    }));
    assert!(
        client
            .frame()
            .is_some_and(|got| got.id == 0 && got.kind == Type::Res)
    );
}

#[test]
fn http_and_tls_clients_get_a_readable_error() {
    let app = start("workers = 1");
    let ask = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(app.socket()).expect("it listens");
        stream.write_all(bytes).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it ends");
        answer
    };
    let http = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let http = String::from_utf8_lossy(&http).into_owned();
    assert!(
        http.starts_with("HTTP/1.1 501 Not Implemented\r\n"),
        "{http}"
    );
    assert!(http.contains("speaks Stoker's own protocol"), "{http}");
    let alert = ask(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3]);
    assert_eq!(
        alert,
        [0x15, 3, 3, 0, 2, 2, 70],
        "a fatal alert: protocol_version"
    );
    assert!(ask(b"\x05socks").is_empty());
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let app = start("workers = 1\n[stoker]\nmax_connections = 4");
    let gate = app.dir.gate("gate");
    // One of the four connections is the worker's, and sixteen more are for administrators. All clients wait for
    // answers.
    let mut clients: Vec<Client> = (0..3 + 16).map(|_| app.client()).collect();
    let calls: Vec<u32> = clients
        .iter_mut()
        .map(|client| client.send(&Request::call("t.run", "gate gate;ok")))
        .collect();
    clients.iter_mut().for_each(Client::fence);
    let held = gate.wait_for_worker();
    let turned_away = refused(&app, &hello(HELLO));
    assert_eq!(turned_away.status(), Status::RESOURCE_EXHAUSTED);
    assert!(
        turned_away
            .text()
            .contains("4 connections are open already")
    );
    drop(held);
    gate.open();
    for (client, call) in clients.iter_mut().zip(calls) {
        assert_eq!(client.answer(call).status(), Status::OK);
    }
    drop(clients);
    app.ready();
}
