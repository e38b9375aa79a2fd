//! Streams and listening sockets.

use super::{AsFd, BorrowedFd, Fd};
use crate::sim::state::{Object, with};
use crate::{Errno, Peer};
use std::io::IoSlice;
use std::path::PathBuf;

/// Reads bytes. Returns 0 at the end of the stream.
pub fn read(from: &Fd, buffer: &mut [u8]) -> Result<usize, Errno> {
    with(|state| {
        state.calls += 1;
        let max = state.share(buffer.len());
        let stream = state.stream(from.no).ok_or(Errno::BADF)?;
        if stream.inbox.is_empty() {
            return if stream.ended {
                Ok(0)
            } else {
                Err(Errno::AGAIN)
            };
        }
        let count = stream.inbox.len().min(max);
        for (to, byte) in buffer.iter_mut().zip(stream.inbox.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    })
}

pub fn write(to: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
    with(|state| {
        state.calls += 1;
        let max = state.share(bytes.len());
        let stream = state.stream(to.no).ok_or(Errno::BADF)?;
        if stream.peer_closed || stream.write_closed {
            return Err(Errno::PIPE);
        }
        let other = stream.other;
        let count = state.free_space(other).min(max);
        if count == 0 && !bytes.is_empty() {
            return Err(Errno::AGAIN);
        }
        let other = state.stream(other).ok_or(Errno::PIPE)?;
        other.inbox.extend(&bytes[..count]);
        Ok(count)
    })
}

/// Writes all parts in order, and stops after the first part that is written short.
pub fn write_gathered(to: &Fd, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let mut written = 0;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        match write(to, part) {
            Ok(count) => {
                written += count;
                if count < part.len() {
                    break;
                }
            }
            Err(_) if written > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Shuts down the writing direction.
pub fn shutdown_write(socket: &Fd) {
    with(|state| {
        state.calls += 1;
        let Some(stream) = state.stream(socket.no) else {
            return;
        };
        stream.write_closed = true;
        let other = stream.other;
        if let Some(other) = state.stream(other) {
            other.ended = true;
        }
    });
}

/// Accepts the next pending connection.
pub fn accept(listener: &Fd) -> Result<Fd, Errno> {
    with(|state| {
        state.calls += 1;
        let is_full = state.is_full();
        let Some(Object::Listener(listener)) = state.get(listener.no) else {
            return Err(Errno::BADF);
        };
        let waiting = &mut listener.borrow_mut().waiting;
        if waiting.is_empty() {
            return Err(Errno::AGAIN);
        }
        if is_full {
            return Err(Errno::MFILE);
        }
        let next = waiting.pop_front();
        next.map(Fd::of).ok_or(Errno::AGAIN)
    })
}

/// Makes a socket non-blocking. Simulated sockets always are.
pub fn set_nonblocking(_socket: &Fd) -> Result<(), Errno> {
    Ok(())
}

/// The credentials of the peer; `None` if the kernel does not know them.
pub fn peer(socket: &Fd) -> Option<Peer> {
    with(|state| state.stream(socket.no)?.peer)
}

/// The path at which a socket listens.
pub fn path_of(listener: BorrowedFd<'_>) -> Option<PathBuf> {
    with(|state| match state.get(listener.no)? {
        Object::Listener(listener) => Some(listener.borrow().path.clone()),
        _ => None,
    })
}

/// Waits until a descriptor is readable. If it is not readable now, this fails, because nothing
/// could make it readable meanwhile.
pub fn await_readable(fd: impl AsFd) -> Result<(), Errno> {
    let no = fd.as_fd().no;
    match with(|state| state.readiness(no).read) {
        true => Ok(()),
        false => Err(Errno::DEADLK),
    }
}

pub(in crate::sim) fn has_room(fd: &Fd) -> bool {
    with(|state| state.readiness(fd.no).write)
}

/// Returns another descriptor of a listening socket, as a child process inherits it.
pub(in crate::sim) fn share_listener(listener: &Fd) -> Result<Fd, Errno> {
    with(|state| match state.get(listener.no) {
        Some(Object::Listener(listener)) => {
            let same = listener.clone();
            Ok(Fd::of(state.add(Object::Listener(same))))
        }
        _ => Err(Errno::BADF),
    })
}
