//! The requests that a store takes and the events that it reports: the interface that all engines share.

use crate::{
    Bytes, Ending, HistoryKind, Holder, Job, JobError, JobId, NewJob, Owner, ParkedJob, QueueNo,
    RunCounters, State, View,
};

/// Identifies the requester that waits for an event. The store returns it unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64, pub u32);

#[derive(Clone, Debug)]
pub enum StoreRequest {
    /// Accept a job. `room` says whether the scheduler has room for it now. Answered by `Pushed`.
    Push {
        ticket: Ticket,
        room: bool,
        job: Box<NewJob>,
    },
    /// Hand over up to `limit` more jobs of a lane, in their order. Answered by `Refilled`.
    Refill {
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
        limit: usize,
    },
    /// Hand over jobs of up to `lanes` lanes of which no job is loaded, `limit` of each. Answered by
    /// `RefilledLanes`.
    RefillLanes {
        queue: QueueNo,
        lanes: usize,
        limit: usize,
    },
    /// Return a loaded job again. Answered by `Fetched`.
    Fetch { job: JobId },
    /// A loaded job has ended. If there is a ticket, `Completed` follows once the end is durable.
    End {
        job: JobId,
        counters: RunCounters,
        ending: Ending,
        ticket: Option<Ticket>,
        /// The end of the run's output.
        output: Option<Vec<u8>>,
    },
    /// A run of a loaded job failed, and the job will run again.
    Retry {
        job: JobId,
        counters: RunCounters,
        /// When the next run is due, by the steady clock.
        due_ms: u64,
        error: JobError,
        output: Option<Vec<u8>>,
        /// The job stays loaded until it is due, because no other job with its key may overtake it.
        park: bool,
    },
    /// The first run of a loaded job starts, which releases a unique key that is only held until the start.
    Started { job: JobId },
    /// Replaces the list of running jobs. If the server crashes, they count as crashed.
    Running { jobs: Vec<JobId> },
    /// Jobs that were running when the server was killed. A crash is counted for each of them.
    Crashed { jobs: Vec<JobId> },
    /// A checkpoint that a run of a loaded job saved for the next run.
    Checkpoint { job: JobId, bytes: Vec<u8> },
    /// The progress reported by a loaded job.
    Progress {
        job: JobId,
        percent: u8,
        text: String,
    },
    /// Output that a job wrote after its acknowledgement.
    Output { job: JobId, bytes: Vec<u8> },
    /// Adds an entry to a job's history.
    Note {
        job: JobId,
        what: HistoryKind,
        text: String,
    },
    /// An operator changes jobs. Answered by `Changed`.
    Change {
        ticket: Ticket,
        which: Selection,
        change: Change,
    },
    /// A query for jobs. Answered by `Found`.
    Query { ticket: Ticket, query: Query },
    /// Import jobs from an export, except those whose idempotency key belongs to a job of this store.
    /// Answered by `Changed`.
    Import { ticket: Ticket, jobs: Vec<Import> },
    /// Pauses or resumes a queue. If there is a ticket, `Completed` follows once the change is durable.
    Pause {
        queue: QueueNo,
        paused: bool,
        ticket: Option<Ticket>,
    },
    /// Stores an operator's overrides of a queue as JSON, so that they survive restarts. Answered like
    /// `Pause`.
    Settings {
        queue: QueueNo,
        settings: String,
        ticket: Option<Ticket>,
    },
}

impl StoreRequest {
    /// The ticket of the requester that waits for the answer, if there is one.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Push { ticket, .. }
            | Self::Change { ticket, .. }
            | Self::Query { ticket, .. }
            | Self::Import { ticket, .. } => Some(*ticket),
            Self::End { ticket, .. }
            | Self::Pause { ticket, .. }
            | Self::Settings { ticket, .. } => *ticket,
            _ => None,
        }
    }
}

/// The jobs that an operator wants to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    One(JobId),
    Many(Filter),
    /// Loaded jobs, which the scheduler releases if the change succeeds.
    Loaded(Vec<JobId>),
}

/// A job matches if it meets all conditions that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub queue: Option<QueueNo>,
    pub states: States,
    /// The job's type (see [`crate::Options::kind`]).
    pub kind: Option<String>,
    /// The error's class.
    pub error: Option<String>,
    pub fingerprint: Option<u64>,
    /// The job ended before this Unix millisecond or, if it has not ended, was created before it.
    pub before_ms: Option<u64>,
    pub key: Option<Box<[u8]>>,
    /// Jobs of this owner.
    pub owner: Option<Owner>,
}

/// A set of states. The empty set matches all states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States(u8);

impl States {
    #[must_use]
    pub fn with(self, state: State) -> Self {
        Self(self.0 | 1 << state as u8)
    }

