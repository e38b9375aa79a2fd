//! Every type of frame, in every state of a connection, with every flag.

use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::case::Group;
use stoker_testkit::{Client, Request, frame, pool_of, until};
use stoker_wire::{Encode, Status, Type};

const TYPES: &[u8] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 31, 128, 255,
];
const FLAGS: &[u8] = &[0, 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff];
const HELLO: &[u8] = br#"{"v":[1],"role":"client"}"#;

/// The state of the connection before the frame comes.
#[derive(Clone, Copy, Debug)]
enum State {
    New,
    Open,
    /// A call on this connection is unanswered.
    Waiting,
}

pub(crate) fn groups() -> Vec<Group> {
    let config = || pool_of("serve", "workers = 1");
    let mut groups = Vec::new();
    for (state, name) in [
        (State::New, "frames before HELLO"),
        (State::Open, "frames of a client"),
        (State::Waiting, "frames of a client that waits"),
    ] {
        let mut group = Group::new("B", name).config(config());
        for kind in TYPES {
            for flags in FLAGS {
                let name = format!("type {kind}, flags {flags:#04x}");
                group.add(name, move |arena| from_client(arena, state, *kind, *flags));
            }
        }
        groups.push(group);
    }
    groups.push(from_workers("frames of a busy worker", |bytes| {
        format!("raw {bytes};ok")
    }));
    groups.push(from_workers(
        "frames of a worker after its answer",
        |bytes| format!("ok;raw {bytes}"),
    ));
    groups
}

fn raw(kind: u8, flags: u8, id: u32) -> Vec<u8> {
    let mut bytes = frame(Encode::new(Type::Ping, id));
    bytes[4] = kind;
    bytes[5] = flags;
    bytes
}

/// A forbidden frame ends its connection with a reason, and affects no other connection.
fn from_client(arena: &mut Arena, state: State, kind: u8, flags: u8) {
    let server = arena.app().server();
    let mut client = Client::connect_without_hello(&arena.app().socket());
    let mut bytes = Vec::new();
    if !matches!(state, State::New) {
        bytes.extend(frame(Encode {
            body: HELLO,
            ..Encode::new(Type::Hello, 0)
        }));
    }
    if matches!(state, State::Waiting) {
        bytes.extend(frame(Encode {
            name: "t.run",
            body: b"sleep 1;ok",
            ..Encode::new(Type::Req, 5)
        }));
    }
    bytes.extend(raw(kind, flags, 6));
    // If the frame was allowed, this PING is answered, and reading ends there.
    bytes.extend(frame(Encode::new(Type::Ping, 4_000)));
    client.write(&bytes);
    let mut last = None;
    while let Some(got) = client.frame() {
        if got.kind == Type::Pong && got.id == 4_000 {
            last = None;
            break;
        }
        last = Some(got);
    }
    if let Some(fault) = last {
        assert_eq!(
            (fault.kind, fault.id),
            (Type::Res, 0),
            "a fault has the id 0"
        );
        assert!(
            !fault.text().is_empty() && fault.status() != Status::OK,
            "it says why"
        );
    }
    arena.still_serves(server);
}

fn from_workers(
    name: &str,
    script: impl Fn(&str) -> String + Copy + Send + Sync + 'static,
) -> Group {
    let config = pool_of(
        "serve",
        "workers = 1\ntask_timeout = \"5s\"\n[stoker]\nboots_at_once = 4",
    );
    let mut group = Group::new("A6", name).config(config).bounds(Bounds {
        processes: 8,
        seconds: 90.0,
        ..Bounds::USUAL
    });
    for kind in TYPES {
        for flags in [0, 0x08, 0x80] {
            for id in [0, 1, 77] {
                let name = format!("type {kind}, flags {flags:#04x}, id {id}");
                let hex: String = raw(*kind, flags, id)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                group.add(name, move |arena| from_worker(arena, &script(&hex)));
            }
        }
    }
    group
}

/// Whatever a worker sends, its caller gets one typed answer, and the next call is served.
fn from_worker(arena: &mut Arena, script: &str) {
    let server = arena.app().server();
    let answer = arena
        .client()
        .request(&Request::call("t.run", script).ttl(8_000));
    // UNAVAILABLE: the call was returned too many times.
    let allowed = [
        Status::OK,
        Status::WORKER_DIED,
        Status::DEADLINE_EXCEEDED,
        Status::UNAVAILABLE,
    ];
    assert!(
        allowed.contains(&answer.status()),
        "{} {}",
        answer.status().name(),
        answer.text()
    );
    until("the next call is served", || {
        let answer = arena.app().call("t.again", "ok next");
        (answer.status() == Status::OK).then_some(())
    });
    assert_eq!(arena.app().server(), server);
}
