//! Stoker's wire, version 1: bytes to frames and back. No I/O and no allocation on the way in.
//!
//! The format is fixed by `docs/reference/protocol.md`; `sdk/conformance/frames.json` binds this crate and every
//! SDK to it.
#![forbid(unsafe_code)]

/// Gives a byte's type its constants and, in `ALL`, each with its name in the protocol page.
macro_rules! named {
    ($type:ident { $($(#[$doc:meta])* $constant:ident = $byte:literal $name:literal,)+ }) => {
        impl $type {
            $($(#[$doc])* pub const $constant: Self = Self($byte);)+

            /// All that the protocol page names, with the name that they have there.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$constant, $name)),+];
        }
    };
}

mod decode;
mod encode;
mod error;
mod frame;
mod hello;
mod ids;
mod key;
mod meta;
mod name;

pub use decode::{Begun, Splitter, parse};
pub use encode::{Encode, encode, encode_head};
pub use error::WireError;
pub use frame::{Codec, EventKind, Flags, Frame, Status, Type};
pub use hello::{Hello, Role, Welcome};
pub use ids::IdMap;
pub use key::Key;
pub use meta::{Meta, MetaBuf};
pub use name::{MAX_NAME, check_name, service_of};

/// Bytes of a frame's header, its length field included.
pub const HEADER: usize = 20;
/// Bytes of the header that the length field counts.
pub const COUNTED_HEADER: usize = 16;
/// The largest value of the length field in version 1, so that byte 0 of a frame is always 0.
pub const MAX_FRAME: usize = 0x00ff_ffff;
/// The largest HELLO body accepted, in bytes.
pub const MAX_HELLO: usize = 64 * 1024;
/// Names that a HELLO may list.
pub const MAX_NAMES: usize = 1000;
