//! Clients that break the protocol, or use it in ways that no reasonable client would. They run as a separate user, so
//! that their use of quotas affects no other client.

use crate::agenda::PlannedEvent;
use crate::connection::Connection;
use crate::dice::Dice;
use crate::world::{SOCKET, World};
use std::path::Path;
use std::time::Duration;
use stoker_os::{sim, steady};
use stoker_wire::{Encode, Key, MetaBuf, Type};

const PID: i32 = 200_000;
/// The user of hostile clients.
const USER: u32 = 77;
/// The time within which the server closes a connection after it has read invalid bytes.
const MAX_CLOSE_DELAY: Duration = Duration::from_secs(2);
/// The time within which the server closes a connection because of a timeout. It is longer than every `hello_timeout`
/// and `frame_timeout` that a seed can draw.
const MAX_CLOSE_DELAY_AFTER_TIMEOUT: Duration = Duration::from_secs(75);

/// The misbehaviour of a hostile client on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misbehaviour {
    Silence,
    Garbage,
    Http,
    HalfFrame,
    OversizedFrame,
    RequestBeforeHello,
    SecondHello,
    WrongVersion,
    ForbiddenFrame,
    DuplicateId,
    Flood,
    NeverReads,
    InvalidRequests,
    HangUp,
}

const ALL: [Misbehaviour; 14] = [
    Misbehaviour::Silence,
    Misbehaviour::Garbage,
    Misbehaviour::Http,
    Misbehaviour::HalfFrame,
    Misbehaviour::OversizedFrame,
    Misbehaviour::RequestBeforeHello,
    Misbehaviour::SecondHello,
    Misbehaviour::WrongVersion,
    Misbehaviour::ForbiddenFrame,
    Misbehaviour::DuplicateId,
    Misbehaviour::Flood,
    Misbehaviour::NeverReads,
    Misbehaviour::InvalidRequests,
    Misbehaviour::HangUp,
];

pub(crate) struct Hostile {
    connection: Connection,
    misbehaviour: Misbehaviour,
    /// When the server must have closed the connection.
    close_by: Option<Duration>,
    /// The number of the server that the client connected to. The client expects nothing of a later server.
    server: u64,
    leaves_at: Duration,
}

impl Misbehaviour {
    /// How soon the server must end the connection; `None` if it need not end it.
    fn close_timeout(self) -> Option<Duration> {
        match self {
            Self::Silence | Self::HalfFrame => Some(MAX_CLOSE_DELAY_AFTER_TIMEOUT),
            // The first request may be rejected, and answered, before the second one is read.
            Self::DuplicateId => None,
            Self::Flood | Self::NeverReads | Self::InvalidRequests | Self::HangUp => None,
            _ => Some(MAX_CLOSE_DELAY),
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
            Self::Silence | Self::Garbage | Self::Http | Self::OversizedFrame => {}
            Self::WrongVersion => hello(&mut out, 2),
            Self::RequestBeforeHello => list(&mut out, 1),
            _ => hello(&mut out, 1),
        }
        match self {
            Self::Garbage => out.extend((0..200).map(|_| dice.below(256) as u8).map(not_http)),
            Self::Http => out.extend_from_slice(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            Self::OversizedFrame => out.extend_from_slice(&[0xff; 40].map(not_http)),
            Self::HalfFrame => out.extend_from_slice(&[0, 0, 4, 0, 1, 0, 0, 3, 0, 0]),
            Self::SecondHello => hello(&mut out, 1),
            Self::ForbiddenFrame => {
                let all = [
                    Type::Res,
                    Type::Started,
                    Type::Ready,
                    Type::Event,
                    Type::Welcome,
                ];
                put(&mut out, *dice.one_of(&all), 3, "", b"");
            }
            Self::DuplicateId => (0..2).for_each(|_| call(&mut out, 9)),
            Self::Flood => (1..2_000).for_each(|id| list(&mut out, id)),
            Self::NeverReads => (1..60).for_each(|id| call(&mut out, id)),
            Self::InvalidRequests => invalid_requests(&mut out),
            Self::HangUp => {
                (1..20).for_each(|id| call(&mut out, id));
                out.truncate(out.len() - 7);
            }
            _ => {}
        }
        out
    }
}

/// Sets the high bit, so that the first byte begins neither a frame nor HTTP nor TLS, which are other kinds of
/// misbehaviour.
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
fn invalid_requests(out: &mut Vec<u8>) {
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
    meta.push(Key::QUEUE, b"nobody serves it, and it is not a name");
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
    pub(crate) fn plan_hostiles(&mut self) {
        self.hostiles = (0..self.behaviour.hostile_clients).map(|_| None).collect();
        for no in 0..self.hostiles.len() {
            let at = self.dice("hostile").millis(0, 100);
            self.agenda.plan(at, PlannedEvent::HostileActs(no));
        }
    }

    /// The hostile client checks its connection, or makes a new one.
    pub(crate) fn hostile_acts(&mut self, no: usize) {
        if self.all_requested_at.is_some() || self.shutdowns.is_last() {
            return drop(self.hostiles[no].take());
        }
        match self.hostiles[no].take() {
            None => self.hostile_connects(no),
            Some(hostile) => self.hostiles[no] = self.check_hostile(hostile),
        }
        let pause = self.dice("hostile").millis(1, 400);
        let next = self.setup.after_break(steady() + pause);
        self.agenda.plan(next, PlannedEvent::HostileActs(no));
    }

    fn hostile_connects(&mut self, no: usize) {
        let from = stoker_os::Peer {
            pid: PID + no as i32,
            uid: USER,
        };
        let misbehaviour = *self.dice("hostile").one_of(&ALL);
        self.trace(|| format!("  hostile {no}: {misbehaviour:?}"));
        let bytes = misbehaviour.bytes(self.dice("hostile"));
        let stays = self.dice("hostile").millis(0, 3_000);
        let fd = sim::connect(Path::new(SOCKET), from).expect("the server listens");
        if self.server.is_none() {
            return; // The next server may take long to start.
        }
        let mut connection = Connection::new(fd);
        connection.put_bytes(&bytes);
        let now = steady();
        let close_by = misbehaviour.close_timeout().map(|time| now + time);
        self.hostiles[no] = (misbehaviour != Misbehaviour::HangUp).then(|| Hostile {
            connection,
            misbehaviour,
            close_by,
            server: self.angel.servers(),
            leaves_at: close_by.unwrap_or(now + stays) + Duration::from_millis(1),
        });
    }

    /// Checks the connection. Returns the client while the connection is open.
    fn check_hostile(&mut self, mut hostile: Hostile) -> Option<Hostile> {
        hostile.connection.flush();
        let is_open =
            hostile.misbehaviour == Misbehaviour::NeverReads || !hostile.connection.discard();
        let is_same = self.server.is_some() && hostile.server == self.angel.servers();
        let is_late = is_open && is_same && hostile.close_by.is_some_and(|end| steady() > end);
        let misbehaviour = hostile.misbehaviour;
        assert!(
            !is_late,
            "a client is still connected after {misbehaviour:?}"
        );
        (is_open && steady() < hostile.leaves_at).then_some(hostile)
    }
}
