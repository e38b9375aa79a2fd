//! Runs the built `stoker` for tests, speaks its wire protocol, and checks that no process is left running.
//!
//! `cargo test --workspace` builds the two binaries that tests need: `stoker`, and this crate's
//! `bad-worker`. Rules that this crate keeps for its tests:
//!
//! - No test waits for a fixed time. A wait ends with an event, or fails at its deadline, which `STOKER_PATIENCE`
//!   multiplies for slow machines.
//! - A process that outlives its [`App`] fails the test.
//! - A test that fails keeps its directory and prints the log.

mod app;
mod client;
mod dir;
pub mod failing;
mod http;
mod log;
mod php_host;
pub mod procs;
mod run;
mod users;
#[cfg(feature = "vfs")]
pub mod vfs;
mod wait;
mod wire;

pub use app::{App, Ended, Setup, repository};
pub use client::{Client, Request};
pub use dir::{Dir, Gate, WaitingWorker};
pub use http::{Http, HttpResponse};
pub use log::matches;
pub use php_host::php_host;
pub use run::{Output, Spawn, bad_worker, beside_tests, pool_of, run};
pub use users::as_nobody;
pub use wait::{limit, pause, timeout_factor, until};
pub use wire::{Inbox, Outbox, Received, frame};
