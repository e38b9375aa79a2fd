//! What the data plane and the job store ask of the operating system: sockets, readiness, processes, files and clocks.
//! They ask nowhere else, so that a kernel in memory can take the place of the real one (feature `sim`), under a time
//! that is only counted.
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
pub use sim::file::{
    File, lock_file, open_file, read_at, read_exact_at, read_file, stat, stat_file, sync_file,
    sync_folder_of, truncate, vfs, write_all_at,
};
#[cfg(feature = "sim")]
pub use sim::kernel::*;
#[cfg(feature = "sim")]
pub use sim::thread::{Thread, spawn};

/// A limit: the first value in production, the second in the simulation, whose seeds are too small to reach the first.
#[must_use]
pub const fn bound(real: usize, simulated: usize) -> usize {
    match cfg!(feature = "sim") {
        true => simulated,
        false => real,
    }
}

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

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    /// For writing, and for its owner alone if it has to be created.
    Create,
}

/// What there is to know about a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its device and inode, by which it is known whatever its names are.
    pub identity: (u64, u64),
    pub len: u64,
}
