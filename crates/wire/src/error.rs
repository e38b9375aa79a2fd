use std::fmt;

/// Why bytes are not a frame of version 1. Each of these ends the connection: after one of them the
/// place where the next frame starts is not to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The length field is below the 16 bytes of header that it counts.
    TooShort { len: usize },
    /// The length field is above what this side accepts.
    TooLong { len: usize, max: usize },
    /// Name and metadata together are longer than the frame.
    Overrun {
        len: usize,
        name: usize,
        meta: usize,
    },
    /// A type that version 1 does not have.
    UnknownType(u8),
    /// Flag bits that are reserved.
    ReservedFlags(u8),
    /// A name with a byte that names may not have, or a missing or superfluous name.
    BadName,
    /// Metadata that ends inside an entry, repeats a key, or has a reserved key.
    BadMeta,
    /// A metadata value of another width than its key has.
    BadMetaValue(u8),
    /// An id of 0 where a task's id belongs, or another id where 0 belongs.
    BadId,
    /// A code, prio or attempt on a type that has none.
    NotZero,
    /// HELLO or WELCOME whose JSON cannot be read.
    BadHello,
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
                "bad name: 1 to 255 of A-Z a-z 0-9 _ . : / @ - on a REQ, none elsewhere",
            ),
            Self::BadMeta => {
                f.write_str("metadata ends inside an entry, repeats a key or uses key 0 or 255")
            }
            Self::BadMetaValue(key) => {
                write!(f, "metadata key {key} has a value of the wrong width")
            }
            Self::BadId => {
                f.write_str("id is 0 where a task's id belongs, or not 0 where 0 belongs")
            }
            Self::NotZero => f.write_str("code, prio or attempt is not 0 on a type that has none"),
            Self::BadHello => f.write_str("HELLO is not the JSON that the protocol asks for"),
        }
    }
}

impl std::error::Error for WireError {}
