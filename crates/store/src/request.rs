//! The requests that a store takes and the events that it reports: the whole interface of every
//! engine.

use crate::{
    Bytes, Ending, Holder, Job, JobError, JobId, NewJob, Owner, ParkedJob, QueueNo, Run, State,
    View, What,
};

/// Identifies who waits for an event. The store returns it unchanged.
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
    /// Hand over a loaded job once more. Answered by `Fetched`.
    Fetch { job: JobId },
    /// A loaded job has ended. If there is a ticket, `Ended` follows once that is durable.
    End {
        job: JobId,
        run: Run,
        ending: Ending,
        ticket: Option<Ticket>,
        /// The end of what the run wrote.
        output: Option<Vec<u8>>,
    },
    /// A run of a loaded job failed, and the job is to run again.
    Retry {
        job: JobId,
        run: Run,
        /// By the steady clock.
        due_ms: u64,
        error: JobError,
        output: Option<Vec<u8>>,
        /// The job stays loaded until then, because no other job of its key may overtake it.
        park: bool,
    },
    /// A loaded job's first run starts, which frees a key that is unique until then.
    Started { job: JobId },
    /// All jobs that run now. After a crash of the server they count as crashed.
    Running { jobs: Vec<JobId> },
    /// Jobs that were running when their server was killed; a crash is counted for each.
    Crashed { jobs: Vec<JobId> },
    /// What a run of a loaded job saved for the next one.
    Checkpoint { job: JobId, bytes: Vec<u8> },
    /// The progress that a loaded job reports.
    Progress {
        job: JobId,
        percent: u8,
        text: String,
    },
    /// Output that a job wrote after its acknowledgement.
    Output { job: JobId, bytes: Vec<u8> },
    /// Adds a line to a job's history.
    Note {
        job: JobId,
        what: What,
        text: String,
    },
    /// An operator changes jobs. Answered by `Changed`.
    Change {
        ticket: Ticket,
        which: Selection,
        change: Change,
    },
    /// Somebody queries jobs. Answered by `Found`.
    Query { ticket: Ticket, query: Query },
    /// Import jobs from an export, except those whose idempotency key belongs to a job of this store.
    /// Answered by `Changed`.
    Import { ticket: Ticket, jobs: Vec<Import> },
    /// Pauses or resumes a queue. If there is a ticket, `Ended` follows once that is durable.
    Pause {
        queue: QueueNo,
        paused: bool,
        ticket: Option<Ticket>,
    },
    /// Stores an operator's overrides of a queue as JSON, so that they survive restarts. Answered
    /// as `Pause` is.
    Settings {
        queue: QueueNo,
        settings: String,
        ticket: Option<Ticket>,
    },
}

impl StoreRequest {
    /// The ticket of whoever waits for the answer, if anybody does.
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

/// Which jobs an operator means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    One(JobId),
    Many(Filter),
    /// Jobs that are loaded, and that the scheduler releases if the change succeeds.
    Loaded(Vec<JobId>),
}

/// All conditions that are there must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub queue: Option<QueueNo>,
    pub states: States,
    /// The job's type (see [`crate::Options::kind`]).
    pub kind: Option<String>,
    /// The error's class.
    pub error: Option<String>,
    pub fingerprint: Option<u64>,
    /// Ended (or, if it has not, was made) before this Unix millisecond.
    pub before_ms: Option<u64>,
    pub key: Option<Box<[u8]>>,
    /// Jobs of this owner.
    pub owner: Option<Owner>,
}

/// Some states; none of them stands for all.
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

    /// The one state, if it is only one.
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
    /// Failed or cancelled jobs run again with fresh budgets; with a rate, so many a second.
    Retry { per_second: Option<u32> },
    /// Waiting jobs end as cancelled. Loaded ones are returned in `Changed`, so that the scheduler
    /// ends them.
    Cancel,
    /// Ended jobs are forgotten.
    Discard,
    /// Failed, cancelled or waiting jobs go to another queue.
    Move { to: QueueNo },
    /// A failed, cancelled, suspended or delayed job gets another body; the former one is kept in its history.
    Edit { body: Bytes },
    /// Jobs that wait go on waiting until they are released.
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

    /// Whether it makes sense for a job in this state.
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
    /// Whether it makes sense for a job in this state. This is the one table of changes by states.
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
    /// One line of a job's history, from 1, however long; of the job itself only what a list has.
    Line {
        job: JobId,
        number: u64,
    },
    /// Jobs in order of their ids, from the one behind `after` on.
    List {
        filter: Filter,
        after: Option<JobId>,
        limit: usize,
        /// From the newest to the oldest.
        newest: bool,
        /// With bodies, as an export needs.
        whole: bool,
    },
    Count(Filter),
    /// Failed jobs by what they failed of, most frequent first.
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
        /// There are more after the last one.
        more: bool,
    },
    Count(u64),
    Groups(Vec<Group>),
}

