//! Hostile clients: silent, slow, many, and greedy ones.

use crate::bounds::Bounds;
use crate::case::Group;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use stoker_testkit::{Client, Request, as_nobody, frame, pause, pool_of, until};
use stoker_wire::{Encode, Status, Type};

/// The number of connections that the table has room for in these attacks.
const MAX_CONNECTIONS: usize = 300;
const SERVER: &str = "workers = 1\n[stoker]\nsocket_mode = \"0666\"\nmax_connections = 300";
/// How long an attacker continues.
const ATTACK_DURATION: Duration = Duration::from_millis(1_500);

/// The bytes that an attacker's connection sends before it goes silent.
const OPENINGS: &[(&str, Opening)] = &[
    ("say nothing", Opening::Nothing),
    ("send half of a HELLO", Opening::HalfHello),
    ("say HELLO and nothing more", Opening::Hello),
    ("begin a frame", Opening::HalfFrame),
    ("claim a frame of 16 MB", Opening::Claim),
    ("send HTTP", Opening::Http),
    ("call and do not read", Opening::Call),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    Nothing,
    HalfHello,
    Hello,
    HalfFrame,
    Claim,
    Http,
    Call,
}

impl Opening {
    fn bytes(self) -> Vec<u8> {
        let hello = frame(Encode {
            body: br#"{"v":[1],"role":"client"}"#,
            ..Encode::new(Type::Hello, 0)
        });
        let call = frame(Encode {
            name: "stoker.worker",
            body: br#"{"op":"list"}"#,
            ..Encode::new(Type::Req, 1)
        });
        match self {
            Self::Nothing => Vec::new(),
            Self::HalfHello => hello[..12].to_vec(),
            Self::Hello => hello,
            Self::HalfFrame => [&hello, &call[..17]].concat(),
            Self::Claim => [&hello, &[0, 255, 0, 0, 1, 0, 0, 0][..]].concat(),
            Self::Http => b"GET / HTTP/1.1\r\n".to_vec(),
            Self::Call => [hello, call].concat(),
        }
    }
}

pub(crate) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for (what, opening) in OPENINGS {
        for by in [User::Same, User::Nobody] {
            groups.push(many(what, *opening, by));
        }
    }
    groups.extend([
        storm(),
        byte_by_byte(),
        partial_bodies(),
        few_descriptors(),
        too_many_in_flight(),
    ]);
    groups.extend([unread_responses(), closes_at_once(), pings()]);
    groups
}

#[derive(Clone, Copy, Debug)]
enum User {
    /// The user that Stoker runs as, who is an administrator.
    Same,
    Nobody,
}

/// More connections stay open than the table has room for; an operator must still be able to connect.
fn many(what: &str, opening: Opening, by: User) -> Group {
    let user = if matches!(by, User::Same) {
        "the same user"
    } else {
        "another user"
    };
    let group = Group::new(
        "A9",
        format!("{} connections of {user} {what}", MAX_CONNECTIONS * 2),
    );
    let group = group.config(pool_of("serve", SERVER)).bounds(Bounds {
        descriptors: MAX_CONNECTIONS + 64,
        ..Bounds::USUAL
    });
    let group = group.attack(move |arena| {
        let server = arena.app().server();
        let socket = arena.app().socket();
        let connect = || {
            let open = |_| {
                let mut stream = UnixStream::connect(&socket).ok()?;
                stream.write_all(&opening.bytes()).ok();
                Some(stream)
            };
            (0..MAX_CONNECTIONS * 2)
                .filter_map(open)
                .collect::<Vec<UnixStream>>()
        };
        let held = match by {
            User::Same => Some(connect()),
            User::Nobody => as_nobody(connect),
        };
        let began = Instant::now();
        while began.elapsed() < ATTACK_DURATION {
            let queues = arena.app().cli(&["queues"]);
            assert_eq!(queues.code, 0, "an operator gets in: {}", queues.stderr);
        }
        drop(held);
        until("calls are served again", || {
            let mut client = Client::try_connect(&arena.app().socket())?;
            (client.call("t.run", "ok").status() == Status::OK).then_some(())
        });
        assert_eq!(arena.app().server(), server);
    });
    // One of each kind is enough for the quick run.
    match (opening, by) {
        (Opening::Nothing | Opening::Hello, _) | (Opening::HalfHello, User::Same) => group,
        _ => group.slow(),
    }
}

/// Connections that are opened and closed as fast as possible.
fn storm() -> Group {
    Group::new("A9", "2,000 connections that come and go")
        .config(pool_of("serve", SERVER))
        .bounds(Bounds {
            descriptors: MAX_CONNECTIONS + 64,
            ..Bounds::USUAL
        })
        .attack(|arena| {
            let (server, socket) = (arena.app().server(), arena.app().socket());
            std::thread::scope(|scope| {
                for opening in [
                    Opening::Nothing,
                    Opening::Hello,
                    Opening::Call,
                    Opening::HalfFrame,
                ] {
                    let socket = &socket;
                    scope.spawn(move || {
                        for _ in 0..500 {
                            if let Ok(mut stream) = UnixStream::connect(socket) {
                                stream.write_all(&opening.bytes()).ok();
                            }
                        }
                    });
                }
            });
            arena.still_serves(server);
        })
}

fn byte_by_byte() -> Group {
    Group::new("A9", "50 connections that send byte by byte")
        .config(pool_of("serve", SERVER))
        .attack(|arena| {
            let server = arena.app().server();
            let socket = arena.app().socket();
            let open = |_| UnixStream::connect(&socket).expect("there is room");
            let mut streams: Vec<UnixStream> = (0..50).map(open).collect();
            for byte in Opening::Call.bytes() {
                for stream in &mut streams {
                    stream.write_all(&[byte]).expect("it reads");
                }
            }
            for stream in &mut streams {
                assert!(
                    stream.read(&mut [0; 20]).is_ok_and(|count| count > 0),
                    "it is answered"
                );
            }
            drop(streams);
            arena.still_serves(server);
        })
}

