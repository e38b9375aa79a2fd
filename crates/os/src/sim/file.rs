//! Files on this thread's in-memory disk.

use crate::{Mode, Stat};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use stoker_testkit::vfs;

pub use stoker_testkit::vfs::{Disk, File};

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
    static FILES: RefCell<BTreeMap<PathBuf, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Sets the disk that all files are on from now on.
pub fn set_disk(disk: Option<Disk>) {
    DISK.set(disk);
}

fn disk() -> io::Result<Disk> {
    let disk = DISK.with_borrow(Clone::clone);
    disk.ok_or_else(|| io::Error::other("this simulation has no disk"))
}

pub fn open_file(path: &Path, mode: Mode) -> io::Result<File> {
    let mode = match mode {
        Mode::Read => vfs::Mode::Read,
        Mode::Write => vfs::Mode::Write,
        Mode::Create => vfs::Mode::Create,
    };
    disk()?.open(path, mode)
}

/// Sets the content that [`read_file`] returns for a path. Such files are on no disk, so reading them
/// never fails.
pub fn put_file(path: &Path, bytes: Vec<u8>) {
    FILES.with_borrow_mut(|files| files.insert(path.to_owned(), bytes));
}

/// The whole content of a file set by [`put_file`].
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let found = FILES.with_borrow(|files| files.get(path).cloned());
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The metadata of the file at a path, following symlinks.
pub fn stat(path: &Path) -> io::Result<Stat> {
    disk()?.metadata(path).map(stat_of)
}

pub fn stat_file(file: &File) -> io::Result<Stat> {
    file.metadata().map(stat_of)
}

fn stat_of(found: vfs::Metadata) -> Stat {
    Stat {
        identity: (found.device, found.inode),
        len: found.len,
    }
}

/// Reads bytes at an offset. Returns 0 at the end of the file.
pub fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(buffer, at)
}

pub fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    match file.read_at(buffer, at)? == buffer.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
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
    disk()?.sync_parent_dir(path)
}

/// Locks a whole file while it is open. Returns whether the lock was granted.
pub fn lock_file(file: &File) -> io::Result<bool> {
    file.try_flock()
}

/// The name of the SQLite VFS for this disk.
pub fn vfs() -> Option<String> {
    DISK.with_borrow(|disk| disk.as_ref().map(|disk| disk.vfs().to_owned()))
}
