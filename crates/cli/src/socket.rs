use crate::exit::{Failure, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode, chmod, chown};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const DEFAULT: &str = "stoker.sock";
const BACKLOG: i32 = 4_096;

/// The socket that the command line or `STOKER_SOCKET` names.
pub(crate) fn named(option: Option<PathBuf>) -> Option<PathBuf> {
    option.or_else(|| env::var_os(stoker_angel::env::SOCKET).map(PathBuf::from))
}

/// The socket of a server that was told none: its configuration's, or the default.
pub(crate) fn configured(configured: Option<PathBuf>) -> PathBuf {
    configured.unwrap_or_else(|| DEFAULT.into())
}

/// Which file a path names now: another one may take its place.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Whether the process lives that listens: a socket knows who that was (unix(7), SO_PEERCRED).
fn is_served(peer: &UnixStream) -> bool {
    let listener = rustix::net::sockopt::socket_peercred(peer);
    listener.is_ok_and(|listener| !stoker_angel::is_dead(listener.pid.as_raw_nonzero().get()))
}

/// A path as a socket's address, which is short.
pub(crate) fn address(path: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        let shown = path.display();
        Failure::Usage(format!(
            "the socket path {shown} is longer than the 107 bytes a socket may have"
        ))
    })
}

/// Binds the socket. One that a dead server left behind is replaced; one that is served is not touched.
pub(crate) fn listen_at(path: &Path, mode: u32, group: Option<u32>) -> Result<OwnedFd> {
    let shown = path.display();
    let address = address(path)?;
    if let Ok(metadata) = fs::metadata(path) {
        // Connecting to a plain file is refused too, and that is no socket of a dead server.
        if !metadata.file_type().is_socket() {
            return Err(Failure::Failed(format!(
                "{shown} is in the way: it is no socket"
            )));
        }
        match UnixStream::connect(path) {
            Ok(peer) if is_served(&peer) => {
                return Err(Failure::Failed(format!("another Stoker serves at {shown}")));
            }
            // What a dead Stoker started may hold it open for moments yet.
            Ok(_) => fs::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
            }
            Err(error) => return Err(Failure::Failed(format!("{shown} is in the way: {error}"))),
        }
    }
    bind_new(path, &address, mode, group)
}

fn bind_new(
    path: &Path,
    address: &SocketAddrUnix,
    mode: u32,
    group: Option<u32>,
) -> Result<OwnedFd> {
    let shown = path.display();
    let failed = |error: Errno| Failure::Failed(format!("cannot listen at {shown}: {error}"));
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
    bind(&socket, address).map_err(failed)?;
    // Before listen, so that nobody gets in through a wider mode, or as one of another group.
    if let Some(group) = group {
        chown(path, None, Some(Gid::from_raw(group))).map_err(|error| {
            Failure::Failed(format!("cannot give {shown} to group {group}: {error}"))
        })?;
    }
    chmod(path, Mode::from_raw_mode(mode)).map_err(failed)?;
    listen(&socket, BACKLOG).map_err(failed)?;
    Ok(socket)
}
