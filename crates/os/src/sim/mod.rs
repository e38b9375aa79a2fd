//! A kernel in memory, one for each thread. Written bytes arrive at once, but a read or write may cover only a part
//! of its bytes, as the drawn shares decide. Time passes only when the simulation advances it.
//!
//! [`kernel`] is the part that the data plane uses. The other modules are for the simulation, which plays clients,
//! workers and the angel: it creates their ends of sockets, their processes, and time.

pub(crate) mod file;
pub(crate) mod kernel;
mod state;
pub(crate) mod thread;
mod world;

pub use file::{Disk, put_file, set_disk};
pub use kernel::PROTECTED_USER;
pub use state::Share;
pub use stoker_testkit::vfs;
pub use world::*;
