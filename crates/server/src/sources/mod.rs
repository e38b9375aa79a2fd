//! Where work comes from. One list, no plugins: calls over the socket, and jobs.

mod access;
pub(crate) mod jobs;
mod load;
pub(crate) mod rpc;

pub(crate) use load::{Load, Loads, Origin};
