//! The operating system as the data plane and the job store use it: sockets, readiness, processes, files and clocks.
//! They make no other system calls, so a kernel in memory with simulated time can replace the real one (feature
//! `sim`).
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
    sync_parent_dir, truncate, vfs, write_all_at,
};
#[cfg(feature = "sim")]
pub use sim::kernel::*;
#[cfg(feature = "sim")]
pub use sim::thread::{Thread, spawn};

/// A limit: `real` in production, `simulated` in the simulation, whose runs are too short to reach the production
/// value.
#[must_use]
pub const fn limit(real: usize, simulated: usize) -> usize {
    match cfg!(feature = "sim") {
        true => simulated,
        false => real,
    }
}

/// The maximum number of descriptors in one record.
pub const MAX_FDS: usize = 3;

/// The maximum length of a socket's path, in bytes (unix(7)).
pub const MAX_SOCKET_PATH: usize = 107;

/// The process at the other end of a socket, as the kernel reports it. The pid is 0 if the peer is in a PID namespace
/// that is not visible from here; the uid is valid even then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub pid: i32,
    pub uid: u32,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token given when the descriptor was added.
    pub token: u64,
    /// Whether there is something to read. The end of the stream and errors count too.
    pub readable: bool,
    pub writable: bool,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    /// For writing. A file that has to be created is accessible to its owner only.
    Create,
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The file's device and inode, which identify it under any name.
    pub identity: (u64, u64),
    pub len: u64,
}
