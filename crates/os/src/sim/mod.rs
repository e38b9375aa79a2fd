//! A kernel in memory, one for each thread: what is written arrives at once, as much of it as the drawn shares let
//! through, and time passes only when it is told to.
//!
//! [`kernel`] is what the data plane sees of it. The rest is the other side's: whoever plays clients, workers and the
//! angel makes the ends of sockets, processes and time here.

pub(crate) mod file;
pub(crate) mod kernel;
mod state;
pub(crate) mod thread;
mod world;

pub use file::{Disk, put_file, set_disk};
pub use state::Share;
pub use stoker_testkit::vfs;
pub use world::*;