/// Failed jobs that failed of the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub fingerprint: u64,
    pub count: u64,
    pub first_ms: u64,
    pub last_ms: u64,
    /// The last one, as an example.
    pub job: JobId,
    pub queue: QueueNo,
    pub error: JobError,
}

/// A job from an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub job: NewJob,
    pub run: Run,
    /// The id that it had.
    pub was: String,
    /// Set for a failed job; others become ready or delayed.
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
        /// There are other lanes of which no job is loaded.
        more: bool,
    },
    /// A lane has jobs that are not loaded.
    Backlog {
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
    },
    /// A parked job of an ordered queue, reported after a restart: it is not due yet, and no other job of
    /// its key may overtake it.
    Parked {
        job: ParkedJob,
    },
    /// A loaded job once more; `None` if it no longer exists.
    Fetched {
        id: JobId,
        job: Option<Box<Job>>,
    },
    /// A job's end is as durable as the store can make it.
    Ended {
        ticket: Ticket,
    },
    /// A job's end can't be written although the disk works. The job may run again after a restart.
    EndNotWritten {
        ticket: Ticket,
    },
    /// It is unknown whether the request was committed, and may remain so for long. The usual event follows
    /// once it is known.
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
    /// Something in the store can't be read or written, with the reason. Everything else continues, and
    /// it is retried.
    Damage(String),
    /// The store can't write (until `None`): new jobs are refused, what is there is kept.
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
    pub fn found_bytes(&self) -> usize {
        let size = |view: &View| {
            let whole = view.whole.as_ref();
            VIEW + whole.map_or(0, |whole| whole.size())
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

/// What a job in a list takes beside its payload.
const VIEW: usize = 1_024;

#[derive(Clone, Debug, PartialEq)]
pub enum Pushed {
    /// It is as safe as the store can make it. The job itself comes along if it is handed to the scheduler.
    Accepted {
        id: JobId,
        job: Option<Box<Job>>,
    },
    /// A push with the same idempotency key was accepted before, as this job.
    Repeated {
        holder: Holder,
        /// It had the same body. A push that an earlier version accepted counts as the same.
        same_body: bool,
    },
    /// Its unique key is held by this job.
    Taken(Holder),
    Refused(Trouble),
}

/// Jobs of a lane of which none was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub class: u8,
    pub key: Box<[u8]>,
    pub jobs: Vec<Job>,
    pub more: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub count: u64,
    /// Jobs that match and are loaded into the scheduler.
    pub loaded: Vec<JobId>,
    /// Why some of the jobs that the scheduler had released stay loaded.
    pub trouble: Option<Trouble>,
}

/// How many jobs of a queue are where. `ready` includes those that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ready: u64,
    /// Delayed and retrying.
    pub delayed: u64,
    pub suspended: u64,
    /// Ended so far, whether or not they are still kept.
    pub done: u64,
    pub cancelled: u64,
    /// Failed and still kept.
    pub failed: u64,
    /// Runs that led to another one.
    pub retried: u64,
}

/// Why a store did not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The disk is full.
    Full(String),
    /// The disk or the file is broken.
    Io(String),
    /// Somebody deleted, replaced or truncated its files while it was open.
    Replaced(String),
    /// Too much is under way. Come back later.
    Busy(String),
    /// The job is not in a state in which that can be done.
    State(State),
    /// Its unique key is held by this job.
    Taken(Holder),
    NotFound,
}

impl Trouble {
    /// Whether a retry may succeed without anybody's intervention.
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
            Self::NotFound => f.write_str("there is no such job (any more)"),
        }
    }
}

impl std::error::Error for Trouble {}
