//! A file, independent of its names.

use super::content::Content;
use super::lock::Locks;
use super::shm::Shm;

/// A file, independent of its names.
#[derive(Debug, Default)]
pub(super) struct Inode {
    pub(super) content: Content,
    /// How many times the file is open.
    pub(super) opens: u32,
    pub(super) locks: Locks,
    /// The open file that has the `flock`.
    pub(super) flock: Option<u64>,
    pub(super) shm: Option<Shm>,
}

impl Inode {
    /// Resets the state of a process that had the file open and is gone.
    pub(super) fn abandon(&mut self) {
        self.opens = 0;
        self.locks = Locks::default();
        self.flock = None;
        self.shm = None;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.content.len() + self.shm.as_ref().map_or(0, Shm::bytes)
    }
}
