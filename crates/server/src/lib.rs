//! Everything that does I/O around the pure core: sources, workers, store, logs, and operations for
//! administrators.
//!
//! One thread, the data plane, owns the core, all sockets and all pipes. See `ARCHITECTURE.md`.
#![forbid(unsafe_code)]
#![cfg_attr(
    feature = "sim",
    allow(
        dead_code,
        reason = "a simulation opens neither the log's file nor a store on disk"
    )
)]

mod admin;
mod alarms;
mod angel;
mod answers;
mod base;
mod clock;
pub mod config;
mod configure;
mod memory;
mod net;
mod observe;
mod perform;
mod plane;
#[cfg(not(feature = "sim"))]
mod process;
mod sources;
mod turn;
mod users;
#[cfg(not(feature = "sim"))]
mod watch;
mod workers;

pub use clock::rfc3339;
pub use observe::events::{EVENTS as LOG_EVENTS, LogEvent};
pub use observe::open as open_log;
#[cfg(not(feature = "sim"))]
pub use process::{raise_descriptor_limit, run};
pub use turn::Server;

/// A count with its noun, in the plural if needed: `1 job`, `2 jobs`.
pub fn counted(count: impl Into<u64>, thing: &str) -> String {
    match count.into() {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// The largest frame that is accepted from a peer. It is below the limit of the wire format, because the server
/// may add metadata and a name to a frame that it forwards.
pub const MAX_FRAME: usize = stoker_wire::MAX_FRAME - (128 << 10);
