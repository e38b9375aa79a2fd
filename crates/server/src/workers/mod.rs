//! Workers: processes that the angel starts for the server, and processes that connect by themselves.
//!
//! In every turn the output of workers is read before their sockets. What a worker wrote before its answer was in
//! the pipe before the answer was in the socket. So if only one task is assigned at a time, each line is
//! attributed to the task that wrote it, and that takes no additional system calls.

mod connected;
mod handle;
#[cfg(feature = "sim")]
mod invariants;
mod log;
mod memory;
mod peer_process;
pub(crate) mod process;
mod protocol;
mod state;
mod version;
mod zygote;

#[cfg(not(feature = "sim"))]
pub(crate) use handle::kill_marked;
pub(crate) use handle::{Pipe, WorkerHandle};
pub(crate) use memory::SharedMemory;
pub(crate) use state::Workers;
pub(crate) use version::Version;
pub(crate) use zygote::ZygoteHandle;
