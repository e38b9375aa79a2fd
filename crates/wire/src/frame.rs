use crate::Meta;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    Req = 1,
    Res = 2,
    Cancel = 3,
    Hello = 4,
    Welcome = 5,
    Ping = 7,
    Pong = 8,
    Goaway = 9,
    Event = 12,
    Started = 13,
}

impl Type {
    pub const ALL: [Self; 10] = [
        Self::Req,
        Self::Res,
        Self::Cancel,
        Self::Hello,
        Self::Welcome,
        Self::Ping,
        Self::Pong,
        Self::Goaway,
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
            7 => Self::Ping,
            8 => Self::Pong,
            9 => Self::Goaway,
            12 => Self::Event,
            13 => Self::Started,
            _ => return None,
        })
    }
}

/// A frame's flag bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    pub const NONE: Self = Self(0);
    /// No answer is wanted, and the client's going does not cancel the call.
    pub const ONEWAY: Self = Self(0x08);
    /// The call may run again if its worker dies.
    pub const IDEMPOTENT: Self = Self(0x10);
    /// A mirrored copy: side effects are to be refused.
    pub const SHADOW: Self = Self(0x20);
    /// No worker started this task.
    pub const NOT_PROCESSED: Self = Self(0x40);
    /// The frame is to be refused if it has unknown metadata.
    pub const CRITICAL: Self = Self(0x80);
    pub(crate) const RESERVED: u8 = 0x07;

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How a body is encoded. The broker never looks inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codec(pub u8);

impl Codec {
    pub const RAW: Self = Self(0);
    pub const JSON: Self = Self(1);
}

/// How a task ended, in the `code` byte of a RES. 64 and above belong to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u8);

impl Status {
    pub const OK: Self = Self(0);
    pub const CANCELLED: Self = Self(1);
    pub const UNKNOWN: Self = Self(2);
    pub const INVALID_ARGUMENT: Self = Self(3);
    pub const DEADLINE_EXCEEDED: Self = Self(4);
    pub const NOT_FOUND: Self = Self(5);
    pub const ALREADY_EXISTS: Self = Self(6);
    pub const PERMISSION_DENIED: Self = Self(7);
    pub const RESOURCE_EXHAUSTED: Self = Self(8);
    pub const FAILED_PRECONDITION: Self = Self(9);
    pub const UNIMPLEMENTED: Self = Self(12);
    pub const INTERNAL: Self = Self(13);
    pub const UNAVAILABLE: Self = Self(14);
    pub const UNAUTHENTICATED: Self = Self(16);
    pub const NO_WORKER: Self = Self(32);
    pub const WORKER_DIED: Self = Self(33);
    pub const QUARANTINED: Self = Self(34);
    pub const SHED: Self = Self(35);
    /// A job's code asks for another run.
    pub const RETRY: Self = Self(48);
    /// A job's code gives the job up.
    pub const FAILED: Self = Self(49);
    /// The worker did not start the task.
    pub const RETURNED: Self = Self(50);
    /// An uncaught exception in the application.
    pub const EXCEPTION: Self = Self(64);

    /// The name that people see, as in the protocol page.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "OK",
            1 => "CANCELLED",
            3 => "INVALID_ARGUMENT",
            4 => "DEADLINE_EXCEEDED",
            5 => "NOT_FOUND",
            6 => "ALREADY_EXISTS",
            7 => "PERMISSION_DENIED",
            8 => "RESOURCE_EXHAUSTED",
            9 => "FAILED_PRECONDITION",
            12 => "UNIMPLEMENTED",
            13 => "INTERNAL",
            14 => "UNAVAILABLE",
            16 => "UNAUTHENTICATED",
            32 => "NO_WORKER",
            33 => "WORKER_DIED",
            34 => "QUARANTINED",
            35 => "SHED",
            48 => "RETRY",
            49 => "FAILED",
            50 => "RETURNED",
            64.. => "EXCEPTION",
            _ => "UNKNOWN",
        }
    }
}

/// What an EVENT frame tells, in its `code` byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind(pub u8);

impl EventKind {
    pub const LOG: Self = Self(1);
    pub const METRIC: Self = Self(2);
    pub const PROGRESS: Self = Self(3);
    pub const LAST_WORDS: Self = Self(4);
    pub const CHECKPOINT: Self = Self(5);
}

/// One frame, borrowed from the bytes it was read from. Its name, metadata and ids have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: Type,
    pub flags: Flags,
    /// REQ: codec. RES: status. EVENT: kind.
    pub code: u8,
    /// REQ: priority and hops. RES: codec. EVENT of kind log: stream.
    pub prio: u8,
    pub id: u32,
    /// REQ: milliseconds left. RES from a worker: microseconds worked.
    pub ttl: u32,
    pub attempt: u8,
    pub name: &'a str,
    pub meta: Meta<'a>,
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// 0 (first) to 7 (last).
    pub fn priority(&self) -> u8 {
        self.prio & 7
    }

    pub fn status(&self) -> Status {
        Status(self.code)
    }
}
