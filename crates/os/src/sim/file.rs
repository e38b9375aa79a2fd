//! Files, on this thread's disk in memory.

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

/// From now on files are those of this disk.
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

/// From now on this is what a file has that is read whole. Such files never fail, and are on no disk.
pub fn put_file(path: &Path, bytes: Vec<u8>) {
    FILES.with_borrow_mut(|files| files.insert(path.to_owned(), bytes));
}

/// All of a file that was put.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let found = FILES.with_borrow(|files| files.get(path).cloned());
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// What is behind a path.
pub fn stat(path: &Path) -> io::Result<Stat> {
    disk()?.metadata(path).map(of)
}

pub fn stat_file(file: &File) -> io::Result<Stat> {
    file.metadata().map(of)
}

fn of(found: vfs::Metadata) -> Stat {
    Stat {
        identity: (found.device, found.inode),
        len: found.len,
    }
}

/// Returns 0 at the file's end.
pub fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(buffer, at)
}

pub fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    match file.read_at(buffer, at)? == buffer.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// If it fails, some of it may have been written.
pub fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(bytes, at)
}

pub fn truncate(file: &File) -> io::Result<()> {
    file.set_len(0)
}

pub fn sync_file(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Makes the names in a file's folder last.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    disk()?.sync_folder_of(path)
}

/// Locks a whole file for as long as it is open. Returns whether that was granted.
pub fn lock_file(file: &File) -> io::Result<bool> {
    file.try_flock()
}

/// The name that SQLite knows the disk by.
pub fn vfs() -> Option<String> {
    DISK.with_borrow(|disk| disk.as_ref().map(|disk| disk.vfs().to_owned()))
}
