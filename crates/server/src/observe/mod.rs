//! Observability: log lines and statistics.

pub(crate) mod events;
mod file;
mod histogram;
mod limit;
mod lines;
mod log;
mod metrics;

pub(crate) use events::{Entry, LogEvent};
pub use file::open;
pub(crate) use histogram::Recent;
pub(crate) use limit::Allowance;
pub(crate) use lines::Stream;
pub(crate) use log::{Log, WorkerLog};
pub(crate) use metrics::Metrics;
