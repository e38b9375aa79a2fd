//! Sockets and readiness: reads and writes bytes, and does not interpret them.

mod conn;
mod out;
mod poller;
mod slots;

pub(crate) use conn::{Charge, Client, Conn, Counted, Flow, Role};
pub(crate) use out::{LARGE_BODY, Shared};
pub(crate) use poller::{Poller, Source};
pub(crate) use slots::{ConnId, Slots};
