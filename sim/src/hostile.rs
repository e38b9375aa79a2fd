//! Clients that break the protocol, or use it in ways that no reasonable client would. They run as a user of their
//! own, so that quotas limit only them.

use crate::agenda::What;
use crate::dice::Dice;
use crate::peer::Peer;
use crate::world::{SOCKET, World};
use std::path::Path;
use std::time::Duration;
use stoker_os::{sim, steady};
use stoker_wire::{Encode, Key, MetaBuf, Type};

const PID: i32 = 200_000;
/// The user of hostile clients.
const USER: u32 = 77;
/// Within this time the server closes a connection whose fault shows in what it has read.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Within this time the server closes a connection that only a timeout ends. It is longer than any `hello_timeout`
/// and `frame_timeout` that is drawn.
const IN_TIME: Duration = Duration::from_secs(75);

/// The misbehaviour of a hostile client on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    SaysNothing,
    Garbage,
    SpeaksHttp,
    HalfFrame,
    TooLong,
    AsksBeforeHello,
    HelloTwice,
    WrongVersion,
    Forbidden,
    SameIdTwice,
    Floods,
    NeverReads,
    Nonsense,
    HangsUp,
}

const ALL: [Deed; 14] = [
    Deed::SaysNothing,
    Deed::Garbage,
    Deed::SpeaksHttp,
    Deed::HalfFrame,
    Deed::TooLong,
    Deed::AsksBeforeHello,
    Deed::HelloTwice,
    Deed::WrongVersion,
    Deed::Forbidden,
    Deed::SameIdTwice,
    Deed::Floods,
    Deed::NeverReads,
    Deed::Nonsense,
    Deed::HangsUp,
];

pub(crate) struct Hostile {
    peer: Peer,
    deed: Deed,
    /// When the server must have closed the connection.
    must_end: Option<Duration>,
    /// The number of the server that the client connected to. The client expects nothing of a later server.
    server: u64,
    leaves_at: Duration,
}

impl Deed {
    /// How soon the server must end the connection; `None` if it need not end it.
    fn ends_within(self) -> Option<Duration> {
        match self {
            Self::SaysNothing | Self::HalfFrame => Some(IN_TIME),
            // The first request may be refused, and answered, before the second one is read.
            Self::SameIdTwice => None,
            Self::Floods | Self::NeverReads | Self::Nonsense | Self::HangsUp => None,
            _ => Some(AT_ONCE),
        }
    }

