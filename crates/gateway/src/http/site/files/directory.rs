//! A directory that confines the files that are opened: no path leads outside of it.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// `NONBLOCK`, because opening a named pipe would wait for its writer.
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);
const DIRECTORY_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// A directory. It stays the same directory even if another one takes its path.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    /// The path without symbolic links.
    path: PathBuf,
    /// Kernels before 5.6 and some container runtimes do not have the call.
    pub(super) has_openat2: bool,
}

impl Directory {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let fd = rustix::fs::openat(CWD, &path, DIRECTORY_FLAGS, Mode::empty())?;
        let probe = rustix::fs::openat2(&fd, ".", DIRECTORY_FLAGS, Mode::empty(), BENEATH);
        Ok(Self {
            has_openat2: probe.is_ok(),
            fd,
            path,
        })
    }

    /// The path without symbolic links that the directory had when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path relative to this directory of something with the absolute path `real`, which has no symbolic links.
    /// `None` if it is not below this directory.
    pub(crate) fn relative<'a>(&self, real: &'a Path) -> Option<&'a [u8]> {
        let relative = real.strip_prefix(&self.path).ok()?.as_os_str().as_bytes();
        (!relative.is_empty()).then_some(relative)
    }

    /// Whether the directory has no entry with this name, not even one that can't be opened.
    pub(crate) fn is_missing(&self, name: &[u8]) -> bool {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.err() == Some(Errno::NOENT)
    }

    /// Opens what is at a relative path without `.` and `..`: a file, a directory or anything else. The error is `LOOP`
    /// if a part of the path is a symbolic link.
    pub(crate) fn open_below(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        match self.has_openat2 {
            true => rustix::fs::openat2(&self.fd, path, FILE_FLAGS, Mode::empty(), BENEATH),
            false => self.walk(path),
        }
    }

    /// Does the same as `openat2`, one part after the other.
    fn walk(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let (parents, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let mut parent = None;
        for part in parents.split(|byte| *byte == b'/') {
            if !part.is_empty() {
                let from = parent.as_ref().unwrap_or(&self.fd);
                parent = Some(step(from, part, DIRECTORY_FLAGS)?);
            }
        }
        step(parent.as_ref().unwrap_or(&self.fd), name, FILE_FLAGS)
    }
}

fn step(from: impl AsFd, part: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if matches!(part, b"" | b"." | b"..") {
        return Err(Errno::INVAL);
    }
    let flags = flags | OFlags::NOFOLLOW;
    let opened = rustix::fs::openat(&from, part, flags, Mode::empty());
    if opened.as_ref().err() != Some(&Errno::NOTDIR) {
        return opened;
    }
    // The error is the same for a symbolic link where a directory was expected, and for a file.
    let stat = rustix::fs::statat(&from, part, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ => opened,
    }
}