    #[must_use]
    pub fn contains(self, state: State) -> bool {
        self.0 == 0 || self.0 & 1 << state as u8 != 0
    }

    /// The state, if the set contains exactly one.
    #[must_use]
    pub fn single(self) -> Option<State> {
        State::ALL
            .into_iter()
            .find(|state| self.0 == 1 << *state as u8)
    }
}

impl From<State> for States {
    fn from(state: State) -> Self {
        Self::default().with(state)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Failed or cancelled jobs run again with their attempts, exceptions and crashes reset. With a rate, at
    /// most that number per second.
    Retry { per_second: Option<u32> },
    /// Waiting jobs end as cancelled. Loaded jobs are returned in `Changed`, so that the scheduler ends them.
    Cancel,
    /// Ended jobs are deleted.
    Discard,
    /// Jobs in any state but done move to another queue.
    Move { to: QueueNo },
    /// A failed, cancelled, suspended or delayed job gets a new body. Its previous body is kept in its
    /// history.
    Edit { body: Bytes },
    /// Waiting jobs wait until they are released.
    Suspend,
    /// Delayed, retrying and suspended jobs become ready.
    Release,
}

impl Change {
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        match self {
            Self::Retry { .. } => ChangeKind::Retry,
            Self::Cancel => ChangeKind::Cancel,
            Self::Discard => ChangeKind::Discard,
            Self::Move { .. } => ChangeKind::Move,
            Self::Edit { .. } => ChangeKind::Edit,
            Self::Suspend => ChangeKind::Suspend,
            Self::Release => ChangeKind::Release,
        }
    }

    /// Whether this change is possible for a job in this state.
    #[must_use]
    pub fn applies_to(&self, state: State) -> bool {
        self.kind().applies_to(state)
    }
}

/// A [`Change`] without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Retry,
    Cancel,
    Discard,
    Move,
    Edit,
    Suspend,
    Release,
}

impl ChangeKind {
    /// Whether this change is possible for a job in this state. This is the only table of changes by state.
    #[must_use]
    pub fn applies_to(self, state: State) -> bool {
        use State::{Cancelled, Delayed, Done, Failed, Ready, Retrying, Suspended};
        match self {
            Self::Retry => matches!(state, Failed | Cancelled),
            Self::Cancel => !state.is_final(),
            Self::Discard => state.is_final(),
            Self::Move => state != Done,
            Self::Edit => matches!(state, Failed | Cancelled | Suspended | Delayed),
            Self::Suspend => matches!(state, Ready | Delayed | Retrying),
            Self::Release => matches!(state, Delayed | Retrying | Suspended),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    One(JobId),
    /// One entry of a job's history, counted from 1, with its full text. The rest of the job is returned as
    /// in a list.
    HistoryEntry {
        job: JobId,
        number: u64,
    },
    /// Jobs in order of their ids, starting after `after`.
    List {
        filter: Filter,
        after: Option<JobId>,
        limit: usize,
        /// Order from the newest to the oldest.
        newest: bool,
        /// Include bodies, as an export needs them.
        whole: bool,
    },
    Count(Filter),
    /// Failed jobs grouped by fingerprint, largest group first.
    Groups {
        filter: Filter,
        limit: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    One(Option<Box<View>>),
    List {
        jobs: Vec<View>,
        /// There are more jobs after the last one.
        more: bool,
    },
    Count(u64),
    Groups(Vec<Group>),
}

/// Failed jobs with the same fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub fingerprint: u64,
    pub count: u64,
    pub first_ms: u64,
    pub last_ms: u64,
    /// The job that failed last, as an example.
    pub job: JobId,
    pub queue: QueueNo,
    pub error: JobError,
}

/// A job from an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub job: NewJob,
    pub counters: RunCounters,
    /// The job's id in the store it was exported from.
    pub exported_id: String,
    /// Set for a failed job. A job without an error becomes ready, delayed or suspended.
    pub error: Option<JobError>,
    pub checkpoint: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StoreEvent {
    Pushed {
        ticket: Ticket,
        pushed: Pushed,
    },
    Refilled {
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
        jobs: Vec<Job>,
        more: bool,
    },
    RefilledLanes {
        queue: QueueNo,
        lanes: Vec<Lane>,
        /// There are more lanes of which no job is loaded.
        more: bool,
    },
    /// A lane now has jobs that are not loaded.
    Backlog {
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
    },
    /// A parked job of an ordered queue, reported after a restart. It is not due yet, and no other job with
    /// its key may overtake it.
    Parked {
        job: ParkedJob,
    },
    /// The answer to `Fetch`; `None` if the job no longer exists.
    Fetched {
        id: JobId,
        job: Option<Box<Job>>,
    },
    /// The request has been carried out and is as durable as the store can make it.
    Completed {
        ticket: Ticket,
    },
    /// The job's end can't be written although the disk works. The job may run again after a restart.
    EndNotWritten {
        ticket: Ticket,
    },
    /// It is unknown whether the request was committed, and may remain unknown for a long time. The usual
    /// event follows once it is known.
    InDoubt {
        ticket: Ticket,
        trouble: Trouble,
    },
    Changed {
        ticket: Ticket,
        result: Result<Changed, Trouble>,
    },
    Found {
        ticket: Ticket,
        found: Result<Found, Trouble>,
    },
    Counts {
        queue: QueueNo,
        counts: Counts,
    },
    /// Something in the store can't be read or written; the text gives the reason. Everything else continues,
    /// and the operation is retried.
    Damage(String),
    /// The store can't write until `Failing(None)` follows: new jobs are rejected, existing ones are kept.
    Failing(Option<Trouble>),
}

impl StoreEvent {
    /// Bytes of the jobs in this event.
    #[must_use]
    pub fn job_bytes(&self) -> usize {
        let all = |jobs: &[Job]| jobs.iter().map(Job::size).sum::<usize>();
        match self {
            Self::Pushed {
                pushed: Pushed::Accepted { job: Some(job), .. },
                ..
            }
            | Self::Fetched { job: Some(job), .. } => job.size(),
            Self::Refilled { jobs, .. } => all(jobs),
            Self::RefilledLanes { lanes, .. } => lanes.iter().map(|lane| all(&lane.jobs)).sum(),
            _ => 0,
        }
    }

    /// Bytes of a query's result in this event.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        let size = |view: &View| {
            let whole = view.whole.as_ref();
            VIEW_OVERHEAD + whole.map_or(0, |whole| whole.size())
        };
        match self {
            Self::Found {
                found: Ok(Found::One(Some(view))),
                ..
            } => size(view),
            Self::Found {
                found: Ok(Found::List { jobs, .. }),
                ..
            } => jobs.iter().map(size).sum(),
            _ => 0,
        }
    }
}

