//! Sockets and readiness: bytes in, bytes out, nothing about what they mean.

mod conn;
mod ids;
mod poller;
mod slots;

pub(crate) use conn::{Client, Conn, Flow, Role};
pub(crate) use poller::{Poller, Source};
pub(crate) use slots::{ConnId, Slots};