/// Bodies that are begun and never completed count against the memory limit.
fn partial_bodies() -> Group {
    let config = format!("{SERVER}\nmax_memory = \"64MB\"");
    Group::new("A4", "40 bodies of 15 MB that are never ended")
        .config(pool_of("serve", config))
        .attack(|arena| {
            let server = arena.app().server();
            let call = frame(Encode {
                name: "t.run",
                body: &vec![b' '; 15 << 20],
                ..Encode::new(Type::Req, 1)
            });
            let socket = arena.app().socket();
            let open = |_| {
                let mut stream = UnixStream::connect(&socket).expect("there is room");
                stream.write_all(&Opening::Hello.bytes()).ok();
                stream
                    .set_write_timeout(Some(Duration::from_millis(300)))
                    .expect("a timeout");
                stream.write_all(&call[..call.len() - 1]).ok();
                stream
            };
            let held: Vec<UnixStream> = (0..40).map(open).collect();
            pause(ATTACK_DURATION);
            drop(held);
            arena.still_serves(server);
        })
}

fn few_descriptors() -> Group {
    Group::new("A9", "200 connections where 80 descriptors are allowed")
        .prepare(|setup| {
            let config = pool_of("serve", "workers = 1");
            setup.config(&config).after("ulimit -n 80")
        })
        .bounds(Bounds {
            descriptors: 84,
            ..Bounds::USUAL
        })
        .attack(|arena| {
            let (server, socket) = (arena.app().server(), arena.app().socket());
            let held: Vec<_> = (0..200)
                .filter_map(|_| UnixStream::connect(&socket).ok())
                .collect();
            pause(ATTACK_DURATION);
            drop(held);
            until("calls are served", || {
                let mut client = Client::try_connect(&arena.app().socket())?;
                (client.call("t.run", "ok").status() == Status::OK).then_some(())
            });
            assert_eq!(arena.app().server(), server);
        })
}

fn too_many_in_flight() -> Group {
    Group::new("A9", "5,000 calls of one connection at once")
        .config(pool_of("serve", SERVER))
        .attack(|arena| {
            let mut client = arena.client();
            let allowed = client.welcome["max_inflight"].as_u64().unwrap_or(0) as usize;
            let calls = vec![Request::call("t.run", "sleep 1;ok"); 5_000];
            let ids = client.send_all(&calls);
            let answers: Vec<Status> = ids
                .into_iter()
                .map(|id| client.answer(id).status())
                .collect();
            let served = answers
                .iter()
                .filter(|status| **status == Status::OK)
                .count();
            let refused = answers
                .iter()
                .filter(|status| **status == Status::RESOURCE_EXHAUSTED);
            assert_eq!(
                served + refused.count(),
                5_000,
                "each is served, or refused for now"
            );
            assert!(
                served >= allowed,
                "{served} were served, {allowed} are allowed at once"
            );
        })
}

/// Unread answers are bounded, and so are the requests waiting behind them.
fn unread_responses() -> Group {
    Group::new("A4", "20,000 questions whose answers are not read")
        .config(pool_of("serve", format!("{SERVER}\nmax_memory = \"64MB\"")))
        .attack(|arena| {
            let server = arena.app().server();
            let mut stream = UnixStream::connect(arena.app().socket()).expect("there is room");
            stream
                .set_write_timeout(Some(Duration::from_millis(500)))
                .expect("a timeout");
            stream.write_all(&Opening::Hello.bytes()).expect("it reads");
            for id in 1..=20_000 {
                let ask = frame(Encode {
                    name: "stoker.queue",
                    body: br#"{"op":"list"}"#,
                    ..Encode::new(Type::Req, id)
                });
                if stream.write_all(&ask).is_err() {
                    break;
                }
            }
            pause(ATTACK_DURATION);
            arena.still_serves(server);
        })
}

fn closes_at_once() -> Group {
    Group::new("A9", "500 clients that go before they are answered")
        .config(pool_of("serve", SERVER))
        .attack(|arena| {
            let server = arena.app().server();
            for number in 0..500 {
                let mut client = arena.client();
                client.send(&Request::call("t.run", "sleep 1;ok"));
                client.send(&Request::push("mails", format!("note {number}")));
            }
            arena.still_serves(server);
            let mut client = arena.client();
            until("nothing is left of them", || {
                let busy = client.queue("t");
                (busy["ready"] == 0 && busy["running"] == 0).then_some(())
            });
        })
}

fn pings() -> Group {
    Group::new("A9", "100,000 PINGs whose PONGs are not read")
        .config(pool_of("serve", SERVER))
        .attack(|arena| {
            let server = arena.app().server();
            let mut stream = UnixStream::connect(arena.app().socket()).expect("there is room");
            stream
                .set_write_timeout(Some(Duration::from_millis(500)))
                .expect("a timeout");
            stream.write_all(&Opening::Hello.bytes()).expect("it reads");
            let some: Vec<u8> = (1..=1_000)
                .flat_map(|id| frame(Encode::new(Type::Ping, id)))
                .collect();
            for _ in 0..100 {
                if stream.write_all(&some).is_err() {
                    break;
                }
            }
            arena.still_serves(server);
            let state = arena
                .app()
                .client()
                .call_server("stoker.worker", &json!({"op": "list"}));
            assert_eq!(state["pools"][0]["restarts"], 0);
        })
}
