//! Where work comes from. One list, no plugins: calls over the socket, and jobs.

mod access;
pub(crate) mod end;
pub(crate) mod jobs;
mod payload;
pub(crate) mod rpc;

pub(crate) use payload::{Origin, Payload, Payloads};

/// The retry-after time of a client that exceeded a limit.
pub(crate) const RETRY_MS: u32 = 100;
