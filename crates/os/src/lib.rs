//! What the data plane asks of the operating system: sockets, readiness, processes and clocks. It asks nowhere else, so
//! that a kernel in memory can take the place of the real one (feature `sim`), under a time that is only counted.
#![forbid(unsafe_code)]

#[cfg(not(feature = "sim"))]
mod real;
#[cfg(feature = "sim")]
pub mod sim;

#[cfg(not(feature = "sim"))]
pub use real::*;
pub use rustix::io::Errno;
pub use rustix::process::Signal;
#[cfg(feature = "sim")]
pub use sim::kernel::*;

/// Descriptors that one record carries at the most.
pub const MAX_FDS: usize = 3;

/// Who is at the other end, by the kernel's word. The pid is 0 for a peer in a PID namespace that can't be seen from
/// here; the uid counts all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub pid: i32,
    pub uid: u32,
}

/// Something that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number that it was added with.
    pub token: u64,
    /// An end or an error counts as something to read.
    pub readable: bool,
    pub writable: bool,
}
