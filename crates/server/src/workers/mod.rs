//! Who does the work: processes that the angel starts for us, and workers that dial in.
//!
//! In every turn the output of workers is read before their sockets. What a worker wrote before it
//! answered was in its pipe before its answer was in its socket, so at window 1 a line is always that of
//! the task which wrote it, at no further system call.

mod dialled;
mod handle;
#[cfg(feature = "sim")]
mod invariants;
mod log;
mod memory;
pub(crate) mod process;
mod serving;
mod talk;

#[cfg(not(feature = "sim"))]
pub(crate) use handle::kill_marked;
pub(crate) use handle::{Pipe, WorkerHandle};
pub(crate) use memory::Shared;
