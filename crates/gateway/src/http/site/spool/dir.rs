//! The directory with the files of request bodies.

use super::error::SpoolError;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The prefix of all file names in the directory.
const PREFIX: &str = "body-";
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// The number of names that are tried if files with these names exist.
const MAX_ATTEMPTS: usize = 1_000;

#[derive(Debug)]
pub(crate) struct SpoolDir {
    fd: OwnedFd,
    path: PathBuf,
    next: Cell<u64>,
}

impl SpoolDir {
    /// Opens the directory, and creates it if it does not exist. Only this user has access to it.
    pub(super) fn open(path: &Path) -> Result<Self, SpoolError> {
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(path);
        created.map_err(|error| SpoolError::disk("create", path, error))?;
        let failed = |error: Errno| SpoolError::disk("open", path, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        // Another user could remove or replace the files.
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(failed(Errno::PERM));
        }
        rustix::fs::fchmod(&fd, Mode::RWXU).map_err(failed)?;
        let path = fs::canonicalize(path).map_err(|error| SpoolError::disk("open", path, error))?;
        Ok(Self {
            fd,
            path,
            next: Cell::new(0),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the files whose process has been killed. Those of living processes are locked.
    pub(super) fn remove_leftovers(&self) -> Result<(), SpoolError> {
        let failed = |error| SpoolError::disk("read", &self.path, error);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if !name.as_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            // Other files that can't be opened or removed do no harm.
            let Ok(file) = rustix::fs::openat(&self.fd, &name, flags, Mode::empty()) else {
                continue;
            };
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty()).ok();
            }
        }
        Ok(())
    }

    /// Opens the file with this name and removes the name. The error is `PERM` for anything but a regular file of this user.
    pub(super) fn take(&self, name: &[u8]) -> Result<(OwnedFd, u64), Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?;
        Ok((file, stat.st_size as u64))
    }

    /// Removes the files whose names begin with `prefix` and that were last written more than `age` ago.
    pub(super) fn remove_older(&self, prefix: &[u8], age: Duration) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if !entry.file_name().as_bytes().starts_with(prefix) {
                continue;
            }
            let modified = entry.metadata().and_then(|found| found.modified());
            let found_age = modified.ok().and_then(|time| time.elapsed().ok());
            if found_age.is_some_and(|found| found > age) {
                let name = entry.file_name();
                rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty()).ok();
            }
        }
        Ok(())
    }

    /// Creates an empty file, which only this user may read and write, and locks it.
    pub(super) fn create(&self) -> Result<(String, File), SpoolError> {
        for _ in 0..MAX_ATTEMPTS {
            let number = self.next.replace(self.next.get() + 1);
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            match self.create_named(&name) {
                Ok(Some(file)) => return Ok((name, file)),
                Ok(None) => {}
                Err(error) => {
                    let path = self.path.join(name);
                    return Err(SpoolError::disk("create", &path, error));
                }
            }
        }
        Err(SpoolError::disk(
            "create files in",
            &self.path,
            Errno::EXIST,
        ))
    }

    /// `None` if there is a file with this name, or if a process that is starting has taken the new file for a leftover.
    fn create_named(&self, name: &str) -> Result<Option<File>, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.fd, name, flags, FILE_MODE) {
            Ok(file) => file,
            Err(Errno::EXIST) => return Ok(None),
            Err(error) => return Err(error),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let is_there = rustix::fs::fstat(&file)?.st_nlink > 0;
        Ok(is_there.then(|| file.into()))
    }

    /// Removes a file. A worker may have moved or removed it.
    pub(super) fn remove(&self, name: &str) {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()).ok();
    }
}
