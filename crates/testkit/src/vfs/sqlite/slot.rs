//! A VFS object, as SQLite knows it.

use super::super::Disk;
use super::super::disk::Shared;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// A VFS that is registered with SQLite. It is never freed, because SQLite may use it at any time. Once its disk and
/// every file on that disk are gone, it serves another disk.
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
