//! A file, whatever its names are.

use super::content::Content;
use super::lock::Locks;
use super::shm::Shm;

/// A file, whatever its names are.
#[derive(Debug, Default)]
pub(super) struct Inode {
    pub(super) content: Content,
    /// How often it is open.
    pub(super) opens: u32,
    pub(super) locks: Locks,
    /// Who holds its `flock`.
    pub(super) flock: Option<u64>,
    pub(super) shm: Option<Shm>,
}

impl Inode {
    /// The process that had it open is gone.
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
