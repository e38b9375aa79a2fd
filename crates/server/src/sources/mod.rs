//! Where work comes from. One list, no plugins: calls over the socket, and jobs.

mod access;
pub(crate) mod end;
pub(crate) mod jobs;
mod payload;
pub(crate) mod rpc;

pub(crate) use payload::{Origin, Payload, Payloads};

/// What a client that met a limit is told to wait.
pub(crate) const RETRY_MS: u32 = 100;
