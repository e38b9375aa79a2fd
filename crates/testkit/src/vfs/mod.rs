//! A disk in memory for SQLite and for plain Rust code, with faults. One seed and the same calls give the same bytes:
//! nothing here reads the real clock, file system or entropy, and nothing really sleeps.
//!
//! A [`Disk`] models Linux with a journaling file system (ext4, xfs), as pessimistically as its documentation allows:
//!
//! - Writes go to the page cache, where every reader sees them. Only a sync makes them durable.
//! - A new, removed or renamed name survives a power cut only after its folder was synced.
//! - A failed sync may mark pages as clean although they never reached the disk: the next sync succeeds without them.
//! - [`Disk::power_cut`] keeps all, some or none of what was not synced; [`Disk::kill`] keeps what was written.
//!
//! Any call can be made to fail, see [`Faults`]. SQLite uses a disk through a VFS of its own ([`Disk::vfs`]), which
//! reports errors as SQLite's unix VFS does; contract tests compare the two. Locks and the shared memory of WAL mode
//! belong to connections, all of which belong to one simulated process.
//!
//! The VFS is written on `rusqlite::ffi`. The crate `sqlite-plugin` (0.11) would have saved some of the unsafe code in
//! `sqlite`, but it runs bindgen, thus libclang, at build time, and takes randomness, sleep and time from the system.

mod content;
mod cut;
mod disk;
mod fault;
mod file;
mod inode;
mod lock;
mod mode;
mod names;
mod shm;
mod sqlite;
mod state;
mod time;
mod trace;

pub use disk::Disk;
pub use fault::{Call, Fault, Faults, Kind};
pub use file::{File, Metadata};
pub use mode::Mode;
pub use rustix::io::Errno;
pub use sqlite::seed_sqlite;
pub use stoker_core::Rng;
pub use time::Time;
