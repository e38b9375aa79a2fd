//! The state that is kept for each pending request to the store: who waits for the event, and what to do with it.

use crate::net::ConnId;
use crate::users::UserId;
use stoker_core::{QueueId, TaskId, WorkerId};
use stoker_store::{Job, JobId, Owner, ParkedJob, QueueNo};

/// The party that waits for an event of the store.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A producer; `to` is `None` if it wants no answer.
    Push {
        queue: QueueId,
        to: Option<(ConnId, u32)>,
        /// The user whose push quota is charged.
        user: Option<UserId>,
        /// The owner that the job will have.
        owner: Option<Owner>,
    },
    /// Operators who cancel a running job, and wait for its end to be saved.
    Cancelled(Vec<u64>),
    /// An operator who cancels a job that had already left the core.
    StrayCancelled(u64),
    /// A worker that has acknowledged a task.
    Ack {
        worker: WorkerId,
        task: TaskId,
        job: JobId,
    },
    /// The scheduler, which sends this job to its worker once the store has recorded it as done.
    Claim { task: TaskId, job: JobId },
    /// An operator whose answer is known already.
    Reply {
        conn: ConnId,
        id: u32,
        value: serde_json::Value,
    },
    /// Callers that requested the list of queues, and wait until ended jobs are counted.
    Counted { query_no: u64 },
    /// An operator who changes jobs that were taken back from the core.
    Recalled(Box<Recalled>),
    /// An operator who waits for the result of a query or change.
    Admin {
        conn: ConnId,
        id: u32,
        what: OperatorReply,
    },
}

/// The kind of answer that an operator expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorReply {
    Show,
    /// A single line of a job's history with its full text, counted from 1.
    Note(u64),
    List,
    /// Only jobs that are not running: to the store, a running job is still ready.
    ListWithoutRunning,
    Export,
    Count,
    /// Whether a change can be applied to a single job.
    Fits(stoker_api::job::Change),
    Groups,
    Changed(LoadedEffect),
}

/// What a change does to loaded jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadedEffect {
    /// Nothing: loaded jobs are not in a state in which the change is possible.
    None,
    /// All are cancelled. The workers of running ones are killed if necessary.
    Cancel,
    /// A single job was named and is cancelled; the answer contains the reason if that was not possible.
    CancelOne,
    /// Only waiting jobs are cancelled.
    CancelWaiting,
    /// Waiting jobs are taken back and moved. If a single running job was named, the request is rejected.
    Move { to: QueueNo, alone: bool },
    /// Waiting jobs are taken back and suspended. If a single running job was named, the request is rejected.
    Suspend { alone: bool },
    /// Parked jobs become due at once.
    Release,
}

/// Jobs that were taken back from the core, and the party that waits for their change.
#[derive(Clone, Debug)]
pub(crate) struct Recalled {
    pub(super) caller: Caller,
    pub(super) jobs: Vec<Job>,
    pub(super) parked: Vec<ParkedJob>,
}

/// The party that waits.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Operator {
        conn: ConnId,
        id: u32,
        count: u64,
        /// Jobs that are running and so were not changed.
        running: u64,
    },
    /// An operator who cancels jobs, by the number of the cancellation.
    Cancelling(u64),
}

impl Recalled {
    pub(crate) fn stop_waiting(&mut self) -> Option<(ConnId, u32)> {
        match &mut self.caller {
            Caller::Operator { conn, id, .. } => Some((std::mem::replace(conn, ConnId::NONE), *id)),
            // Cancellations have their own timeout.
            Caller::Cancelling(_) => None,
        }
    }
}
