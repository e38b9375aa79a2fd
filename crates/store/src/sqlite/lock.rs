//! The lock that lets only one process use a store.

use super::links::resolve;
use super::path::beside;
use super::{LockOwner, StoreError, wal};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stoker_os::{File, Mode};

/// The lock on a store, held by this process. The database file itself is locked, so the lock works by
/// whatever name another process opens the file, and even if the lock file was removed. The lock file says
/// which process holds the lock. Both are locked with flock, which SQLite does not use; SQLite's own locks
/// would also keep out users' tools.
///
/// Must be dropped after every connection to the store: closing any descriptor of a file releases all locks
/// that SQLite holds on it for this process (fcntl_locking(2)).
pub(super) struct Lock {
    /// The path without symlinks.
    path: PathBuf,
    file: Arc<File>,
    _beside: File,
}

impl Lock {
    /// Locks a store, and creates its file if there is none. This process must not have any file of the store
    /// open.
    pub(super) fn take(store: &Path, socket: Option<&Path>) -> Result<Self, StoreError> {
        let path = resolve(store)?;
        wal::check_has_store(&path)?;
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

    /// The store's database file.
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }
}

/// Locks the lock file. The file is not removed when the lock is released: otherwise a third process could
/// create and lock a new file while a second process has the removed one open and is about to lock it.
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
        false => Err(io(io::Error::other(
            "it was replaced while it was being opened",
        ))),
    }
}

/// Opens or creates a file with access for its owner only, because payloads are private and any process that
/// can open a lock file can lock it. SQLite gives the files that it creates beside the store the store's
/// mode.
fn open(path: &Path) -> Result<File, StoreError> {
    stoker_os::open_file(path, Mode::Create).map_err(|error| StoreError::io(path, &error))
}

fn locked(store: &Path, by: LockOwner) -> StoreError {
    StoreError::Locked {
        path: store.to_owned(),
        by,
    }
}
