//! The sources of tasks: calls over the socket, and jobs. The list is fixed; there are no plugins.

mod access;
mod answer;
pub(crate) mod end;
pub(crate) mod jobs;
mod payload;
pub(crate) mod rpc;

pub(crate) use answer::TaskAnswer;
pub(crate) use payload::{Origin, Parts, Payload, Payloads};

/// The retry-after time of a client that exceeded a limit.
pub(crate) const RETRY_MS: u32 = 100;
