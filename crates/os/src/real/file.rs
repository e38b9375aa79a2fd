//! Files, and syncing directories so that file names survive a power failure.

use crate::{Mode, Stat};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

pub use std::fs::File;

pub fn open_file(path: &Path, mode: Mode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(mode != Mode::Read);
    if mode == Mode::Create {
        // The path may have been replaced meanwhile: opening a FIFO must not block, and a symlink
        // must not be followed.
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
        options.create(true).truncate(false);
        options.mode(0o600).custom_flags(flags);
    }
    options.open(path)
}

/// The whole content of a file.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// The metadata of the file at a path, following symlinks.
pub fn stat(path: &Path) -> io::Result<Stat> {
    std::fs::metadata(path).map(|found| of(&found))
}

pub fn stat_file(file: &File) -> io::Result<Stat> {
    file.metadata().map(|found| of(&found))
}

fn of(found: &Metadata) -> Stat {
    Stat {
        identity: (found.dev(), found.ino()),
        len: found.len(),
    }
}

/// Reads bytes at an offset. Returns 0 at the end of the file.
pub fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(buffer, at)
}

pub fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(buffer, at)
}

/// If this fails, some of the bytes may have been written.
pub fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(bytes, at)
}

pub fn truncate(file: &File) -> io::Result<()> {
    file.set_len(0)
}

pub fn sync_file(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Syncs the directory of a file, so that the names in it survive a power failure.
pub fn sync_parent_dir(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Locks a whole file while it is open. Returns whether the lock was granted.
pub fn lock_file(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The name of the SQLite VFS to use, or `None` for the default one.
pub fn vfs() -> Option<String> {
    None
}
