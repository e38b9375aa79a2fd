//! Errors in bytes received from a peer.

use std::fmt;

/// Why bytes are not a valid frame of version 1. Each of these errors ends the connection: after
/// one, the start of the next frame cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The length field is less than the 16 bytes of header that it counts.
    TooShort { len: usize },
    /// The length field is greater than this side accepts.
    TooLong { len: usize, max: usize },
    /// Name and metadata together are longer than the frame.
    Overrun {
        len: usize,
        name: usize,
        meta: usize,
    },
    /// A frame type that version 1 does not have.
    UnknownType(u8),
    /// Reserved flag bits are set.
    ReservedFlags(u8),
    /// A name that is too long or contains an invalid byte, that is missing, or that is not allowed
    /// on this type.
    BadName,
    /// Metadata that ends inside an entry, repeats a key, or uses a reserved key.
    BadMeta,
    /// A metadata value whose length or content is invalid for its key.
    BadMetaValue(u8),
    /// An id of 0 where a task's id is required, or an id other than 0 where 0 is required.
    BadId,
    /// A code, prio or attempt other than 0 on a type that does not use it.
    NotZero,
    /// A HELLO or WELCOME whose JSON cannot be read.
    BadHello,
    /// A HELLO that offers no protocol version that this side speaks.
    NoCommonVersion,
    /// A HELLO whose number of slots is not between 1 and 1000, or is not 1 although `pull` is set.
    BadSlots,
    /// A HELLO of a worker that takes no tasks at all (`tasks` is 0).
    BadTasks,
    /// A HELLO with a call that is not of the form `service.method`, or that begins with `stoker.`,
    /// which is reserved for the server.
    BadCall,
    /// A HELLO with more names than [`crate::MAX_NAMES`].
    TooManyNames(usize),
    /// A READY that requests a number of tasks other than 0 or 1.
    BadReady(u32),
    /// A CREDIT of 0 bytes.
    NoCredit,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { len } => write!(f, "frame length {len} is below the minimum of 16"),
            Self::TooLong { len, max } => {
                write!(f, "frame length {len} is above the limit of {max}")
            }
            Self::Overrun { len, name, meta } => write!(
                f,
                "name ({name}) and metadata ({meta}) do not fit in a frame of length {len}"
            ),
            Self::UnknownType(t) => write!(f, "unknown frame type {t}"),
            Self::ReservedFlags(bits) => write!(f, "reserved flag bits {bits:#04x} are set"),
            Self::BadName => f.write_str(
                "invalid name: expected 1 to 255 characters from A-Z a-z 0-9 _ . : / @ - on a REQ, none elsewhere",
            ),
            Self::BadMeta => {
                f.write_str("metadata ends inside an entry, repeats a key or uses key 0 or 255")
            }
            Self::BadMetaValue(key) => {
                write!(f, "metadata key {key} has an invalid value")
            }
            Self::BadId => {
                f.write_str("id is 0 where a task's id belongs, or not 0 where 0 belongs")
            }
            Self::NotZero => f.write_str("code, prio or attempt is not 0 on a type that has none"),
            Self::BadHello => f.write_str("HELLO is not valid: its body must be a JSON object as the protocol \
            describes it"),
            Self::NoCommonVersion => f.write_str(
                "HELLO offers no supported version of the protocol: its field v must contain 1",
            ),
            Self::BadTasks => f.write_str("HELLO: tasks must be at least 1"),
            Self::BadSlots => f.write_str(
                "HELLO has an invalid number of slots: expected 1 to 1000, and 1 if pull is true",
            ),
            Self::BadCall => f.write_str(
                "HELLO has an invalid call: expected service.method, and not stoker.*, which is reserved for the \
                 server",
            ),
            Self::TooManyNames(names) => write!(
                f,
                "HELLO names {names} calls and queues: at most {} are allowed",
                crate::MAX_NAMES
            ),
            Self::NoCredit => f.write_str("CREDIT grants 0 bytes: expected at least 1"),
            Self::BadReady(count) => {
                write!(f, "READY asks for {count} tasks: expected 0 or 1")
            }
        }
    }
}

impl std::error::Error for WireError {}
