//! A file that SQLite has open.

use super::super::names::folder;
use super::super::shm::Region;
use super::super::{Disk, File, Mode};
use rusqlite::ffi;
use rustix::io::Errno;
use std::ffi::c_int;

/// A file that SQLite has open.
pub(super) struct Open {
    pub(super) file: File,
    /// Whether this is a new journal, whose first sync also syncs its folder.
    is_new_journal: bool,
    pub(super) persist_wal: bool,
    pub(super) powersafe_overwrite: bool,
    /// The regions of shared memory that SQLite has pointers to.
    pub(super) regions: Vec<Region>,
}

impl Open {
    /// Opens a file as the unix VFS does. A file that is to be deleted when it is closed has no path. Also returns the
    /// flags that the file was actually opened with.
    pub(super) fn new(
        disk: &Disk,
        path: Option<&str>,
        flags: c_int,
    ) -> Result<(Self, c_int), c_int> {
        let (file, flags) = match path {
            None => (File::nameless(disk).map_err(cant_open)?, flags),
            Some(path) => open_named(disk, path, flags)?,
        };
        let journals =
            ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL;
        let open = Self {
            file,
            is_new_journal: flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & journals != 0,
            persist_wal: false,
            powersafe_overwrite: true,
            regions: Vec::new(),
        };
        Ok((open, flags))
    }

    pub(super) fn sync(&mut self) -> Result<(), Errno> {
        self.file.sync()?;
        if std::mem::take(&mut self.is_new_journal) {
            // SQLite ignores an error of this sync.
            self.file.disk().sync_names(folder(&self.file.path)).ok();
        }
        Ok(())
    }

    /// The length, except that SQLite treats a file of one byte as empty.
    pub(super) fn size(&self) -> Result<u64, Errno> {
        Ok(match self.file.stat()?.len {
            1 => 0,
            len => len,
        })
    }

    /// Whether the path leads to another file, or to none.
    pub(super) fn has_moved(&self) -> bool {
        let found = self.file.disk().stat(&self.file.path);
        found.map(|found| found.inode) != Ok(self.file.inode)
    }
}

fn open_named(disk: &Disk, path: &str, flags: c_int) -> Result<(File, c_int), c_int> {
    // SQLite gives a journal the mode of its database, so it reads the database's metadata.
    if flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0
        && let Some((database, _)) = path.rsplit_once('-')
    {
        disk.stat(database).map_err(|_| ffi::SQLITE_IOERR_FSTAT)?;
    }
    let is_writable = flags & ffi::SQLITE_OPEN_READWRITE != 0;
    let mode = match (
        is_writable,
        flags & ffi::SQLITE_OPEN_CREATE != 0,
        flags & ffi::SQLITE_OPEN_EXCLUSIVE != 0,
    ) {
        (false, _, _) => Mode::Read,
        (true, false, _) => Mode::Write,
        (true, true, false) => Mode::Create,
        (true, true, true) => Mode::CreateNew,
    };
    let (file, flags) = match File::open(disk, path, mode) {
        Ok(file) => (file, flags),
        // After any error SQLite tries to open the file for reading.
        Err(_) if is_writable => {
            let file = File::open(disk, path, Mode::Read).map_err(cant_open)?;
            let removed = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
            (file, flags & !removed | ffi::SQLITE_OPEN_READONLY)
        }
        Err(error) => return Err(cant_open(error)),
    };
    Ok((file, flags))
}

fn cant_open(_: Errno) -> c_int {
    ffi::SQLITE_CANTOPEN
}
