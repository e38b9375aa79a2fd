//! A blocking connection with time limits.

use super::address::Address;
#[cfg(feature = "relay")]
use super::address::TlsOptions;
#[cfg(feature = "relay")]
use super::tls::{self, TlsStream};
use super::unix;
use crate::deadlines::Deadlines;
use crate::exit::{Failure, Result};
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The time limit for one attempt to connect over TCP, and for the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time without data after which the kernel sends keep-alive probes.
const PROBE_IDLE: Duration = Duration::from_secs(15);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    #[cfg(feature = "relay")]
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(super) fn open(address: &Address, deadlines: &Deadlines) -> Result<Self> {
        match address {
            Address::Unix(path) => unix::open(path, deadlines).map(Self::Unix),
            Address::Tcp { host, port } => {
                let socket = connect(address, host, *port, deadlines)?;
                Ok(Self::Tcp(socket))
            }
            #[cfg(feature = "relay")]
            Address::Tls {
                host,
                port,
                options,
            } => {
                let socket = connect(address, host, *port, deadlines)?;
                secure(address, socket, host, options, deadlines)
            }
            #[cfg(not(feature = "relay"))]
            Address::Tls { .. } => Err(Failure::Usage(
                "this stoker was built without TLS: tls:// requires the feature 'relay'".to_owned(),
            )),
        }
    }

    /// Reads once, within a time limit.
    pub(crate) fn read(&mut self, buffer: &mut [u8], limit: Option<Duration>) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => {
                socket.set_read_timeout(limit)?;
                socket.read(buffer)
            }
            Self::Tcp(socket) => {
                socket.set_read_timeout(limit)?;
                socket.read(buffer)
            }
            #[cfg(feature = "relay")]
            Self::Tls(stream) => {
                stream.sock.set_read_timeout(limit)?;
                match stream.read(buffer) {
                    // A server that has rejected the client may close the connection without a TLS close alert.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                    read => read.map_err(explained),
                }
            }
        }
    }

    /// Writes once, within a time limit.
    pub(crate) fn write(&mut self, bytes: &[u8], limit: Option<Duration>) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => {
                socket.set_write_timeout(limit)?;
                socket.write(bytes)
            }
            Self::Tcp(socket) => {
                socket.set_write_timeout(limit)?;
                socket.write(bytes)
            }
            #[cfg(feature = "relay")]
            Self::Tls(stream) => {
                stream.sock.set_write_timeout(limit)?;
                let count = stream.write(bytes).map_err(explained)?;
                stream.flush().map_err(explained)?;
                Ok(count)
            }
        }
    }
}

/// Replaces the message of a TLS error with an explanation. The kind stays the same.
#[cfg(feature = "relay")]
fn explained(error: io::Error) -> io::Error {
    let is_tls = error.get_ref().is_some();
    match is_tls {
        true => io::Error::new(error.kind(), tls::explain(&error)),
        false => error,
    }
}

fn connect(address: &Address, host: &str, port: u16, deadlines: &Deadlines) -> Result<TcpStream> {
    let failed = |why: String| Failure::Unreachable(format!("cannot connect to {address}: {why}"));
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| failed(format!("cannot resolve the host name: {error}")))?;
    let mut why = "the host name has no address".to_owned();
    for found in found {
        let limit = deadlines.remaining()?.unwrap_or(CONNECT_TIMEOUT);
        match TcpStream::connect_timeout(&found, limit.min(CONNECT_TIMEOUT)) {
            Ok(socket) => {
                set_options(&socket).map_err(|error| failed(error.to_string()))?;
                return Ok(socket);
            }
            Err(error) => {
                why = format!(
                    "{error}; check that the server has [listen] addresses, and that no firewall blocks the port"
                );
            }
        }
    }
    Err(failed(why))
}

fn set_options(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, PROBE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    Ok(())
}

#[cfg(feature = "relay")]
fn secure(
    address: &Address,
    socket: TcpStream,
    host: &str,
    options: &TlsOptions,
    deadlines: &Deadlines,
) -> Result<Stream> {
    let limit = deadlines.remaining()?.unwrap_or(CONNECT_TIMEOUT);
    let stream = tls::handshake(socket, host, options, limit.min(CONNECT_TIMEOUT));
    let stream = stream
        .map_err(|why| Failure::Unreachable(format!("cannot connect to {address}: {why}")))?;
    Ok(Stream::Tls(Box::new(stream)))
}
