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
    UpTo(usize),
    /// A key chosen by the user: 1 to 200 bytes.
    Short,
    /// 1 to 100 integers of 4 bytes each.
    Waits,
    /// The name of a queue.
    Name,
    /// 1 to 255 bytes of UTF-8.
    Text,
}

/// Who reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// The receiver of the frame: on a push, the key is passed on to the worker.
    Peer,
    /// The server: the key says how a job is to be treated and is not passed on to the worker.
    Broker,
}

/// The table of all keys. Everything that depends on a key is derived from this table.
macro_rules! keys {
    ($($constant:ident = $byte:literal $name:literal, $shape:expr, $whose:expr;)+) => {
        named! { Key { $($constant = $byte $name,)+ } }

        const TABLE: [Option<(Shape, For)>; 256] = {
            let mut table = [None; 256];
            $(table[$byte] = Some(($shape, $whose));)+
            table
        };
    };
}

use For::{Broker, Peer};
use Shape::{Any, Bytes, Name, Short, Text, UpTo, Waits};

keys! {
    TRACEPARENT = 1 "traceparent", Any, Peer;
    TRACESTATE = 2 "tracestate", Any, Peer;
    BAGGAGE = 3 "baggage", Any, Peer;
    AFFINITY = 4 "affinity key", Any, Peer;
    FAIRNESS = 5 "fairness key", Short, Broker;
    IDEMPOTENCY = 6 "idempotency key", Short, Broker;
    CALLER = 7 "caller", Any, Peer;
    TOKEN = 8 "token", Any, Peer;
    PIN = 9 "pin", Any, Peer;
    PARENT = 10 "parent", Bytes(4), Broker;
    RETRY_AFTER = 11 "retry after", Bytes(4), Peer;
    QUEUE_TIME = 12 "queue time", Bytes(4), Peer;
    WORKER = 13 "worker", Any, Peer;
    ERROR_CLASS = 14 "error class", Any, Peer;
    DEADLINE_ORIGIN = 15 "deadline origin", Any, Peer;
    JOB_ID = 16 "job id", Bytes(16), Broker;
    DELAY = 17 "delay", Bytes(8), Broker;
    UNIQUE = 18 "unique key", Short, Broker;
    TRIES = 19 "tries", Bytes(2), Broker;
    BACKOFF = 20 "backoff", Waits, Broker;
    COST = 21 "cost", Bytes(4), Broker;
    TIMEOUT = 22 "timeout", Bytes(4), Broker;
    DUE_AT = 23 "due at", Bytes(8), Broker;
    QUEUE = 24 "queue", Name, Broker;
    CRASHES = 25 "crashes", Bytes(1), Broker;
    ERROR_PLACE = 26 "error place", Any, Peer;
    CREATED_AT = 27 "created at", Bytes(8), Broker;
    RETRY_UNTIL = 28 "retry until", Bytes(8), Broker;
    MAX_EXCEPTIONS = 29 "max exceptions", Bytes(2), Broker;
    FAIL_ON_TIMEOUT = 30 "fail on timeout", Bytes(0), Broker;
    UNIQUE_UNTIL_START = 31 "unique until start", Bytes(0), Broker;
    UNIQUE_FOR = 32 "unique for", Bytes(8), Broker;
    JOB_TYPE = 33 "job type", Text, Broker;
    KEEP_RESULT = 34 "keep result", Bytes(8), Broker;
    CHECKPOINT = 35 "checkpoint", UpTo(32 << 10), Broker;
    ITEM = 36 "item", Bytes(4), Peer;
    SIGNAL = 37 "signal", Bytes(4), Peer;
}

impl Key {
    /// The first key of the application's own range. The range ends at 254, because 255 is not a valid key.
    pub const YOURS: Self = Self(0x80);

    /// Whether the key is in the table or in the application's own range. A CRITICAL frame with any other key is
    /// rejected.
    #[must_use]
    pub fn is_known(self) -> bool {
        TABLE[usize::from(self.0)].is_some() || (Self::YOURS.0..255).contains(&self.0)
    }

    /// Whether the key tells the server how to treat a job. Such a key is not passed on to the worker.
    #[must_use]
    pub fn is_for_push(self) -> bool {
        matches!(TABLE[usize::from(self.0)], Some((_, Broker)))
    }

    pub(crate) fn accepts(self, value: &[u8]) -> bool {
        let Some((shape, _)) = TABLE[usize::from(self.0)] else {
            return true;
        };
        match shape {
            Any => true,
            Bytes(width) => value.len() == width,
            UpTo(most) => value.len() <= most,
            Short => (1..=200).contains(&value.len()),
            Waits => value.len().is_multiple_of(4) && (4..=400).contains(&value.len()),
            Name => crate::check_name(value).is_ok(),
            Text => (1..=255).contains(&value.len()) && std::str::from_utf8(value).is_ok(),
        }
    }
}
