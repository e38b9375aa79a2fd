//! Streams of bytes: sockets and pipes. None of them blocks.

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

/// `None` where the kernel does not say.
pub fn peer(socket: &Fd) -> Option<Peer> {
    let peer = getsockopt(socket, PeerCredentials).ok()?;
    Some(Peer {
        pid: peer.pid(),
        uid: peer.uid(),
    })
}

/// The next connection that waits at a listening socket.
pub fn accept(listener: &Fd) -> Result<Fd, Errno> {
    accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

/// Has calls on an inherited socket return at once.
pub fn never_block(socket: &Fd) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(socket, true)
}

/// Returns 0 at the end of the stream.
pub fn read(from: &Fd, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::read(from, buffer)
}

pub fn write(to: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
    rustix::io::write(to, bytes)
}

pub fn write_gathered(to: &Fd, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    rustix::io::writev(to, parts)
}

/// Says that nothing more will be written.
pub fn end_writing(socket: &Fd) {
    shutdown(socket, Shutdown::Write).ok();
}

/// The path that a socket listens at.
pub fn path_of(listener: BorrowedFd<'_>) -> Option<PathBuf> {
    let address = getsockname(listener).ok()?;
    let address = SocketAddrUnix::try_from(address).ok()?;
    let path = address.path()?.into_owned();
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// Waits for something to read, however long that takes.
pub fn await_readable(fd: impl AsFd) -> Result<(), Errno> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, None).map(drop)
}
