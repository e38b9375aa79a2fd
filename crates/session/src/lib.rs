//! What passes between a server and peers on other machines, and how the session of a worker outlives its connection.
//!
//! This is the part of the gateway for other machines that does no I/O: bytes go in, bytes come out. The simulation runs
//! the same code.

mod changed_head;
mod expired_sessions;
mod filter;
pub mod local_paths;
#[cfg(test)]
mod lost_connections;
mod rejection;
mod scanner;
mod session_state;
mod time_left;
mod worker_filter;

pub use expired_sessions::ExpiredSessions;
pub use filter::{FrameFilter, Output};
pub use rejection::Rejection;
pub use scanner::{Part, Scanner};
pub use session_state::SessionState;
pub use worker_filter::WorkerFilter;
