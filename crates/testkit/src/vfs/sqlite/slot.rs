//! What SQLite is given as a VFS.

use super::super::Disk;
use super::super::disk::Shared;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// A VFS that SQLite knows. It is never freed, as SQLite may use it at any time; once its disk is gone, and with it
/// every file on it, it serves another one.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) disk: Mutex<Weak<Shared>>,
}

impl Slot {
    pub(super) fn disk(&self) -> Option<Disk> {
        lock(&self.disk).upgrade().map(Disk)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
