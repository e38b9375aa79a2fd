//! What is to happen, by time, and in the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
    /// The run of a worker ends: its how-manieth.
    RunEnds(u64, u64),
    /// A process ends by itself or by a signal.
    Dies(u64, bool),
    /// A client connects, asks for something, or hangs up.
    ClientActs(usize),
    ClientLooks(usize),
    WallJumps,
    /// A part of the store does what it was asked, by a plan that may not count any more.
    StoreWorks(Part, u64),
    /// Whether the server has come to rest is looked at.
    Rests,
    Drain,
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
