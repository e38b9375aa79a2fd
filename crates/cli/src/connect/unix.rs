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

/// The advice for a socket at which no server answers. The Stoker whose configuration is in the socket's directory may
/// use another path, such as one in another release.
fn advice(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match path.parent().and_then(running::configured_in) {
        Some(other) if other.socket != path => format!(
            "a Stoker that was started with the configuration there (pid {}) listens at {}: give that path with \
             --socket or STOKER_SOCKET",
            other.pid,
            other.socket.display()
        ),
        _ => "start one with 'stoker serve', or give the path of its socket with --socket or STOKER_SOCKET"
            .to_owned(),
    }
}

/// Connects to a socket. Blocks while the server accepts no connections and its backlog is full.
pub(super) fn open(path: &Path, deadlines: &Deadlines) -> Result<UnixStream> {
    let refused = |error: Errno| {
        let error = io::Error::from(error);
        let shown = path.display();
        match error.kind() {
            ErrorKind::PermissionDenied => {
                let whose = crate::access::described(path);
                Failure::Unreachable(format!(
                    "permission denied for the socket {shown} ({error}): {whose}"
                ))
            }
            ErrorKind::WouldBlock => Deadlines::timed_out(),
            _ => Failure::Unreachable(format!(
                "no Stoker answers at {shown} ({error}); {}",
                advice(path)
            )),
        }
    };
    let address = stoker_angel::address(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(refused)?;
    set_socket_timeout(&socket, Timeout::Send, deadlines.remaining()?).map_err(refused)?;
    connect(&socket, &address).map_err(refused)?;
    Ok(UnixStream::from(socket))
}
