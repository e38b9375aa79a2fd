//! The job store.
//!
//! Every engine implements one trait, [`Driver`]: it takes requests ([`StoreRequest`]), reports events
//! ([`StoreEvent`]) and never blocks its caller. [`MemoryStore`] keeps jobs while the process runs,
//! [`SqliteStore`] keeps them on disk.

mod checksum;
mod driver;
mod fingerprint;
mod id;
mod job;
mod memory;
mod request;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stats;

#[cfg(feature = "sim")]
pub use driver::Part;
pub use driver::{
    Capabilities, Clock, Driver, Opened, QueuePolicy, steady_clock, steady_ms, wall_clock,
};
pub use fingerprint::fingerprint;
pub(crate) use id::JobMap;
pub use id::{Ids, JobId};
pub use job::{
    Bytes, Ending, HistoryEntry, HistoryKind, Holder, Job, JobDetails, JobError, NewJob, Options,
    Owner, ParkedJob, QueueNo, RunCounters, State, Unique, View, lossless_text,
};
pub use memory::MemoryStore;
pub use request::{
    Change, ChangeKind, Changed, Counts, Filter, Found, Group, Import, Lane, Pushed, Query,
    Selection, States, StoreEvent, StoreRequest, Ticket, Trouble,
};
pub use sqlite::{LockOwner, SqliteOptions, SqliteStore, StoreError, tools};
#[cfg(feature = "sqlite")]
pub use stats::StoreStats;

/// The maximum sizes of a job's progress line, result, output and checkpoint, in bytes. The server truncates
/// a longer line at its end and longer output at its beginning, and does not store a longer result or checkpoint.
pub const MAX_LINE: usize = 200;
pub const MAX_RESULT: usize = 64 << 10;
pub const MAX_OUTPUT: usize = stoker_os::limit(64 << 10, 256);
pub const MAX_CHECKPOINT: usize = 32 << 10;
