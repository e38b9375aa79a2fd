//! What a client's request is about, which decides how its answer is checked.

use crate::ledger::{Imported, Override, Size};
use crate::setup::Setup;
use std::time::Duration;

/// The subject of an open request. It decides how the answer is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Push(u64),
    Call(u64),
    /// A list of queues that an ordinary client requests.
    ListQueues,
    /// An operator's request that changes nothing in the model.
    Operation,
    /// An operator's request that may be rejected because of a reserve.
    LimitedByReserve,
    /// An override of the reserve of a queue.
    Reserve(usize),
    /// An override of a queue's setting: the queue, the override, and the number of the request.
    Override(usize, Override, u64),
    /// A new size of a pool: the pool, the size, and the number of the request.
    Scale(usize, Size, u64),
    /// A reload of pools that follows no edit of the file.
    ReloadPools,
    /// An operator's change of jobs, by its index in the ledger.
    Change(usize),
    /// The removal of an undeclared queue, and when it was requested.
    RemoveQueue(usize, Duration),
    /// The clearing of the quarantine of one service, or of all services, and when it was requested.
    ClearQuarantine(Option<usize>, Duration),
    /// An import of these jobs.
    Import(Imported),
    /// A read of jobs, by its index in the ledger.
    ReadJobs(usize),
    /// A page of a read of jobs, at the end of the seed.
    ReadJobsAtEnd(usize),
    /// A page of the list of all jobs, at the end of the seed.
    ListJobsAtEnd,
    /// The list of queues, at the end of the seed.
    ListQueuesAtEnd,
    /// The list of workers, at the end of the seed.
    ListWorkersAtEnd,
    /// One job with all its details.
    ShowJob(u64),
    /// A push that repeats an accepted one under its idempotency key: the index of the repetition, and whether its
    /// payload differs.
    RepeatedPush(usize, bool),
    /// An operator's request that is invalid.
    InvalidOperation,
    /// A reload of the configuration, after the edit with this number.
    Reload(u64),
    /// The list of queues, requested to see whether a job is left.
    CheckRest,
}

/// The maximum time until an answer.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(5);
/// The maximum time until an answer where a slow store works in many steps, or where the disk fails for a while.
const MAX_SLOW_RESPONSE_TIME: Duration = Duration::from_secs(60);

impl RequestKind {
    /// The maximum time until the server answers, whatever else it is busy with. Calls have deadlines of their own,
    /// and reloads wait for workers.
    pub(crate) fn max_response_time(self, setup: &Setup) -> Duration {
        let is_troubled = setup.has_restarts() || setup.store.faults > 0;
        match self {
            Self::Call(_)
            | Self::Reload(_)
            | Self::ReloadPools
            | Self::Scale(..)
            | Self::LimitedByReserve
            | Self::Reserve(_) => Duration::MAX,
            Self::Change(_) | Self::Import(_) => MAX_SLOW_RESPONSE_TIME,
            _ if is_troubled => MAX_SLOW_RESPONSE_TIME,
            _ => MAX_RESPONSE_TIME,
        }
    }
}
