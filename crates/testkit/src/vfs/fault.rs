//! What can go wrong, and who decides it.

use rustix::io::Errno;
use std::fmt;

/// What sort of system call a call stands for.
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
    /// Asks for the length of an open file.
    Size,
    /// Looks at what is behind a path. Real disks rarely fail here, and SQLite takes a file that it can't look at for
    /// one that is not there: it then ignores a journal that must be rolled back, and may damage the database later.
    Stat,
    Delete,
    Rename,
    /// Makes the shared memory of a database larger.
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
    /// Calls are counted from 1. Those of a dead process don't count.
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
    /// Nothing happens, and this is the error. A sync that fails so leaves what it should have written dirty: the
    /// next one writes it.
    Error(Errno),
    /// A write does this many bytes of its work, then fails. Any other call just fails.
    Torn { len: u64, error: Errno },
    /// A sync fails with `EIO` as on Linux: the first `kept` writes reached the disk, the others are marked as clean
    /// and reach it never, unless they are written again. They can be read until [`super::Disk::evict`] or a power
    /// cut. Any other call fails with `EIO`.
    Lost { kept: usize },
    /// The call succeeds after this many microseconds of virtual time.
    Slow(u64),
    /// The process is killed before the call, see [`super::Disk::kill`].
    Kill,
    /// The power goes before the call, see [`super::Disk::power_cut`]; the number seeds what survives.
    PowerCut(u64),
}

/// Decides which calls fail. It is asked while the disk is locked, so it must not use the disk itself.
pub trait Faults: Send {
    fn draw(&mut self, call: &Call<'_>) -> Option<Fault>;
}

impl<F: FnMut(&Call<'_>) -> Option<Fault> + Send> Faults for F {
    fn draw(&mut self, call: &Call<'_>) -> Option<Fault> {
        self(call)
    }
}

/// What is left for a call to do that does not simply fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Whole,
    Torn { len: u64, error: Errno },
    Lost { kept: usize },
}

impl Effect {
    /// For calls that do all or nothing.
    pub(super) fn whole(self) -> Result<(), Errno> {
        match self {
            Self::Whole => Ok(()),
            Self::Torn { error, .. } => Err(error),
            Self::Lost { .. } => Err(Errno::IO),
        }
    }
}
