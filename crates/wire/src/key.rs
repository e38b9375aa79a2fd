//! Keys of metadata.

/// A metadata key. Constants name the keys of the protocol page; others pass through untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub u8);

/// The valid values of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Any,
    /// An integer or an id of exactly this many bytes. With 0, the key carries no value: only its presence
    /// counts.
    Bytes(usize),
    /// At most this many bytes.
    AtMost(usize),
    /// A key chosen by the user: 1 to 200 bytes.
    UserKey,
    /// 1 to 100 integers of 4 bytes each.
    Delays,
    /// The name of a queue.
    Name,
    /// 1 to 255 bytes of UTF-8.
    Text,
}

/// Who reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// The receiver of the frame: on a push, the key is passed on to the worker.
    Peer,
    /// The server: the key says how a job is to be treated and is not passed on to the worker.
    Server,
}

/// The table of all keys. Everything that depends on a key is derived from this table.
macro_rules! keys {
    ($($constant:ident = $byte:literal $name:literal, $shape:expr, $whose:expr;)+) => {
        named! { Key { $($constant = $byte $name,)+ } }

        const TABLE: [Option<(Shape, Reader)>; 256] = {
            let mut table = [None; 256];
            $(table[$byte] = Some(($shape, $whose));)+
            table
        };
    };
}

use Reader::{Peer, Server};
use Shape::{Any, AtMost, Bytes, Delays, Name, Text, UserKey};

keys! {
    TRACEPARENT = 1 "traceparent", Any, Peer;
    TRACESTATE = 2 "tracestate", Any, Peer;
    BAGGAGE = 3 "baggage", Any, Peer;
    AFFINITY = 4 "affinity key", Any, Peer;
    FAIRNESS = 5 "fairness key", UserKey, Server;
    IDEMPOTENCY = 6 "idempotency key", UserKey, Server;
    CALLER = 7 "caller", Any, Peer;
    TOKEN = 8 "token", Any, Peer;
    PIN = 9 "pin", Any, Peer;
    PARENT = 10 "parent", Bytes(4), Server;
    RETRY_AFTER = 11 "retry after", Bytes(4), Peer;
    QUEUE_TIME = 12 "queue time", Bytes(4), Peer;
    WORKER = 13 "worker", Any, Peer;
    ERROR_CLASS = 14 "error class", Any, Peer;
    DEADLINE_ORIGIN = 15 "deadline origin", Any, Peer;
    JOB_ID = 16 "job id", Bytes(16), Server;
    DELAY = 17 "delay", Bytes(8), Server;
    UNIQUE = 18 "unique key", UserKey, Server;
    TRIES = 19 "tries", Bytes(2), Server;
    BACKOFF = 20 "backoff", Delays, Server;
    COST = 21 "cost", Bytes(4), Server;
    TIMEOUT = 22 "timeout", Bytes(4), Server;
    DUE_AT = 23 "due at", Bytes(8), Server;
    QUEUE = 24 "queue", Name, Server;
    CRASHES = 25 "crashes", Bytes(1), Server;
    ERROR_PLACE = 26 "error place", Any, Peer;
    CREATED_AT = 27 "created at", Bytes(8), Server;
    RETRY_UNTIL = 28 "retry until", Bytes(8), Server;
    MAX_EXCEPTIONS = 29 "max exceptions", Bytes(2), Server;
    FAIL_ON_TIMEOUT = 30 "fail on timeout", Bytes(0), Server;
    UNIQUE_UNTIL_START = 31 "unique until start", Bytes(0), Server;
    UNIQUE_FOR = 32 "unique for", Bytes(8), Server;
    JOB_TYPE = 33 "job type", Text, Server;
    KEEP_RESULT = 34 "keep result", Bytes(8), Server;
    CHECKPOINT = 35 "checkpoint", AtMost(32 << 10), Server;
    ITEM = 36 "item", Bytes(4), Peer;
    SIGNAL = 37 "signal", Bytes(4), Peer;
    CLIENT_ADDRESS = 38 "client address", Any, Peer;
    SCRIPT = 39 "script", Any, Peer;
    DOCUMENT_ROOT = 40 "document root", Any, Peer;
    BODY_FILE = 41 "body file", Any, Peer;
    CREDIT = 42 "credit", Bytes(4), Server;
    TRAILERS = 43 "trailers", Any, Peer;
    ANSWER_DIRECTORY = 44 "answer directory", Any, Peer;
}

impl Key {
    /// The first key of the application's own range. The range ends at 254, because 255 is not a valid key.
    pub const APPLICATION: Self = Self(0x80);

    /// Whether the key is in the table or in the application's own range. A CRITICAL frame with any other key is
    /// rejected.
    #[must_use]
    pub fn is_known(self) -> bool {
        TABLE[usize::from(self.0)].is_some() || (Self::APPLICATION.0..255).contains(&self.0)
    }

    /// Whether the key tells the server how to treat a job. Such a key is not passed on to the worker.
    #[must_use]
    pub fn is_for_server(self) -> bool {
        matches!(TABLE[usize::from(self.0)], Some((_, Server)))
    }

    pub(crate) fn accepts(self, value: &[u8]) -> bool {
        let Some((shape, _)) = TABLE[usize::from(self.0)] else {
            return true;
        };
        match shape {
            Any => true,
            Bytes(width) => value.len() == width,
            AtMost(max) => value.len() <= max,
            UserKey => (1..=200).contains(&value.len()),
            Delays => value.len().is_multiple_of(4) && (4..=400).contains(&value.len()),
            Name => crate::check_name(value).is_ok(),
            Text => (1..=255).contains(&value.len()) && std::str::from_utf8(value).is_ok(),
        }
    }
}
