//! One process at a time works with a store.

use super::links::resolve;
use super::path::beside;
use super::{LockOwner, StoreError, log};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stoker_os::{File, Mode};

/// Holds a store for this process. The file itself is locked, so it does not matter by which name another process
/// calls it, nor whether somebody removed the lock file, which is there to say who holds it. SQLite's own locks
/// would keep people's tools out as well; these two are flocks, which it does not know.
///
/// Must be dropped after every connection to the store: closing any descriptor of a file ends the locks that SQLite
/// has on it for the whole process (fcntl_locking(2)).
pub(super) struct Lock {
    /// Without symlinks.
    path: PathBuf,
    file: Arc<File>,
    _beside: File,
}

impl Lock {
    /// Locks a store, and makes its file if there is none. Nothing of it may be open in this process.
    pub(super) fn take(store: &Path, socket: Option<&Path>) -> Result<Self, StoreError> {
        let path = resolve(store)?;
        log::check_has_store(&path)?;
        let beside = lock_beside(&path)?;
        let file = Arc::new(lock_file(&path)?);
        let written = LockOwner::write(&beside, socket);
        written.map_err(|error| StoreError::io(&path, &error))?;
        Ok(Self {
            path,
            file,
            _beside: beside,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The store's file.
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }
}

/// The lock file. It stays when the lock goes: to remove it would let a third process lock a file that a second one
/// has opened and is about to lock.
fn lock_beside(store: &Path) -> Result<File, StoreError> {
    let path = beside(store, "-lock");
    let file = open(&path)?;
    match stoker_os::lock_file(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(locked(store, LockOwner::read(&file))),
        Err(error) => Err(StoreError::io(&path, &error)),
    }
}

fn lock_file(store: &Path) -> Result<File, StoreError> {
    let io = |error: io::Error| StoreError::io(store, &error);
    let file = open(store)?;
    if !stoker_os::lock_file(&file).map_err(io)? {
        return Err(locked(store, LockOwner::find(store, &file)));
    }
    let (locked, there) = (
        stoker_os::stat_file(&file).map_err(io)?,
        stoker_os::stat(store).map_err(io)?,
    );
    match locked.identity == there.identity {
        true => Ok(file),
        false => Err(io(io::Error::other("it was replaced while it was opened"))),
    }
}

/// Opens a file for its owner alone: payloads are nobody else's business, and whoever can open a lock can hold it.
/// What SQLite puts beside the store gets the store's mode.
fn open(path: &Path) -> Result<File, StoreError> {
    stoker_os::open_file(path, Mode::Create).map_err(|error| StoreError::io(path, &error))
}

fn locked(store: &Path, by: LockOwner) -> StoreError {
    StoreError::Locked {
        path: store.to_owned(),
        by,
    }
}