/// The approximate size of a listed job in memory, in addition to its payload.
const VIEW_OVERHEAD: usize = 1_024;

#[derive(Clone, Debug, PartialEq)]
pub enum Pushed {
    /// The job is as durable as the store can make it. `job` is set if it is handed to the scheduler at once.
    Accepted {
        id: JobId,
        job: Option<Box<Job>>,
    },
    /// A push with the same idempotency key was accepted before, as this job.
    Repeated {
        holder: Holder,
        /// Whether the body is the same too. A job pushed by a version without body checksums counts as
        /// having the same body.
        same_body: bool,
    },
    /// The unique key of the job is held by this other job.
    Taken(Holder),
    Rejected(Trouble),
}

/// Jobs of a lane of which no job was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub class: u8,
    pub key: Box<[u8]>,
    pub jobs: Vec<Job>,
    /// The lane has more ready jobs than these.
    pub more: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The number of jobs that were changed.
    pub count: u64,
    /// Jobs that match and are loaded into the scheduler.
    pub loaded: Vec<JobId>,
    /// Why some of the jobs that the scheduler had released stay loaded.
    pub trouble: Option<Trouble>,
}

/// The number of jobs of a queue in each state. `ready` includes running jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ready: u64,
    /// Delayed and retrying jobs.
    pub delayed: u64,
    pub suspended: u64,
    /// Jobs that have ended as done so far, including those that are no longer kept.
    pub done: u64,
    pub cancelled: u64,
    /// Failed jobs that are still kept.
    pub failed: u64,
    /// Runs that were followed by another run.
    pub retried: u64,
}

/// Why a store did not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The disk is full.
    Full(String),
    /// The disk or the file is broken.
    Io(String),
    /// The store's files were deleted, replaced or truncated by another process while the store was open.
    Replaced(String),
    /// Too many requests are in progress; the request may be repeated later.
    Busy(String),
    /// The job's state does not allow the request.
    State(State),
    /// The unique key of the job is held by this other job.
    Taken(Holder),
    NotFound,
}

impl Trouble {
    /// Whether a retry may succeed without any intervention.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Full(_) | Self::Io(_) | Self::Replaced(_) | Self::Busy(_)
        )
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(text) => write!(f, "the job store's disk is full: {text}"),
            Self::Io(text) => write!(f, "the job store can't write: {text}"),
            Self::Replaced(text) => {
                write!(f, "the job store was replaced while it was open: {text}")
            }
            Self::Busy(text) => write!(f, "the job store is busy: {text}"),
            Self::State(state) => write!(f, "the job is {}", state.name()),
            Self::Taken(_) => f.write_str("another job holds its unique key"),
            Self::NotFound => f.write_str("the job does not exist, or was deleted"),
        }
    }
}

impl std::error::Error for Trouble {}
