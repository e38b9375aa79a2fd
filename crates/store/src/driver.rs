//! The trait of engines that keep jobs.

use crate::{Counts, Ids, QueueNo, StoreEvent, StoreRequest, StoreStats};
use std::io;
use std::sync::Arc;
use stoker_os::BorrowedFd;

/// An engine that keeps jobs.
///
/// Sending a request never blocks; the engine reports events later, in the order in which it did things. The
/// caller loads a *window* of each lane (queue, priority class, key). The engine hands over jobs only on
/// request, so the scheduler's fairness does not depend on the engine's order, and no job is prefetched that
/// another server could have run. The tests in `conformance` define what every engine has to do.
pub trait Driver: Send {
    /// Opens a new or known queue and sets its policy. Never blocks: a new queue is written with the next
    /// commit, before any request that refers to it.
    fn open_queue(&mut self, name: &str, policy: QueuePolicy) -> Opened;

    /// The names of all queues in the store.
    fn queues(&self) -> Vec<String>;

    /// Sends a request. Never blocks. An overloaded engine rejects pushes, queries and changes with
    /// [`crate::Trouble::Busy`]; all other requests are always accepted.
    fn send(&mut self, request: StoreRequest);

    /// Hands buffered requests to the engine. The caller does this once per turn.
    fn flush(&mut self);

    /// Appends the events that have occurred.
    fn receive(&mut self, events: &mut Vec<StoreEvent>);

    /// Becomes readable when there are events; `None` if the engine reports all of them at once.
    fn wake(&self) -> Option<BorrowedFd<'_>>;

    /// When `receive` has to be called at the latest, by the steady clock.
    fn next_due(&self) -> Option<u64>;

    /// Bytes of payloads of unfinished jobs that are in memory.
    fn bytes(&self) -> usize;

    /// The engine's own statistics. An engine without a file has none.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// How many bytes of jobs refills may hand over until this is called again. Jobs beyond that are
    /// reported as `more`. An engine that keeps its jobs in memory can ignore it.
    fn allow(&mut self, _bytes: usize) {}

    fn ids(&self) -> &Ids;

    fn abilities(&self) -> Abilities;

    /// How long until a background part of the engine has work to do, if it has any.
    #[cfg(feature = "sim")]
    fn time_to_work(&self, _part: Part) -> Option<std::time::Duration> {
        None
    }

    /// Runs one step of a background part, which is a thread outside the simulation.
    #[cfg(feature = "sim")]
    fn work(&mut self, _part: Part) {}

    /// Completes all requests, reports their events and closes the store. Jobs that are loaded stay in the
    /// store as they were before they were loaded.
    fn close(&mut self, events: &mut Vec<StoreEvent>) -> io::Result<()>;
}

/// The background parts of an engine.
#[cfg(feature = "sim")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Writer,
    Reader,
    /// Copies the log into the store's file (SQLite's checkpoint).
    Folder,
}

/// Tells the time, Unix milliseconds. Tests turn it by hand.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The machine's own clock.
#[must_use]
pub fn wall_clock() -> Clock {
    Arc::new(stoker_os::wall_ms)
}

/// The machine's clock as it was at the first call, advanced by the milliseconds that have passed since. Setting the
/// clock does not change how long a delay is.
#[must_use]
pub fn steady_clock() -> Clock {
    Arc::new(steady_ms)
}

/// What [`steady_clock`] shows.
#[must_use]
pub fn steady_ms() -> u64 {
    stoker_os::steady_ms()
}

/// What an engine can do by itself; the rest is done around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Jobs survive the process.
    pub durable: bool,
    /// The longest delay that it keeps, milliseconds. SQS: 15 minutes.
    pub longest_delay_ms: u64,
    /// A loaded job is handed to other servers unless its lease is renewed within this time; `None` if this
    /// process keeps its jobs for as long as it lives.
    pub lease_ms: Option<u64>,
}

/// How a queue was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub queue: QueueNo,
    pub paused: bool,
    /// As [`StoreRequest::Settings`] left them; empty for none.
    pub settings: String,
    /// How many jobs it had when the store was opened; later counts are reported as events.
    pub counts: Counts,
}

/// What the store needs to know of a queue: retention, order, and how many jobs of a lane may be
/// loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Jobs of one lane that may be loaded at once.
    pub window: u32,
    /// Jobs of one key run one after another, retries included.
    pub ordered: bool,
    /// Done and cancelled jobs: how many, and for how long.
    pub done: u64,
    pub done_ms: u64,
    pub failed: u64,
    pub failed_ms: u64,
    /// The payload of a done job; 0 lets go of it at once.
    pub payload_ms: u64,
    pub result_ms: u64,
    /// How long a repeated push with the same idempotency key is recognised.
    pub idempotency_ms: u64,
}

impl QueuePolicy {
    /// The class in which a job waits: an ordered queue has one order, and no priorities.
    #[must_use]
    pub fn class_of(&self, class: u8) -> u8 {
        if self.ordered { ORDERED } else { class }
    }
}

/// The class of all jobs of an ordered queue: that of a job without a priority.
const ORDERED: u8 = 3;

impl Default for QueuePolicy {
    fn default() -> Self {
        const DAY: u64 = 86_400_000;
        Self {
            window: 256,
            ordered: false,
            done: 10_000,
            done_ms: DAY,
            failed: 100_000,
            failed_ms: 30 * DAY,
            payload_ms: 0,
            result_ms: DAY,
            idempotency_ms: DAY,
        }
    }
}
