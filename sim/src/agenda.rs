//! The agenda: planned events, ordered by time and, at the same time, by when they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;
use stoker_store::Part;

/// An event. Clients, workers and guests are identified by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlannedEvent {
    /// The angel reads messages from the server.
    AngelReads,
    /// A process that the server requested has started.
    Spawned(u64),
    /// A worker sends HELLO, which says what it serves.
    Hello(u64),
    /// A worker reads its connection.
    WorkerReads(u64),
    /// A worker that takes tasks on request asks for one, withdraws its request or leaves. The second number is the
    /// plan: only the newest plan counts.
    PullActs(u64, u64),
    /// A guest (a worker that the angel did not start) connects, or is asked to shut down.
    GuestActs(usize),
    /// A guest on another machine that has lost its connection resumes its session if the last value is true; otherwise
    /// the session expires. The second number is the worker's.
    Reconnects(usize, u64, bool),
    /// The code of a run continues. The numbers identify the worker and the run.
    RunContinues(u64, u64),
    /// A process ends: by a signal if the second value is true, else by itself.
    Dies(u64, bool),
    /// A process is killed from outside, unless it has a task.
    DiesIfIdle(u64),
    /// A client connects, sends requests or hangs up.
    ClientActs(usize),
    /// A client reads its connection.
    ClientReads(usize),
    /// The code of a worker's task reads the answer to a request of its own.
    NestedClientReads(u64),
    /// A hostile client connects, or checks its connection.
    HostileActs(usize),
    /// The wall clock is set.
    WallJumps,
    /// The configuration file changes.
    FileChanges,
    /// The reload of the configuration is requested again.
    Reloads,
    /// A reload of this edit was answered a while ago, so the new settings must apply from now on.
    ReloadApplies(u64),
    /// A part of the store does its pending work. The number is the plan: only the newest plan counts.
    StoreWorks(Part, u64),
    /// The disk begins to fail.
    DiskFails,
    /// The disk works again.
    DiskRecovers,
    /// The log can't be written from now on, if the value is true, or can be written again.
    LogStalls(bool),
    /// All processes that the dead server had started have ended.
    OrphansEnded,
    /// The angel starts a server.
    Restarts,
    /// The simulation checks whether all jobs have ended. The number is the plan: only the newest plan counts.
    ChecksRest(u64),
    /// The server drains at the end of the seed. The number is the plan: only the newest plan counts.
    Drain(u64),
    /// Stoker shuts down in the middle of work.
    ShutsDown,
    /// The seed ends.
    SeedEnds,
}

/// How a trace prints the event.
impl fmt::Display for PlannedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AngelReads => write!(f, "the angel reads"),
            Self::Spawned(worker) => write!(f, "worker {worker} is started"),
            Self::Hello(worker) => write!(f, "worker {worker} sends HELLO"),
            Self::WorkerReads(worker) => write!(f, "worker {worker} reads"),
            Self::PullActs(worker, _) => write!(f, "worker {worker} acts by itself"),
            Self::GuestActs(no) => write!(f, "guest {no} acts"),
            Self::Reconnects(_, worker, true) => write!(f, "worker {worker} resumes its session"),
            Self::Reconnects(_, worker, false) => {
                write!(f, "the session of worker {worker} expires")
            }
            Self::RunContinues(worker, run) => write!(f, "run {run} of worker {worker} continues"),
            Self::Dies(worker, true) => write!(f, "worker {worker} is killed"),
            Self::Dies(worker, false) => write!(f, "worker {worker} exits"),
            Self::DiesIfIdle(worker) => write!(f, "worker {worker} is killed if it is idle"),
            Self::ClientActs(client) => write!(f, "client {client} acts"),
            Self::ClientReads(client) => write!(f, "client {client} reads"),
            Self::NestedClientReads(worker) => write!(f, "the task of worker {worker} reads"),
            Self::HostileActs(no) => write!(f, "hostile client {no} acts"),
            Self::FileChanges => write!(f, "the configuration file is changed"),
            Self::Reloads => write!(f, "a reload is requested again"),
            Self::ReloadApplies(_) => write!(f, "the reloaded settings apply"),
            Self::WallJumps => write!(f, "the wall clock is set"),
            Self::StoreWorks(part, _) => write!(f, "the store works: {part:?}"),
            Self::ChecksRest(_) => write!(f, "the simulation checks whether all jobs have ended"),
            Self::DiskFails => write!(f, "the disk fails"),
            Self::DiskRecovers => write!(f, "the disk works again"),
            Self::LogStalls(true) => write!(f, "the log stalls"),
            Self::LogStalls(false) => write!(f, "the log is written again"),
            Self::OrphansEnded => write!(f, "all processes of the dead server have ended"),
            Self::Restarts => write!(f, "the angel starts a server"),
            Self::ShutsDown => write!(f, "Stoker shuts down in the middle of work"),
            Self::SeedEnds => write!(f, "the seed ends"),
            Self::Drain(_) => write!(f, "the angel asks the server to shut down"),
        }
    }
}

#[derive(Default)]
pub(crate) struct Agenda {
    all: BinaryHeap<Reverse<(Duration, u64, PlannedEvent)>>,
    count: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: Duration, what: PlannedEvent) {
        self.count += 1;
        self.all.push(Reverse((at, self.count, what)));
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.all.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(crate) fn take(&mut self) -> Option<PlannedEvent> {
        self.all.pop().map(|Reverse((_, _, what))| what)
    }
}
