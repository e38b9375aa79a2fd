//! What can be seen from outside: log lines and figures.

mod file;
mod histogram;
mod limit;
mod lines;
mod log;

pub use file::open;
pub(crate) use histogram::Recent;
pub(crate) use limit::Allowance;
pub(crate) use log::{Log, Stream, WorkerLog};
