//! Version 1 of Stoker's wire protocol: parses bytes into frames and encodes frames. It does no I/O, and parsing
//! a complete frame allocates nothing.
//!
//! The format is specified in `docs/reference/protocol.md`. The vectors in `sdk/conformance/frames.json` test
//! this crate and every SDK against it.
#![forbid(unsafe_code)]

/// Defines the constants of a type that wraps a byte, and `ALL`, the list of them with their names in the
/// protocol page.
macro_rules! named {
    ($type:ident { $($(#[$doc:meta])* $constant:ident = $byte:literal $name:literal,)+ }) => {
        impl $type {
            $($(#[$doc])* pub const $constant: Self = Self($byte);)+

            /// All constants, with their names in the protocol page.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$constant, $name)),+];
        }
    };
}

mod content_type;
mod decode;
mod encode;
mod error;
mod frame;
mod hello;
mod ids;
mod key;
mod meta;
mod name;

pub use decode::{FrameHead, Splitter, parse, parse_head};
pub use encode::{Encode, encode, encode_head};
pub use error::WireError;
pub use frame::{Codec, EventKind, Flags, Frame, Status, Type};
pub use hello::{Hello, Relayed, Role, Welcome};
pub use ids::IdMap;
pub use key::Key;
pub use meta::{Meta, MetaBuf};
pub use name::{MAX_NAME, SITE_PREFIX, check_name, service_of, site_call};

/// Bytes of a frame's header, including its length field.
pub const HEADER: usize = 20;
/// Bytes of the header that the length field counts.
pub const COUNTED_HEADER: usize = 16;
/// The largest value of the length field in version 1, so that byte 0 of a frame is always 0.
pub const MAX_FRAME: usize = 0x00ff_ffff;
/// The largest HELLO body accepted, in bytes.
pub const MAX_HELLO: usize = 64 * 1024;
/// The maximum number of calls and queues in a HELLO.
pub const MAX_NAMES: usize = 1000;
