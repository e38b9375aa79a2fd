//! The adapter: a worker process that speaks the protocol and runs a pool's tasks with programs that do not.

use super::Result;
use crate::command::descriptors::inherited;
use crate::exit::Failure;
use std::env;
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use stoker_workers::{MEMORY_LIMIT, SLOTS, exec};

/// Reads a number from an environment variable that the server has set.
fn number<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

pub(crate) fn adapter(strategy: &str, command: Vec<String>) -> Result {
    let (socket, slots) = (inherited(stoker_angel::env::FD).pop(), number(SLOTS));
    let (Some(socket), Some(slots), "exec") = (socket, slots, strategy) else {
        let text = "an adapter is started by 'stoker serve', for a pool with strategy = \"exec\"";
        return Err(Failure::Usage(text.to_owned()));
    };
    let served = exec::serve(
        UnixStream::from(socket),
        slots,
        number(MEMORY_LIMIT),
        command,
    );
    served.map_err(|error| Failure::Failed(format!("the adapter lost its server: {error}")))
}
