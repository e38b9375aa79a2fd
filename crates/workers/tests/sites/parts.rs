//! Answers in parts, which a caller accepts with the key *credit*.

use crate::message::{Reply, Request};
use crate::site::Site;
use stoker_testkit::{Received, WaitingWorker, procs, until};
use stoker_wire::{Codec, Flags, Status, Type};

/// The credit that the gateway grants.
const CREDIT: u32 = 256 << 10;
/// The maximum size of the first part, and of others.
const MAX_FIRST: usize = 72 << 10;
const MAX_PART: usize = 64 << 10;

/// Waits for a part that is not the last one.
#[track_caller]
fn part(site: &mut Site, id: u32, kind: Type) -> Received {
    let part = site.part(id);
    let (codec, max) = match kind {
        Type::Res => (Codec::HTTP.0, MAX_FIRST),
        _ => (0, MAX_PART),
    };
    assert!(part.flags.has(Flags::MORE), "{}", part.text());
    assert_eq!(
        (part.kind, part.status(), part.prio),
        (kind, Status::OK, codec)
    );
    assert!(part.body.len() <= max);
    part
}

/// Reads the rest of an answer whose first part has come, and grants credit for what was read. Returns the whole answer.
#[track_caller]
fn rest(site: &mut Site, first: Received) -> Reply {
    let (id, mut bytes) = (first.id, first.body);
    let mut credit = CREDIT as usize - bytes.len();
    site.grant(id, bytes.len() as u32);
    credit += bytes.len();
    loop {
        let part = site.part(id);
        assert_eq!(part.kind, Type::Data);
        if part.status() != Status::OK {
            return site.reply(part);
        }
        assert!(part.body.len() <= credit.min(MAX_PART));
        bytes.extend_from_slice(&part.body);
        if !part.flags.has(Flags::MORE) {
            let end = Received {
                body: bytes,
                ..part
            };
            return site.reply(end);
        }
        site.grant(id, part.body.len() as u32);
    }
}

/// Sends a request that waits at a gate after its first event. Returns its first part.
#[track_caller]
fn stream(site: &mut Site, name: &str, more: &str) -> (Received, WaitingWorker) {
    let (gate, path) = (site.dir.gate(name), site.dir.file(name));
    let request = Request::get(&format!("stream.php?gate={}&{more}", path.display()));
    let id = site.send(&request.credit(CREDIT));
    let first = part(site, id, Type::Res);
    assert!(
        first.text().ends_with("\r\n\r\ndata: 1\n\n"),
        "{}",
        first.text()
    );
    (first, gate.wait_for_worker())
}

/// The answer is larger than a frame may be.
pub(crate) fn large_answer_in_parts(site: &mut Site) {
    let request = Request::get("large.php?bytes=20000000").credit(CREDIT);
    let id = site.send(&request);
    let first = part(site, id, Type::Res);
    let reply = rest(site, first);
    assert_eq!((reply.code(), reply.body().len()), (200, 20_000_000));
    assert!(reply.body().iter().all(|byte| *byte == b'x'));
    assert_eq!(reply.fields("content-length").len(), 0);
}

/// What a script writes arrives before the script goes on.
pub(crate) fn events(site: &mut Site) {
    let (first, waiting) = stream(site, "gate1", "then=more");
    assert!(site.received_part(first.id).is_none());
    drop(waiting);
    let reply = rest(site, first);
    assert_eq!(
        reply.fields("content-type"),
        ["text/event-stream;charset=UTF-8"]
    );
    assert_eq!(reply.body(), b"data: 1\n\ndata: 2\n\n");
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

/// A length that the script announces is passed on with the first part.
pub(crate) fn announced_length(site: &mut Site) {
    let (first, waiting) = stream(site, "gate2", "then=more&length=18");
    drop(waiting);
    let reply = rest(site, first);
    assert_eq!(reply.fields("content-length"), ["18"]);
    assert_eq!(reply.body(), b"data: 1\n\ndata: 2\n\n");
    // Bytes beyond the length are dropped.
    let (first, waiting) = stream(site, "gate3", "then=more&length=10");
    drop(waiting);
    let reply = rest(site, first);
    assert_eq!(
        (reply.fields("content-length"), reply.body()),
        (vec!["10".to_owned()], &b"data: 1\n\nd"[..])
    );
    // Missing ones are an error.
    let (first, waiting) = stream(site, "gate4", "then=more&length=100");
    drop(waiting);
    let reply = rest(site, first);
    assert_eq!(reply.status, Status::EXCEPTION);
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

/// Fewer bytes than the head may have.
pub(crate) fn little_credit(site: &mut Site) {
    let reply = site.ask(&Request::get("large.php?bytes=1000000").credit(1000));
    assert_eq!((reply.code(), reply.body().len()), (200, 1_000_000));
}

/// The response to HEAD has no body, so it is sent as a whole.
pub(crate) fn head_of_large_answer(site: &mut Site) {
    let request = Request::get("large.php?bytes=300000&length=300000");
    let reply = site.ask(&request.method("HEAD").credit(CREDIT));
    assert_eq!((reply.code(), reply.body()), (200, &b""[..]));
    assert_eq!(reply.fields("content-length"), ["300000"]);
}

/// The process dies after the first part was sent.
pub(crate) fn crash_in_parts(site: &mut Site) {
    let (first, waiting) = stream(site, "gate5", "then=crash&length=100");
    drop(waiting);
    let reply = rest(site, first);
    match site.kind.sees_crashes() {
        true => assert_eq!((reply.status, reply.signal), (Status::CRASHED, Some(11))),
        false => assert_eq!(reply.status, Status::EXCEPTION),
    }
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

/// A caller that does not read pauses its own script only. When it has gone, the script ends.
pub(crate) fn slow_reader(site: &mut Site) {
    let begun = site.dir.file("begun");
    let request = Request::get(&format!("slow.php?begun={}", begun.display()));
    let slow = site.send(&request.credit(CREDIT));
    let mut received = part(site, slow, Type::Res).body.len();
    while received < CREDIT as usize {
        received += part(site, slow, Type::Data).body.len();
    }
    assert_eq!(received, CREDIT as usize);
    if site.kind.answers_at_once() {
        assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
        assert!(site.received_part(slow).is_none());
    }
    site.grant(slow, 10);
    assert_eq!(part(site, slow, Type::Data).body.len(), 10);
    let pid = std::fs::read_to_string(&begun).expect("the script has begun");
    let pid: i32 = pid.parse().expect("its pid is a number");
    site.cancel(slow);
    let end = site.part(slow);
    assert_eq!((end.kind, end.status()), (Type::Data, Status::CANCELLED));
    assert!(!end.flags.has(Flags::MORE));
    let says_end = site.dir.file("begun.over");
    until("the script has ended", || {
        (!procs::is_alive(pid) || says_end.exists()).then_some(())
    });
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}
