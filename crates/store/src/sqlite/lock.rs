use super::StoreError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Holds a store for this process: a locked file beside it, with the process's id in it. SQLite's own locks
/// would keep people's tools out as well.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(store: &Path) -> Result<Self, StoreError> {
        let path = beside(store, "-lock");
        let error = |error: std::io::Error| StoreError::io(&path, &error);
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Whoever can open it can hold it.
            .mode(0o600)
            .open(&path)
            .map_err(error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = file
                    .read_to_string(&mut text)
                    .ok()
                    .and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Locked {
                    path: store.to_owned(),
                    pid,
                });
            }
            Err(errno) => return Err(error(errno.into())),
        }
        // The file stays when the lock goes: to remove it would let a third process lock a file that a
        // second one has opened and is about to lock.
        file.set_len(0).map_err(error)?;
        writeln!(file, "{}", std::process::id()).map_err(error)?;
        Ok(Self { _file: file })
    }
}

/// The path of a file that belongs to a store.
pub(super) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
