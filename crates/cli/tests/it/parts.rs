//! Answers in parts: RES with MORE, then DATA, within the caller's credit.

use crate::setup;
use serde_json::json;
use std::io::Read;
use std::net::TcpStream;
use stoker_testkit::{App, Client, Http, Received, Request, bad_worker, frame, until};
use stoker_wire::{Encode, Flags, Key, Status, Type};

fn start() -> App {
    let pool = format!("[{:?}, \"serve\"]", bad_worker());
    let app = setup()
        .config(&format!(
            "[pool.p]\ncommand = {pool}\nworkers = 1\ntask_timeout = \"10s\"\n"
        ))
        .start();
    app.wait_for_log("p-1 is ready");
    app
}

fn request(script: &str, credit: u32) -> Request {
    Request::call("t.run", script).meta(Key::CREDIT, credit.to_be_bytes())
}

fn grant(client: &mut Client, id: u32, bytes: u32) {
    client.write(&frame(Encode {
        ttl: bytes,
        ..Encode::new(Type::Credit, id)
    }));
}

#[track_caller]
fn next(client: &mut Client, kind: Type, flags: Flags) -> Received {
    let got = client.frame().expect("the connection stays open");
    assert_eq!((got.kind, got.flags), (kind, flags), "{}", got.text());
    got
}

#[test]
fn parts_are_passed_on_as_they_come() {
    let app = start();
    let mut client = app.client();
    let gate = app.dir.gate("gate");
    let script = "first-part one;gate gate;next-part two;last-part 0 three";
    let id = client.send(&request(script, 11));
    let first = next(&mut client, Type::Res, Flags::MORE);
    assert_eq!((first.id, first.text().as_str()), (id, "one"));
    assert!(first.meta(Key::WORKER).is_some() && first.uint(Key::QUEUE_TIME).is_some());
    gate.open();
    let second = next(&mut client, Type::Data, Flags::MORE);
    assert_eq!((second.id, second.text().as_str()), (id, "two"));
    let last = next(&mut client, Type::Data, Flags::NONE);
    assert_eq!((last.status(), last.text().as_str()), (Status::OK, "three"));
    assert_eq!(last.meta(Key::TRAILERS).as_deref(), Some("x-sum: 42\r\n"));
    let whole = client.request(&request("ok whole", 11));
    assert_eq!(whole.text(), "whole");
}

#[test]
fn credit_reaches_the_worker() {
    let app = start();
    let mut client = app.client();
    let id = client.send(&request("first-part x;stream 50000;last-part 0", 20_000));
    let mut received = next(&mut client, Type::Res, Flags::MORE).body.len();
    while received < 20_000 {
        received += next(&mut client, Type::Data, Flags::MORE).body.len();
    }
    assert_eq!(received, 20_000);
    client.fence();
    assert!(client.other_frames.is_empty(), "no credit is left");
    grant(&mut client, id, 40_000);
    while received < 50_001 {
        received += next(&mut client, Type::Data, Flags::MORE).body.len();
    }
    assert_eq!(received, 50_001);
    next(&mut client, Type::Data, Flags::NONE);
    // The answer has ended, so this is ignored.
    grant(&mut client, id, 1);
    client.fence();
}

/// The worker does not offer `soft_cancel`.
#[test]
fn a_cancelled_call_ends_a_worker_that_waits_for_credit() {
    let app = start();
    let mut client = app.client();
    let id = client.send(&request("first-part x;stream 50000", 10));
    next(&mut client, Type::Res, Flags::MORE);
    client.cancel(id);
    assert_eq!(client.call("t.run", "ok next").text(), "next");
    let mut other = app.client();
    let id = other.send(&request("first-part x;stream 50000", 10));
    next(&mut other, Type::Res, Flags::MORE);
    drop((other, id));
    assert_eq!(client.call("t.run", "ok next").text(), "next");
}

#[test]
fn a_call_that_was_cancelled_before_its_first_part_ends() {
    let app = start();
    let mut client = app.client();
    let gate = app.dir.gate("gate");
    let script = "gate gate;first-part x;stream 50000";
    let id = client.send(&request(script, 10));
    let worker = gate.wait_for_worker();
    client.cancel(id);
    client.fence();
    drop(worker);
    assert_eq!(client.call("t.run", "ok next").text(), "next");
}

