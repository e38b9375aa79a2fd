//! The progress of a change of many jobs.

use crate::sqlite::reader::Merged;
use crate::{Change, Changed, Filter, Import, JobId, Ticket, Trouble};
use std::collections::VecDeque;

/// A change in progress.
pub(in crate::sqlite) struct BulkChange {
    pub(super) ticket: Ticket,
    pub(super) work: Work,
    pub(super) changed: Changed,
    /// The number of changed jobs that are committed.
    pub(super) committed_count: u64,
}

/// A slice of a change, and whether it was the last one, or why the change could not be made.
pub(in crate::sqlite) struct Slice {
    pub(super) bulk: BulkChange,
    pub(super) over: Result<bool, Trouble>,
}

pub(super) enum Work {
    One(JobId, Change),
    Many {
        filter: Filter,
        change: Change,
        jobs: Merged,
        /// The highest job number at the time of the request. Later jobs are not included.
        upto: u64,
    },
    Loaded {
        jobs: VecDeque<JobId>,
        change: Change,
        /// The jobs of the current slice, and the ones among them that it changes.
        slice: Vec<JobId>,
        returned: Vec<JobId>,
    },
    Import(VecDeque<Import>),
}
