//! A gateway, as the angel knows it: a process of this program that listens somewhere and asks the server.

use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::{fs, io};

/// How a gateway's process is called in lists of processes, before its own name.
const PROCESS: &str = "stoker: gateway ";

/// What the angel needs to know of a gateway.
#[derive(Debug)]
pub struct Gateway {
    /// `http`.
    pub name: String,
    /// Sockets that listen. The angel holds them, so that connections wait while the process is started again.
    pub listeners: Vec<OwnedFd>,
    /// What the configuration says of it, handed to every process that starts.
    pub config: String,
}

impl Gateway {
    pub(crate) fn process_name(&self) -> String {
        format!("{PROCESS}{}", self.name)
    }
}

/// The gateway that a process is to be which was started under this name.
#[must_use]
pub fn is_gateway(process: &OsStr) -> Option<&str> {
    process.to_str()?.strip_prefix(PROCESS)
}

/// A secret that only the server and the gateways are given.
pub(crate) fn new_token() -> io::Result<String> {
    let mut bytes = [0; 32];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
