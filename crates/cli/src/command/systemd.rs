//! The listening sockets that systemd passes to this process, or that it opens itself.

use super::descriptors::take_descriptor;
use crate::exit::{Failure, Result};
use rustix::fd::OwnedFd;
use rustix::net::{SocketAddrAny, SocketAddrUnix, getsockname, listen};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::{env, fs};
use stoker_angel::{Socket, SocketError};

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4_096;
/// The first descriptor that systemd passes (sd_listen_fds(3)).
const FIRST_FD: i32 = 3;

/// Sockets that systemd has bound and passed to this process. They keep listening when the process ends, so no
/// connection is refused during a restart.
pub(crate) struct SystemdSockets(Vec<(OwnedFd, SocketAddrAny)>);

impl SystemdSockets {
    pub(crate) fn take() -> Result<Self> {
        let number = |name| {
            env::var(name)
                .ok()
                .and_then(|text| text.parse::<i32>().ok())
        };
        let is_ours = number("LISTEN_PID") == Some(std::process::id() as i32);
        let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
        let mut all = Vec::new();
        for fd in (FIRST_FD..FIRST_FD + count).map(take_descriptor) {
            let address = getsockname(&fd).map_err(|error| {
                Failure::Config(format!(
                    "systemd passed a descriptor that is not a socket: {error}"
                ))
            })?;
            all.push((fd, address));
        }
        Ok(Self(all))
    }

    fn take_matching(&mut self, matches: impl Fn(&SocketAddrAny) -> bool) -> Option<OwnedFd> {
        let place = self.0.iter().position(|(_, address)| matches(address))?;
        Some(self.0.swap_remove(place).0)
    }

    /// Returns the Unix socket at a path: the one that systemd passed, or a new one.
    pub(crate) fn listen(
        &mut self,
        path: &Path,
        mode: u32,
        group: Option<u32>,
    ) -> std::result::Result<Socket, SocketError> {
        let is_at_path = |address: &SocketAddrAny| {
            let address = SocketAddrUnix::try_from(address.clone()).ok();
            path_of(address.as_ref()).is_some_and(|passed| is_same_file(&passed, path))
        };
        match self.take_matching(is_at_path) {
            Some(fd) => Socket::inherited(fd, path, mode, group),
            None => Socket::listen(path, mode, group),
        }
    }

    /// Returns a TCP socket: the one that systemd passed, or a new one. `key` is the configuration key of the address.
    pub(crate) fn listen_on(&mut self, address: SocketAddr, key: &str) -> Result<OwnedFd> {
        let has_address = |passed: &SocketAddrAny| {
            SocketAddr::try_from(passed.clone()).is_ok_and(|passed| passed == address)
        };
        if let Some(fd) = self.take_matching(has_address) {
            return Ok(fd);
        }
        let cannot = |error: std::io::Error| {
            let hint = "is another program using the port?";
            Failure::Config(format!(
                "cannot listen on {address} ({key}): {error}; {hint}"
            ))
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listen(&listener, BACKLOG).map_err(|error| cannot(error.into()))?;
        Ok(listener.into())
    }

    /// Fails if systemd passed a socket that is not used: clients would wait there forever.
    pub(crate) fn check_empty(&self) -> Result {
        let Some((_, address)) = self.0.first() else {
            return Ok(());
        };
        let unix = SocketAddrUnix::try_from(address.clone()).ok();
        let shown = match (
            path_of(unix.as_ref()),
            SocketAddr::try_from(address.clone()),
        ) {
            (Some(path), _) => path.display().to_string(),
            (None, Ok(address)) => address.to_string(),
            (None, Err(_)) => "an unknown address".to_owned(),
        };
        Err(Failure::Config(format!(
            "systemd passed a socket at {shown} that the configuration does not name: set stoker.socket, http.socket, \
             http.listen or listen.addresses to the same address as ListenStream"
        )))
    }
}

fn path_of(address: Option<&SocketAddrUnix>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = address?.path()?;
    Some(std::ffi::OsStr::from_bytes(path.to_bytes()).into())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| Some(one) == real(other))
}
