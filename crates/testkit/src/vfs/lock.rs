//! Locks of a database file, as SQLite's unix VFS grants them to connections of one process.

use super::File;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// SQLite's lock levels, with SQLite's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    None = 0,
    Shared = 1,
    Reserved = 2,
    Pending = 3,
    Exclusive = 4,
}

impl Level {
    pub(super) fn from_number(number: i32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Shared,
            2 => Self::Reserved,
            3 => Self::Pending,
            _ => Self::Exclusive,
        }
    }
}

/// The lock levels of open files, by the number of the open file.
#[derive(Debug, Default)]
pub(super) struct Locks(BTreeMap<u64, Level>);

impl Locks {
    pub(super) fn of(&self, handle: u64) -> Level {
        self.0.get(&handle).copied().unwrap_or_default()
    }

    fn highest(&self) -> Level {
        self.0.values().copied().max().unwrap_or_default()
    }

    /// Requests a lock. Returns whether it was granted.
    pub(super) fn lock(&mut self, handle: u64, to: Level) -> bool {
        let (own, highest) = (self.of(handle), self.highest());
        if own >= to {
            return true;
        }
        if own != highest && (highest >= Level::Pending || to > Level::Shared) {
            return false;
        }
        if to == Level::Exclusive {
            // From here on no new reader can start, and the current ones can finish.
            if own == Level::Reserved {
                self.0.insert(handle, Level::Pending);
            }
            if self.0.len() > 1 {
                return false;
            }
        }
        self.0.insert(handle, to);
        true
    }

    pub(super) fn unlock(&mut self, handle: u64, to: Level) {
        if to == Level::None {
            self.0.remove(&handle);
        } else if self.of(handle) > to {
            self.0.insert(handle, to);
        }
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.highest() > Level::Shared
    }
}

impl File {
    /// Requests one of SQLite's locks on the file. Returns whether it was granted.
    pub(super) fn lock(&self, level: Level) -> Result<bool, Errno> {
        let mut state = self.alive()?;
        Ok(self.file(&mut state)?.locks.lock(self.handle, level))
    }

    pub(super) fn unlock(&self, level: Level) -> Result<(), Errno> {
        let mut state = self.alive()?;
        self.file(&mut state)?.locks.unlock(self.handle, level);
        Ok(())
    }

    pub(super) fn is_reserved(&self) -> Result<bool, Errno> {
        let mut state = self.alive()?;
        Ok(self.file(&mut state)?.locks.is_reserved())
    }

    pub(super) fn lock_level(&self) -> Level {
        let mut state = self.disk().state();
        let file = self.file(&mut state);
        file.map_or(Level::None, |file| file.locks.of(self.handle))
    }
}
