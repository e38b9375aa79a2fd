//! Connects to a server.

use crate::Address;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a server on another machine may take to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A new connection, which does not block. Fails with `WouldBlock` if the server's queue of connections is full.
pub(super) fn connect(address: &Address) -> io::Result<OwnedFd> {
    match address {
        Address::Unix(path) => {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            let address = SocketAddrUnix::new(path)?;
            rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
            Ok(socket)
        }
        Address::Tcp(host, port) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, TIMEOUT) {
                    Ok(socket) => {
                        socket.set_nodelay(true)?;
                        socket.set_nonblocking(true)?;
                        return Ok(socket.into());
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// Whether a program accepts connections at this address, or will as soon as it can.
pub(super) fn is_taken(address: &Address) -> bool {
    match connect(address) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}
