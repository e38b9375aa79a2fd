//! What is to happen, by time, and in the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;
use stoker_store::Part;

/// Peers by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// The angel looks at what the server has sent.
    AngelLooks,
    /// A process that was asked for is there.
    Spawned(u64),
    /// It connects, if that went well, and says what it offers.
    Hello(u64),
    WorkerLooks(u64),
    /// A worker that takes tasks on request asks for one, or gives up, by a plan that may not count any more.
    PullActs(u64, u64),
    /// A worker that was started by hand connects, or is told to go.
    GuestActs(usize),
    /// The code of a run goes on: of a worker, and which of all runs it is.
    RunGoesOn(u64, u64),
    /// A process ends by itself or by a signal.
    Dies(u64, bool),
    /// A process is killed from without, if it runs nothing.
    DiesIdle(u64),
    /// A client connects, asks for something, or hangs up.
    ClientActs(usize),
    ClientLooks(usize),
    /// The code of a worker's task reads what it has asked for.
    OwnLooks(u64),
    /// A hostile client looks at its connection, or makes one.
    HostileActs(usize),
    WallJumps,
    /// The configuration file.
    FileChanges,
    /// The server is asked again to reload it.
    Reloads,
    /// A reload of an edit was answered a while ago.
    ReloadHolds(u64),
    /// A part of the store does what it was asked, by a plan that may not count any more.
    StoreWorks(Part, u64),
    DiskFails,
    DiskHeals,
    /// All that the dead server had started has ended.
    Cleared,
    /// A server begins.
    Restarts,
    /// Whether the server has come to rest is looked at, by a plan that may not count any more.
    Rests(u64),
    /// The server is to end, by such a plan.
    Drain(u64),
    /// Stoker is told to end in the middle of work.
    Stops,
    /// All is over.
    Ends,
}

/// As a trace shows it.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AngelLooks => write!(f, "the angel reads"),
            Self::Spawned(worker) => write!(f, "worker {worker} is started"),
            Self::Hello(worker) => write!(f, "worker {worker} says HELLO"),
            Self::WorkerLooks(worker) => write!(f, "worker {worker} reads"),
            Self::PullActs(worker, _) => write!(f, "worker {worker} goes on by itself"),
            Self::GuestActs(no) => write!(f, "guest {no} acts"),
            Self::RunGoesOn(worker, run) => write!(f, "run {run}, of worker {worker}, goes on"),
            Self::Dies(worker, true) => write!(f, "worker {worker} is killed"),
            Self::Dies(worker, false) => write!(f, "worker {worker} exits"),
            Self::DiesIdle(worker) => write!(f, "worker {worker} is killed, if it is idle"),
            Self::ClientActs(client) => write!(f, "client {client} acts"),
            Self::ClientLooks(client) => write!(f, "client {client} reads"),
            Self::OwnLooks(worker) => write!(f, "the task of worker {worker} reads"),
            Self::HostileActs(no) => write!(f, "hostile client {no} acts"),
            Self::FileChanges => write!(f, "the configuration file is changed"),
            Self::Reloads => write!(f, "a reload is asked for again"),
            Self::ReloadHolds(_) => write!(f, "what the file says holds"),
            Self::WallJumps => write!(f, "the wall clock is set"),
            Self::StoreWorks(part, _) => write!(f, "the store works: {part:?}"),
            Self::Rests(_) => write!(f, "is there a job left?"),
            Self::DiskFails => write!(f, "the disk fails"),
            Self::DiskHeals => write!(f, "the disk is well again"),
            Self::Cleared => write!(f, "all that the dead server had started has ended"),
            Self::Restarts => write!(f, "the angel starts a server"),
            Self::Stops => write!(f, "Stoker is told to end, in the middle of work"),
            Self::Ends => write!(f, "all is over"),
            Self::Drain(_) => write!(f, "the angel has the server end"),
        }
    }
}

#[derive(Default)]
pub(crate) struct Agenda {
    all: BinaryHeap<Reverse<(Duration, u64, What)>>,
    count: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: Duration, what: What) {
        self.count += 1;
        self.all.push(Reverse((at, self.count, what)));
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.all.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(crate) fn take(&mut self) -> Option<What> {
        self.all.pop().map(|Reverse((_, _, what))| what)
    }
}
