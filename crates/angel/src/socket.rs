//! The listening socket and its file.

use rustix::event::{Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, chmod, chown, flock, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4_096;
/// The number of attempts to lock the directory, with `LOCK_PAUSE` between them.
const LOCK_TRIES: u32 = 100;
/// The number of checks whether a server that still serves has ended, with `LOCK_PAUSE` between them.
const EXIT_CHECKS: u32 = 50;
const LOCK_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// Why the socket could not be created.
#[derive(Debug)]
pub enum SocketError {
    /// The path is longer than the address of a socket can be.
    TooLong(PathBuf),
    /// Another process serves at the path.
    Served(PathBuf),
    /// The path is taken by something that must not be removed.
    InTheWay(PathBuf, String),
    Failed(PathBuf, io::Error),
    Group(PathBuf, u32, io::Error),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(path) => write!(
                f,
                "the socket path {} is longer than {} bytes, the maximum for a unix socket",
                path.display(),
                stoker_os::MAX_SOCKET_PATH
            ),
            Self::Served(path) => write!(f, "another Stoker listens on {}", path.display()),
            Self::InTheWay(path, why) => write!(f, "cannot listen on {}: {why}", path.display()),
            Self::Failed(path, error) => {
                write!(f, "cannot listen on {}: {error}", path.display())
            }
            Self::Group(path, group, error) => {
                let shown = path.display();
                write!(f, "cannot change the group of {shown} to {group}: {error}")
            }
        }
    }
}

impl std::error::Error for SocketError {}

/// The kind of file found at the socket's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    Ours,
    Nothing,
    /// The file or socket of another process.
    Foreign,
}

/// A listening socket, with everything needed to create it again.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    path: PathBuf,
    mode: u32,
    group: Option<u32>,
    identity: (u64, u64),
    /// The socket was bound by another process, which keeps listening after this process has ended.
    is_inherited: bool,
}

impl Socket {
    /// Binds a socket at an absolute path and listens. A socket that a dead server left behind is replaced. A
    /// socket that is served and any other kind of file are left alone.
    pub fn listen(path: &Path, mode: u32, group: Option<u32>) -> Result<Self, SocketError> {
        let _lock = lock_directory(path);
        clear_with_retries(path)?;
        let (fd, identity) = bind_new(path, mode, group)?;
        let path = path.to_owned();
        Ok(Self {
            fd,
            path,
            mode,
            group,
            identity,
            is_inherited: false,
        })
    }

