//! Where jobs live.
//!
//! One trait ([`Driver`]) for every engine: it is asked ([`Ask`]) and tells ([`Told`]), and never makes anyone
//! wait. [`MemoryStore`] keeps jobs for the life of the process, [`SqliteStore`] on disk.

mod ask;
mod checksum;
mod driver;
mod fingerprint;
mod id;
mod job;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stats;

pub use ask::{
    Ask, Change, ChangeKind, Changed, Counts, Filter, Found, Group, Import, Lane, Look, Pushed,
    States, Ticket, Told, Trouble, Which,
};
#[cfg(feature = "sim")]
pub use driver::Part;
pub use driver::{Abilities, Clock, Driver, Keep, Opened, steady_clock, steady_ms, wall_clock};
pub use fingerprint::fingerprint;
pub(crate) use id::JobMap;
pub use id::{Ids, JobId};
pub use job::{
    Bytes, Ending, Holder, Job, JobError, NewJob, Note, Options, Owner, QueueNo, Rest, Run, State,
    Unique, View, What, Whole, lossless,
};
pub use memory::MemoryStore;
pub use sqlite::{HeldBy, SqliteOptions, SqliteStore, StoreError, tools};
#[cfg(feature = "sqlite")]
pub use stats::StoreStats;

/// A bound, and what it is in the simulation, whose seeds are small.
const fn bound(real: usize, simulated: usize) -> usize {
    match cfg!(feature = "sim") {
        true => simulated,
        false => real,
    }
}

/// The longest progress line, result, output and checkpoint that are kept of a job, bytes. Longer ones are
/// cut (output: at its beginning) or, where a cut would falsify them, refused by whoever takes them in.
pub const MAX_LINE: usize = 200;
pub const MAX_RESULT: usize = 64 << 10;
pub const MAX_OUTPUT: usize = bound(64 << 10, 256);
pub const MAX_CHECKPOINT: usize = 32 << 10;
