//! Connects to a server's Unix socket.

use crate::deadlines::Deadlines;
use crate::exit::{Failure, Result};
use crate::running;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The advice if no server answers at a socket. A Stoker that was started with the configuration in the same directory
/// may listen on another path, for example in another release.
fn advice(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match path.parent().and_then(running::configured_in) {
        Some(other) if other.socket != path => format!(
            "the Stoker that was started with the configuration in that directory (pid {}) listens on {}: set --socket \
             or STOKER_SOCKET to that path",
            other.pid,
            other.socket.display()
        ),
        _ => "start one with 'stoker serve', or set --socket or STOKER_SOCKET to the path of its socket"
            .to_owned(),
    }
}

/// Connects to a socket. Blocks until the deadline while the server's listen backlog is full.
pub(super) fn open(path: &Path, deadlines: &Deadlines) -> Result<UnixStream> {
    let rejected = |error: Errno| {
        let error = io::Error::from(error);
        let shown = path.display();
        match error.kind() {
            ErrorKind::PermissionDenied => {
                let owner = crate::access::describe_access(path);
                Failure::Unreachable(format!(
                    "permission denied for the socket {shown} ({error}): {owner}"
                ))
            }
            ErrorKind::WouldBlock => Deadlines::timed_out(),
            _ => Failure::Unreachable(format!(
                "no server answers at {shown} ({error}); {}",
                advice(path)
            )),
        }
    };
    let address = stoker_angel::address(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(rejected)?;
    set_socket_timeout(&socket, Timeout::Send, deadlines.remaining()?).map_err(rejected)?;
    connect(&socket, &address).map_err(rejected)?;
    Ok(UnixStream::from(socket))
}
