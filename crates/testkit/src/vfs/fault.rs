//! The faults of a disk, and the trait that decides when they happen.

use rustix::io::Errno;
use std::fmt;

/// The sort of system call that a call models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Opens a file, or creates it.
    Open,
    Read,
    Write,
    Truncate,
    /// Syncs a file's content.
    Sync,
    /// Syncs the names in a folder.
    SyncFolder,
    /// Reads the length of an open file.
    Size,
    /// Reads the metadata of a path. Real disks rarely fail here, and SQLite treats a file that it can't examine as
    /// missing: it then ignores a journal that must be rolled back, and may damage the database later.
    Stat,
    Delete,
    Rename,
    /// Enlarges the shared memory of a database.
    Map,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Truncate,
        Self::Sync,
        Self::SyncFolder,
        Self::Size,
        Self::Stat,
        Self::Delete,
        Self::Rename,
        Self::Map,
    ];
}

/// A call that is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The number of the call, counted from 1. Calls of a dead process don't count.
    pub number: u64,
    pub kind: Kind,
    /// The path by which the file was opened. Shared memory is `PATH-shm`.
    pub file: &'a str,
    pub offset: u64,
    pub len: u64,
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            kind,
            file,
            offset,
            len,
        } = self;
        write!(f, "{number} {kind:?} {file} {offset}+{len}")
    }
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the call returns this error. A sync that fails this way leaves what it should have written
    /// dirty: the next one writes it.
    Error(Errno),
    /// A write writes this many bytes, then fails. Any other call just fails.
    Torn { len: u64, error: Errno },
    /// A sync fails with `EIO` as on Linux: the first `kept` writes reach the disk; the others are marked as clean and
    /// never reach it unless they are written again. They can be read until [`super::Disk::evict`] or a power cut. Any
    /// other call fails with `EIO`.
    Lost { kept: usize },
    /// The call succeeds after this many microseconds of virtual time.
    Slow(u64),
    /// The process is killed before the call, see [`super::Disk::kill`].
    Kill,
    /// The power is cut before the call, see [`super::Disk::power_cut`]; the number seeds what survives.
    PowerCut(u64),
}

/// Decides which calls fail. It is called while the disk is locked, so it must not use the disk itself.
pub trait Faults: Send {
    fn draw(&mut self, call: &Call<'_>) -> Option<Fault>;
}

impl<F: FnMut(&Call<'_>) -> Option<Fault> + Send> Faults for F {
    fn draw(&mut self, call: &Call<'_>) -> Option<Fault> {
        self(call)
    }
}

/// The work that is left for a call that does not fail outright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Whole,
    Torn { len: u64, error: Errno },
    Lost { kept: usize },
}

impl Effect {
    /// For calls that either do all of their work or fail.
    pub(super) fn whole(self) -> Result<(), Errno> {
        match self {
            Self::Whole => Ok(()),
            Self::Torn { error, .. } => Err(error),
            Self::Lost { .. } => Err(Errno::IO),
        }
    }
}
