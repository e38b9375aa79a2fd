//! Who waits for an event of the store, and for which one.

use crate::net::ConnId;
use crate::users::UserId;
use stoker_core::{QueueId, TaskId, WorkerId};
use stoker_store::{Job, JobId, Owner, ParkedJob, QueueNo};

/// Who waits for an event of the store.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A producer; `None` if it wants no answer.
    Push {
        queue: QueueId,
        to: Option<(ConnId, u32)>,
        /// Whose push it is.
        user: Option<UserId>,
        /// Whose the job is to be.
        owner: Option<Owner>,
    },
    /// Operators who cancel a job that ended.
    Cancelled(Vec<u64>),
    /// An operator who cancels a job that had left the core already.
    StrayCancelled(u64),
    /// A worker that acknowledged a task.
    Ack {
        worker: WorkerId,
        task: TaskId,
        job: JobId,
    },
    /// The scheduler, which gives this job to its worker as soon as it counts as done.
    Claim { task: TaskId, job: JobId },
    /// An operator, whose answer is known already.
    Reply {
        conn: ConnId,
        id: u32,
        value: serde_json::Value,
    },
    /// Whoever asked for the list of queues, once what has ended is counted.
    Counted { look: u64 },
    /// An operator, about jobs that were taken back from the core.
    Recalled(Box<Recalled>),
    /// An operator.
    Admin {
        conn: ConnId,
        id: u32,
        what: Operator,
    },
}

/// What an operator's answer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Show,
    /// One line of a job's history whole, counted from 1.
    Note(u64),
    List,
    /// Only jobs that do not run.
    ListReady,
    Export,
    Count,
    /// Whether a change can be done to one job.
    Fits(stoker_api::job::Change),
    Groups,
    Changed(Reach),
}

/// What a change does to jobs that the core holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nothing: what the core holds is in no state in which that could be done.
    None,
    /// All are cancelled, running ones with their workers if need be.
    Cancel,
    /// The same for a single job that was named; the answer says why if it could not be cancelled.
    CancelOne,
    /// Those that wait are cancelled.
    CancelWaiting,
    /// Those that wait are taken back and moved; whoever named a single one that runs is refused.
    Move { to: QueueNo, alone: bool },
    /// The same for those that are to wait until they are released.
    Suspend { alone: bool },
    /// Parked ones become due at once.
    Release,
}

/// Who waits for jobs that were taken back, and what has happened so far.
#[derive(Clone, Debug)]
pub(crate) struct Recalled {
    pub(super) caller: Caller,
    pub(super) jobs: Vec<Job>,
    pub(super) parked: Vec<ParkedJob>,
}

/// Who is answered.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Operator {
        conn: ConnId,
        id: u32,
        count: u64,
        /// Jobs that run.
        running: u64,
    },
    /// One who cancels, by their number.
    Cancelling(u64),
}

impl Recalled {
    pub(crate) fn leave(&mut self) -> Option<(ConnId, u32)> {
        match &mut self.caller {
            Caller::Operator { conn, id, .. } => {
                Some((std::mem::replace(conn, ConnId::NOBODY), *id))
            }
            // They know how long they wait.
            Caller::Cancelling(_) => None,
        }
    }
}
