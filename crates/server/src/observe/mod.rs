//! What can be seen from outside: log lines and figures.

mod histogram;
mod lines;
mod log;

pub(crate) use histogram::Recent;
pub use log::open;
pub(crate) use log::{Log, Stream, WorkerLog};
