//! A gateway as the angel sees it: a process of this program that listens on its own sockets and is a client
//! of the server.

use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::{fs, io};

/// The prefix of a gateway's process name in process lists. The gateway's own name follows.
const PROCESS_NAME_PREFIX: &str = "stoker: gateway ";

/// The description of a gateway that the angel starts.
#[derive(Debug)]
pub struct Gateway {
    /// The gateway's name, for example `http`.
    pub name: String,
    /// Listening sockets. The angel holds them, so that connections wait while the gateway is restarted.
    pub listeners: Vec<OwnedFd>,
    /// The gateway's configuration, passed to every process that starts.
    pub config: String,
}

impl Gateway {
    pub(crate) fn process_name(&self) -> String {
        format!("{PROCESS_NAME_PREFIX}{}", self.name)
    }
}

/// The name of the gateway that a process with this process name must run.
#[must_use]
pub fn is_gateway(process: &OsStr) -> Option<&str> {
    process.to_str()?.strip_prefix(PROCESS_NAME_PREFIX)
}

/// A secret that only the server and the gateways receive.
pub(crate) fn new_token() -> io::Result<String> {
    let mut bytes = [0; 32];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
