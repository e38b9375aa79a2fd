//! A frame, and its types, flags, statuses and codecs.

use crate::Meta;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    Req = 1,
    Res = 2,
    Cancel = 3,
    Hello = 4,
    Welcome = 5,
    Ready = 6,
    Ping = 7,
    Pong = 8,
    Goaway = 9,
    /// A part of an answer.
    Data = 10,
    /// Permission to send more parts.
    Credit = 11,
    Event = 12,
    Started = 13,
}

impl Type {
    pub const ALL: [Self; 13] = [
        Self::Req,
        Self::Res,
        Self::Cancel,
        Self::Hello,
        Self::Welcome,
        Self::Ready,
        Self::Ping,
        Self::Pong,
        Self::Goaway,
        Self::Data,
        Self::Credit,
        Self::Event,
        Self::Started,
    ];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Req,
            2 => Self::Res,
            3 => Self::Cancel,
            4 => Self::Hello,
            5 => Self::Welcome,
            6 => Self::Ready,
            7 => Self::Ping,
            8 => Self::Pong,
            9 => Self::Goaway,
            10 => Self::Data,
            11 => Self::Credit,
            12 => Self::Event,
            13 => Self::Started,
            _ => return None,
        })
    }
}

/// A frame's flag bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

named! { Flags {
    /// Further parts of the answer follow.
    MORE = 0x01 "MORE",
    /// No answer is wanted, and the call is not cancelled when its client disconnects.
    ONEWAY = 0x08 "ONEWAY",
    /// The call may run again if its worker dies.
    IDEMPOTENT = 0x10 "IDEMPOTENT",
    /// A mirrored copy of a call: the worker must not cause side effects.
    SHADOW = 0x20 "SHADOW",
    /// No worker has started this task.
    NOT_PROCESSED = 0x40 "NOT_PROCESSED",
    /// The frame must be rejected if it has unknown metadata.
    CRITICAL = 0x80 "CRITICAL",
} }

impl Flags {
    pub const NONE: Self = Self(0);
    pub(crate) const RESERVED: u8 = 0x06;

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How a body is encoded. The server does not decode bodies of the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codec(pub u8);

named! { Codec {
    RAW = 0 "raw",
    JSON = 1 "JSON",
    PROTOBUF = 2 "protobuf",
    MSGPACK = 3 "msgpack",
    PHP = 4 "PHP `serialize`",
    HTTP = 5 "HTTP",
} }

/// How a task ended, in the `code` byte of a RES or of the last DATA. 64 and above belong to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u8);

named! { Status {
    OK = 0 "OK",
    CANCELLED = 1 "CANCELLED",
    UNKNOWN = 2 "UNKNOWN",
    INVALID_ARGUMENT = 3 "INVALID_ARGUMENT",
    DEADLINE_EXCEEDED = 4 "DEADLINE_EXCEEDED",
    NOT_FOUND = 5 "NOT_FOUND",
    ALREADY_EXISTS = 6 "ALREADY_EXISTS",
    PERMISSION_DENIED = 7 "PERMISSION_DENIED",
    RESOURCE_EXHAUSTED = 8 "RESOURCE_EXHAUSTED",
    FAILED_PRECONDITION = 9 "FAILED_PRECONDITION",
    UNIMPLEMENTED = 12 "UNIMPLEMENTED",
    INTERNAL = 13 "INTERNAL",
    UNAVAILABLE = 14 "UNAVAILABLE",
    UNAUTHENTICATED = 16 "UNAUTHENTICATED",
    NO_WORKER = 32 "NO_WORKER",
    WORKER_DIED = 33 "WORKER_DIED",
    QUARANTINED = 34 "QUARANTINED",
    SHED = 35 "SHED",
    /// The job asks to be retried.
    RETRY = 48 "RETRY",
    /// The job asks to fail without another retry.
    FAILED = 49 "FAILED",
    /// The worker did not start the task.
    RETURNED = 50 "RETURNED",
    /// The process that the worker started for the task died.
    CRASHED = 51 "CRASHED",
} }

impl Status {
    /// An uncaught exception in the application.
    pub const EXCEPTION: Self = Self(64);

    /// The name shown to users, as in the protocol page.
    pub fn name(self) -> &'static str {
        match Self::ALL.iter().find(|(status, _)| *status == self) {
            Some((_, name)) => name,
            None if self.0 >= Self::EXCEPTION.0 => "EXCEPTION",
            None => "UNKNOWN",
        }
    }
}

/// The kind of an EVENT frame, in its `code` byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind(pub u8);

named! { EventKind {
    LOG = 1 "log",
    METRIC = 2 "metric",
    PROGRESS = 3 "progress",
    LAST_WORDS = 4 "last words",
    CHECKPOINT = 5 "checkpoint",
    ACK = 6 "ack",
} }

/// One frame, borrowed from the bytes it was read from. Its name, metadata and ids have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: Type,
    pub flags: Flags,
    /// REQ: codec. RES and the last DATA: status. EVENT: kind.
    pub code: u8,
    /// REQ: priority and hops. RES: codec. EVENT of kind log: stream.
    pub prio: u8,
    pub id: u32,
    /// REQ: milliseconds left. RES and the last DATA from a worker: microseconds worked. CREDIT: bytes.
    pub ttl: u32,
    pub attempt: u8,
    pub name: &'a str,
    pub meta: Meta<'a>,
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// The priority, from 0 (first) to 7 (last).
    pub fn priority(&self) -> u8 {
        self.prio & 7
    }

    pub fn status(&self) -> Status {
        Status(self.code)
    }

    /// Whether the frame is an answer, or the last part of one.
    pub fn ends_answer(&self) -> bool {
        matches!(self.kind, Type::Res | Type::Data) && !self.flags.has(Flags::MORE)
    }
}