    /// The bytes that the client writes when it connects.
    fn bytes(self, dice: &mut Dice) -> Vec<u8> {
        let mut out = Vec::new();
        let hello = |out: &mut Vec<u8>, v: u32| {
            let body = format!(r#"{{"v":[{v}],"role":"client","name":"hostile","pid":{PID}}}"#);
            put(out, Type::Hello, 0, "", body.as_bytes());
        };
        match self {
            Self::SaysNothing | Self::Garbage | Self::SpeaksHttp | Self::TooLong => {}
            Self::WrongVersion => hello(&mut out, 2),
            Self::AsksBeforeHello => list(&mut out, 1),
            _ => hello(&mut out, 1),
        }
        match self {
            Self::Garbage => out.extend((0..200).map(|_| dice.below(256) as u8).map(not_http)),
            Self::SpeaksHttp => out.extend_from_slice(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            Self::TooLong => out.extend_from_slice(&[0xff; 40].map(not_http)),
            Self::HalfFrame => out.extend_from_slice(&[0, 0, 4, 0, 1, 0, 0, 3, 0, 0]),
            Self::HelloTwice => hello(&mut out, 1),
            Self::Forbidden => {
                let all = [
                    Type::Res,
                    Type::Started,
                    Type::Ready,
                    Type::Event,
                    Type::Welcome,
                ];
                put(&mut out, *dice.of_all(&all), 3, "", b"");
            }
            Self::SameIdTwice => (0..2).for_each(|_| call(&mut out, 9)),
            Self::Floods => (1..2_000).for_each(|id| list(&mut out, id)),
            Self::NeverReads => (1..60).for_each(|id| call(&mut out, id)),
            Self::Nonsense => nonsense(&mut out),
            Self::HangsUp => {
                (1..20).for_each(|id| call(&mut out, id));
                out.truncate(out.len() - 7);
            }
            _ => {}
        }
        out
    }
}

/// Sets the high bit. A first byte with it begins neither a frame nor HTTP nor TLS, which would be another deed.
fn not_http(byte: u8) -> u8 {
    byte | 0x80
}

fn put(out: &mut Vec<u8>, kind: Type, id: u32, name: &str, body: &[u8]) {
    let frame = Encode {
        name,
        body,
        prio: u8::from(kind == Type::Req) * 3,
        ..Encode::new(kind, id)
    };
    stoker_wire::encode(out, frame);
}

fn list(out: &mut Vec<u8>, id: u32) {
    put(out, Type::Req, id, "stoker.queue", br#"{"op":"list"}"#);
}

/// A call that a worker gets, if there is such a service.
fn call(out: &mut Vec<u8>, id: u32) {
    put(out, Type::Req, id, "s0.ask", &[7; 300]);
}

/// Valid frames with invalid content.
fn nonsense(out: &mut Vec<u8>) {
    put(out, Type::Req, 1, "no.such", b"");
    put(out, Type::Req, 2, "stoker.nothing", b"{}");
    put(out, Type::Req, 3, "stoker.job", b"{\"op\":");
    put(
        out,
        Type::Req,
        4,
        "stoker.job",
        br#"{"op":"cancel","all":true}"#,
    );
    put(
        out,
        Type::Req,
        5,
        "stoker.pool",
        br#"{"op":"scale","pool":"p0","min":0,"max":0}"#,
    );
    put(out, Type::Req, 6, "stoker.push", b"no queue");
    let mut meta = MetaBuf::new();
    meta.push(Key::QUEUE, b"nobody serves it, and it is no name");
    let frame = Encode {
        name: "stoker.push",
        meta: meta.as_meta(),
        ..Encode::new(Type::Req, 7)
    };
    stoker_wire::encode(out, frame);
    put(out, Type::Cancel, 99, "", b"");
    put(out, Type::Ping, 5, "", b"");
}

impl World {
    pub(crate) fn hostiles_come(&mut self) {
        self.hostiles = (0..self.lively.hostile).map(|_| None).collect();
        for no in 0..self.hostiles.len() {
            let at = self.dice("hostile").millis(0, 100);
            self.agenda.plan(at, What::HostileActs(no));
        }
    }

    /// The hostile client checks its connection, or makes a new one.
    pub(crate) fn hostile_acts(&mut self, no: usize) {
        if self.waits_since.is_some() || self.stops.is_last() {
            return drop(self.hostiles[no].take());
        }
        match self.hostiles[no].take() {
            None => self.hostile_connects(no),
            Some(hostile) => self.hostiles[no] = self.hostile_looks(hostile),
        }
        let pause = self.dice("hostile").millis(1, 400);
        let next = self.setup.after_break(steady() + pause);
        self.agenda.plan(next, What::HostileActs(no));
    }

    fn hostile_connects(&mut self, no: usize) {
        let from = stoker_os::Peer {
            pid: PID + no as i32,
            uid: USER,
        };
        let deed = *self.dice("hostile").of_all(&ALL);
        self.note(|| format!("  hostile {no}: {deed:?}"));
        let bytes = deed.bytes(self.dice("hostile"));
        let stays = self.dice("hostile").millis(0, 3_000);
        let fd = sim::connect(Path::new(SOCKET), from).expect("it listens");
        if self.server.is_none() {
            return; // The next server may take long to start.
        }
        let mut peer = Peer::new(fd);
        peer.put_bytes(&bytes);
        let now = steady();
        let must_end = deed.ends_within().map(|time| now + time);
        self.hostiles[no] = (deed != Deed::HangsUp).then(|| Hostile {
            peer,
            deed,
            must_end,
            server: self.angel.servers(),
            leaves_at: must_end.unwrap_or(now + stays) + Duration::from_millis(1),
        });
    }

    /// Checks the connection. Returns the client while the connection is open.
    fn hostile_looks(&mut self, mut hostile: Hostile) -> Option<Hostile> {
        hostile.peer.flush();
        let is_open = hostile.deed == Deed::NeverReads || !hostile.peer.skip();
        let is_same = self.server.is_some() && hostile.server == self.angel.servers();
        let is_late = is_open && is_same && hostile.must_end.is_some_and(|end| steady() > end);
        let deed = hostile.deed;
        assert!(!is_late, "a client is still connected that {deed:?}");
        (is_open && steady() < hostile.leaves_at).then_some(hostile)
    }
}