/// Its first part may have been used already, so the call does not run again, although it is idempotent.
#[test]
fn the_death_of_the_worker_cuts_the_answer_off() {
    let app = start();
    let mut client = app.client();
    for end in ["kill", "exit 3"] {
        let call = Request::call("t.again", format!("note ran;first-part x;{end}"));
        let call = call
            .flag(Flags::IDEMPOTENT)
            .meta(Key::CREDIT, 10u32.to_be_bytes());
        client.send(&call);
        next(&mut client, Type::Res, Flags::MORE);
        let last = next(&mut client, Type::Data, Flags::NONE);
        assert_eq!(last.status(), Status::WORKER_DIED, "{}", last.text());
    }
    assert_eq!(app.dir.notes().len(), 2);
}

#[test]
fn a_failure_after_the_first_part_ends_the_answer() {
    let app = start();
    let mut client = app.client();
    client.send(&request("first-part x;last-part 64 Boom", 1));
    next(&mut client, Type::Res, Flags::MORE);
    let last = next(&mut client, Type::Data, Flags::NONE);
    assert_eq!((last.code, last.text().as_str()), (64, "Boom"));
    let late = request("first-part x;silence", 1).ttl(300);
    client.send(&late);
    next(&mut client, Type::Res, Flags::MORE);
    let last = next(&mut client, Type::Data, Flags::NONE);
    assert_eq!(last.status(), Status::DEADLINE_EXCEEDED);
}

#[test]
fn workers_that_break_the_rules_of_parts_are_replaced() {
    let app = start();
    let mut client = app.client();
    for (script, why) in [
        (
            "first-part x;next-part 0123456789",
            "more bytes of an answer",
        ),
        ("first-part 0123456789x", "more bytes of an answer"),
        (
            "first-part x;last-part 0 0123456789",
            "more bytes of an answer",
        ),
        ("next-part x", "DATA for an answer that has not begun"),
        ("last-part 0 x", "DATA for an answer that has not begun"),
        ("first-part x;ok y", "RES ends an answer in parts"),
        ("first-part x;returned", "RES ends an answer in parts"),
    ] {
        client.send(&request(script, 10));
        app.wait_for_log(&format!("broke the protocol: {why}"));
        let last = until("the answer ends", || {
            let got = client.frame().expect("the connection stays open");
            (got.flags != Flags::MORE).then_some(got)
        });
        assert_eq!(
            last.status(),
            Status::WORKER_DIED,
            "{script}: {}",
            last.text()
        );
    }
    let answer = client.call("t.run", "first-part x");
    assert_eq!(answer.status(), Status::WORKER_DIED);
    app.wait_for_log("an answer in parts to a request that grants no credit");
    client.send(&request("first-part x;first-part y;silence", 10));
    next(&mut client, Type::Res, Flags::MORE);
    let last = next(&mut client, Type::Data, Flags::NONE);
    assert_eq!(last.status(), Status::WORKER_DIED);
    let id =
        client.push(&Request::push("mails", "first-part x").meta(Key::CREDIT, 10u32.to_be_bytes()));
    client.job_in(&id, "failed");
}

#[test]
fn invalid_credit_is_rejected() {
    let app = start();
    let mut client = app.client();
    for credit in [0, (1 << 20) + 1, u32::MAX] {
        let answer = client.request(&request("ok", credit));
        assert_eq!(answer.status(), Status::INVALID_ARGUMENT);
        assert!(answer.text().contains("expected 1 to 1048576 bytes"));
    }
    for (script, bytes, why) in [
        ("silence", 1, "CREDIT for an answer that has not begun"),
        ("first-part x;silence", 1 << 20, "more than 1 MiB"),
    ] {
        let app = start();
        let mut client = app.client();
        let id = client.send(&request(script, 10));
        if bytes > 1 {
            next(&mut client, Type::Res, Flags::MORE);
        }
        grant(&mut client, id, bytes);
        let fault = client.frame().expect("a reason");
        assert_eq!((fault.kind, fault.id), (Type::Res, 0));
        assert!(fault.text().contains(why), "{}", fault.text());
    }
}

fn start_site() -> App {
    let pool = format!("[{:?}, \"calls http:shop.request;serve\"]", bad_worker());
    let app = setup()
        .config(&format!(
            "[pool.p]\ncommand = {pool}\nworkers = 1\ntask_timeout = \"10s\"\n\
             [site.shop]\nlisten = [\"127.0.0.1:0\"]\n"
        ))
        .start();
    app.wait_for_log("gateway sites: listening on http://");
    app
}

fn get(app: &App, script: &str) -> TcpStream {
    let address = app.site_address(0);
    let stream = TcpStream::connect(address).expect("the angel listens");
    let text = format!(
        "GET / HTTP/1.1\r\nhost: {address}\r\nx-script: {script}\r\nte: trailers\r\nconnection: close\r\n\r\n"
    );
    (&stream).write_all_text(&text);
    stream
}

