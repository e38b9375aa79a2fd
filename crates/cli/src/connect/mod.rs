//! Connects to a server over its Unix socket, TCP or TLS.

mod address;
mod stream;
#[cfg(feature = "relay")]
mod tls;
mod unix;

pub(crate) use address::Address;
pub(crate) use stream::Stream;

use crate::deadlines::Deadlines;
use crate::exit::{Failure, Result};
use std::env;
use std::path::PathBuf;

/// The variable with the server's addresses.
const URL: &str = "STOKER_URL";
/// The variable with the token for servers on other machines.
const TOKEN: &str = "STOKER_TOKEN";

/// The addresses from the command line or the environment, or the default socket. A command that runs inside a worker
/// connects to the worker's own server by default, even if `STOKER_URL` is set.
pub(crate) fn addresses(socket: Option<PathBuf>, url: Option<&str>) -> Result<Vec<Address>> {
    if let Some(url) = url {
        return Address::parse_list(url);
    }
    let is_in_worker = env::var_os(stoker_angel::env::WORKER).is_some()
        && env::var_os(stoker_angel::env::SOCKET).is_some();
    let url = env::var(URL).ok().filter(|url| !url.is_empty());
    match (&socket, url) {
        (None, Some(url)) if !is_in_worker => Address::parse_list(&url),
        _ => {
            let path = crate::socket::named_explicitly(socket);
            let path = path.unwrap_or_else(|| crate::socket::configured_or_default(None));
            Ok(vec![Address::Unix(path)])
        }
    }
}

pub(crate) fn token() -> Option<String> {
    env::var(TOKEN).ok().filter(|token| !token.is_empty())
}

/// Connects to the first reachable address. Also returns whether it is a Unix socket.
pub(crate) fn open(addresses: &[Address], deadlines: &Deadlines) -> Result<(Stream, bool)> {
    let mut failures = Vec::new();
    for address in addresses {
        match Stream::open(address, deadlines) {
            Ok(stream) => return Ok((stream, matches!(address, Address::Unix(_)))),
            Err(Failure::Unreachable(text)) => failures.push(text),
            Err(other) => return Err(other),
        }
    }
    Err(Failure::Unreachable(failures.join("; ")))
}
