//! Byte streams: sockets and pipes. All of them are non-blocking.

use super::{AsFd, BorrowedFd, Fd};
use crate::{Errno, Peer};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, SocketAddrUnix, SocketFlags, accept_with, getsockname, shutdown};
use std::ffi::OsString;
use std::io::IoSlice;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The credentials of the peer; `None` if the kernel does not know them.
pub fn peer(socket: &Fd) -> Option<Peer> {
    let peer = getsockopt(socket, PeerCredentials).ok()?;
    Some(Peer {
        pid: peer.pid(),
        uid: peer.uid(),
    })
}

/// Accepts the next pending connection.
pub fn accept(listener: &Fd) -> Result<Fd, Errno> {
    accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

/// Makes an inherited socket non-blocking.
pub fn set_nonblocking(socket: &Fd) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(socket, true)
}

/// Reads bytes. Returns 0 at the end of the stream.
pub fn read(from: &Fd, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::read(from, buffer)
}

pub fn write(to: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
    rustix::io::write(to, bytes)
}

pub fn write_gathered(to: &Fd, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    rustix::io::writev(to, parts)
}

/// Shuts down the writing direction.
pub fn shutdown_write(socket: &Fd) {
    shutdown(socket, Shutdown::Write).ok();
}

/// The path at which a socket listens.
pub fn path_of(listener: BorrowedFd<'_>) -> Option<PathBuf> {
    let address = getsockname(listener).ok()?;
    let address = SocketAddrUnix::try_from(address).ok()?;
    let path = address.path()?.into_owned();
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// Waits without a time limit until a descriptor is readable.
pub fn await_readable(fd: impl AsFd) -> Result<(), Errno> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, None).map(drop)
}