trait WriteText {
    fn write_all_text(&mut self, text: &str);
}

impl WriteText for &TcpStream {
    fn write_all_text(&mut self, text: &str) {
        std::io::Write::write_all(self, text.as_bytes()).expect("it is read");
    }
}

#[track_caller]
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(end.as_bytes()) {
        assert_eq!(
            stream.read(&mut byte).expect("it answers"),
            1,
            "{}",
            String::from_utf8_lossy(&all)
        );
        all.push(byte[0]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// As server-sent events need it.
#[test]
fn a_site_sends_each_part_at_once() {
    let app = start_site();
    let gate = app.dir.gate("gate");
    let head = "HTTP/1.1 200 OK|content-type: text/event-stream|trailer: x-sum||";
    let script = format!("first-part {head};next-part data: 1;gate gate;last-part 0 end");
    let mut stream = get(&app, &script);
    let text = read_until(&mut stream, "data: 1\r\n");
    assert!(text.contains("transfer-encoding: chunked"), "{text}");
    gate.open();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "3\r\nend\r\n0\r\nx-sum: 42\r\n\r\n");
}

#[test]
fn a_slow_client_of_a_site_pauses_only_its_own_worker_and_frees_it_when_it_leaves() {
    let app = start_site();
    let script = "first-part HTTP/1.1 200 OK||;stream 100000000;last-part 0";
    let mut slow = get(&app, script);
    read_until(&mut slow, "ss");
    let mut client = app.client();
    until("the worker waits", || {
        let list = client.call_server("stoker.worker", &json!({"op": "list"}));
        list.to_string().contains("http:shop.request").then_some(())
    });
    drop(slow);
    let answer = Http::tcp(app.site_address(0), None)
        .expect("the angel listens")
        .request("GET", "/", &[("x-script", "http 200 next")], "");
    assert_eq!(answer.expect("an answer").text(), "next");
}

#[test]
fn a_site_cuts_off_a_response_whose_worker_fails() {
    for end in ["kill", "last-part 64 Boom"] {
        let app = start_site();
        let gate = app.dir.gate("gate");
        let script = format!("first-part HTTP/1.1 200 OK||abc;gate gate;{end}");
        let mut stream = get(&app, &script);
        read_until(&mut stream, "abc\r\n");
        gate.open();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
        assert_eq!(rest, b"", "no last chunk");
    }
}

/// By the announced length a client sees whether the response is complete.
#[test]
fn a_site_passes_an_announced_length_on() {
    for (script, is_complete) in [
        ("next-part def;last-part 0", true),
        ("last-part 0 def", true),
        ("last-part 0 de", false),
        ("next-part de;next-part fgh;last-part 0", false),
    ] {
        let app = start_site();
        let gate = app.dir.gate("gate");
        let head = "HTTP/1.1 200 OK|content-length: 6||abc";
        let mut stream = get(&app, &format!("first-part {head};gate gate;{script}"));
        let text = read_until(&mut stream, "\r\n\r\nabc");
        assert!(text.contains("content-length: 6\r\n"), "{text}");
        assert!(!text.contains("transfer-encoding"), "{text}");
        gate.open();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
        assert_eq!(rest == b"def", is_complete, "{script}");
        assert!(is_complete || rest.len() < 3, "{script}");
    }
    let app = start_site();
    let head = "HTTP/1.1 200 OK|content-length: 2||abc";
    let mut stream = get(&app, &format!("first-part {head};last-part 0"));
    let text = read_until(&mut stream, "\r\n");
    assert!(text.contains("502"), "{text}");
    app.wait_for_log("*it has more bytes than its content-length");
}

/// The client has everything, so that it may go on. What the worker still does is not cancelled.
#[test]
fn a_worker_that_is_busy_after_its_response_is_not_cancelled() {
    let app = start_site();
    let gate = app.dir.gate("gate");
    let head = "HTTP/1.1 200 OK|content-length: 6||abc";
    let script = format!("first-part {head};next-part def;gate gate;last-part 0");
    let mut stream = get(&app, &script);
    read_until(&mut stream, "abcdef");
    let worker = gate.wait_for_worker();
    assert_eq!(stream.read(&mut [0; 1]).expect("the end"), 0);
    drop(worker);
    let mut client = app.client();
    until("it has ended", || {
        (client.queue("http:shop")["running"] == 0).then_some(())
    });
    let queue = client.queue("http:shop");
    assert_eq!(
        (&queue["done"], &queue["failed"]),
        (&json!(1), &json!(0)),
        "{queue}"
    );
}