    /// Wraps a socket that already listens on an absolute path, for example one passed on by systemd. Its file
    /// is not removed.
    pub fn inherited(
        fd: OwnedFd,
        path: &Path,
        mode: u32,
        group: Option<u32>,
    ) -> Result<Self, SocketError> {
        let failed = |error: Errno| SocketError::Failed(path.to_owned(), error.into());
        rustix::io::ioctl_fionbio(&fd, true).map_err(failed)?;
        let identity = identity(path).ok_or_else(|| failed(Errno::NOENT))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
            mode,
            group,
            identity,
            is_inherited: true,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks what clients find at the path now.
    pub(crate) fn path_state(&self) -> PathState {
        match identity(&self.path) {
            Some(identity) if identity == self.identity => PathState::Ours,
            Some(_) => PathState::Foreign,
            None => PathState::Nothing,
        }
    }

    /// Creates the socket again after its file was removed. Clients that connected to the old socket are still
    /// in its queue, and are accepted by the process that holds it. Fails if another file has taken the path
    /// meanwhile.
    pub(crate) fn recreate(&mut self) -> Result<(), SocketError> {
        let _lock = lock_directory(&self.path);
        (self.fd, self.identity) = bind_new(&self.path, self.mode, self.group)?;
        self.is_inherited = false;
        Ok(())
    }

    /// Removes the socket's file, unless the socket was inherited or another file has taken its place.
    pub fn remove(&self) {
        if !self.is_inherited && self.path_state() == PathState::Ours {
            fs::remove_file(&self.path).ok();
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Converts a path to a socket address, whose length is limited.
pub fn address(path: &Path) -> Result<SocketAddrUnix, SocketError> {
    SocketAddrUnix::new(path).map_err(|_| SocketError::TooLong(path.to_owned()))
}

/// The device and inode of the file at a path. They differ if another file has taken its place.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Keeps other Stokers from checking the path until the lock is dropped: a socket that is bound but does not
/// listen yet looks like that of a dead server. If the lock cannot be taken, the start goes on without it.
fn lock_directory(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(path.parent()?, flags, Mode::empty()).ok()?;
    for _ in 0..LOCK_TRIES {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(directory),
            Err(Errno::WOULDBLOCK) => drop(poll(&mut [], Some(&LOCK_PAUSE))),
            Err(_) => return None,
        }
    }
    None
}

/// Like [`clear`], but waits a little for a server that was killed a moment ago and has not ended yet.
fn clear_with_retries(path: &Path) -> Result<(), SocketError> {
    for _ in 0..EXIT_CHECKS {
        match clear(path) {
            Err(SocketError::Served(_)) => poll(&mut [], Some(&LOCK_PAUSE)).map_or((), |_| ()),
            cleared => return cleared,
        }
    }
    clear(path)
}

/// Removes a dead server's socket from the path.
fn clear(path: &Path) -> Result<(), SocketError> {
    let Ok(metadata) = fs::metadata(path) else {
        return Ok(());
    };
    let in_the_way = |why: String| SocketError::InTheWay(path.to_owned(), why);
    // Connecting to a plain file is refused as well, so the file type is checked first.
    if !metadata.file_type().is_socket() {
        return Err(in_the_way("it is not a socket".to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(peer) if is_served(&peer) => return Err(SocketError::Served(path.to_owned())),
        // A process started by a dead Stoker may hold the socket open for a moment.
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) => return Err(in_the_way(error.to_string())),
    }
    fs::remove_file(path).map_err(|error| in_the_way(error.to_string()))
}

/// Whether the process that listens is alive. The kernel records which process called `listen` (unix(7),
/// SO_PEERCRED).
fn is_served(peer: &UnixStream) -> bool {
    let listener = rustix::net::sockopt::socket_peercred(peer);
    listener.is_ok_and(|listener| !stoker_os::is_dead(listener.pid.as_raw_nonzero().get()))
}

type Bound = (OwnedFd, (u64, u64));

fn bind_new(path: &Path, mode: u32, group: Option<u32>) -> Result<Bound, SocketError> {
    let failed = |error: Errno| SocketError::Failed(path.to_owned(), error.into());
    let address = address(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
    bind(&socket, &address).map_err(failed)?;
    let result = open_to(path, &socket, mode, group);
    if result.is_err() {
        fs::remove_file(path).ok();
    }
    let identity = result?;
    Ok((socket, identity))
}

/// Sets group and mode before listening, so that no client can connect under a wider group or mode.
fn open_to(
    path: &Path,
    socket: &OwnedFd,
    mode: u32,
    group: Option<u32>,
) -> Result<(u64, u64), SocketError> {
    let failed = |error: Errno| SocketError::Failed(path.to_owned(), error.into());
    if let Some(group) = group {
        chown(path, None, Some(Gid::from_raw(group)))
            .map_err(|error| SocketError::Group(path.to_owned(), group, error.into()))?;
    }
    chmod(path, Mode::from_raw_mode(mode)).map_err(failed)?;
    listen(socket, BACKLOG).map_err(failed)?;
    identity(path).ok_or_else(|| failed(Errno::NOENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_recreated_only_if_its_path_is_free() {
        let directory = std::env::temp_dir().join(format!("stoker-socket-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("s");
        let mut socket = Socket::listen(&path, 0o600, None).unwrap();
        assert_eq!(socket.path_state(), PathState::Ours);
        let second = Socket::listen(&path, 0o600, None);
        assert!(matches!(second, Err(SocketError::Served(_))));

        fs::remove_file(&path).unwrap();
        assert_eq!(socket.path_state(), PathState::Nothing);
        socket.recreate().unwrap();
        assert_eq!(socket.path_state(), PathState::Ours);
        assert!(UnixStream::connect(&path).is_ok());

        fs::remove_file(&path).unwrap();
        let other = Socket::listen(&path, 0o600, None).unwrap();
        assert_eq!(socket.path_state(), PathState::Foreign);
        assert!(socket.recreate().is_err());
        socket.remove();
        assert_eq!(
            other.path_state(),
            PathState::Ours,
            "it is not ours to remove"
        );
        other.remove();
        fs::remove_dir(&directory).unwrap();
    }
}
