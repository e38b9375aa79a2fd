//! The trait of engines that keep jobs.

use crate::{Counts, Ids, QueueNo, StoreEvent, StoreRequest, StoreStats};
use std::io;
use std::sync::Arc;
use stoker_os::BorrowedFd;

/// A storage engine for jobs.
///
/// `send` never blocks; the engine reports events later, in the order in which it carried out the requests.
/// The caller loads a *window* of each lane (queue, priority class, key). The engine hands over jobs only on
/// request, so the scheduler's fairness does not depend on the engine's order, and no job is prefetched that
/// another server could have run. The tests in `conformance` define the behaviour that every engine must
/// have.
pub trait Driver: Send {
    /// Opens a queue, creating it if it is new, and sets its policy. Never blocks: a new queue is written
    /// with the next commit, before any request that refers to it.
    fn open_queue(&mut self, name: &str, policy: QueuePolicy) -> Opened;

    /// The names of all queues in the store.
    fn queues(&self) -> Vec<String>;

    /// Sends a request. Never blocks. An overloaded engine rejects pushes, queries and changes with
    /// [`crate::Trouble::Busy`]; all other requests are always accepted.
    fn send(&mut self, request: StoreRequest);

    /// Hands buffered requests to the engine. The caller does this once per turn.
    fn flush(&mut self);

    /// Appends the events that have occurred since the previous call.
    fn receive(&mut self, events: &mut Vec<StoreEvent>);

    /// A descriptor that becomes readable when there are events. `None` if every event is ready as soon as
    /// `send` returns.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>>;

    /// The latest time, by the steady clock, at which `receive` must be called again.
    fn next_due(&self) -> Option<u64>;

    /// Bytes that the payloads of unfinished jobs take in memory.
    fn bytes(&self) -> usize;

    /// The engine's own statistics. All zero for an engine without a file.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// Sets how many bytes of jobs refills may hand over until the next call. Jobs beyond the limit are
    /// reported as `more`. An engine that keeps its jobs in memory can ignore it.
    fn set_refill_limit(&mut self, _bytes: usize) {}

    fn ids(&self) -> &Ids;

    fn capabilities(&self) -> Capabilities;

    /// The time until a background part of the engine has work to do; `None` if it has none.
    #[cfg(feature = "sim")]
    fn time_to_work(&self, _part: Part) -> Option<std::time::Duration> {
        None
    }

    /// Runs one step of a background part. Outside the simulation, each part is a thread.
    #[cfg(feature = "sim")]
    fn work(&mut self, _part: Part) {}

    /// Completes all requests, reports their events and closes the store. Loaded jobs stay in the store and
    /// are unfinished when it is opened again.
    fn close(&mut self, events: &mut Vec<StoreEvent>) -> io::Result<()>;
}

/// The background parts of an engine.
#[cfg(feature = "sim")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Writer,
    Reader,
    /// Checkpoints the WAL: copies it into the database file.
    WalCheckpointer,
}

/// Returns the current time in Unix milliseconds. Tests replace it with a clock that they advance themselves.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The system's wall clock.
#[must_use]
pub fn wall_clock() -> Clock {
    Arc::new(stoker_os::wall_ms)
}

/// A steady clock: the wall clock at the first call, advanced by the milliseconds that have passed since.
/// Setting the wall clock does not change the length of a delay that is measured with it.
#[must_use]
pub fn steady_clock() -> Clock {
    Arc::new(steady_ms)
}

/// The current time of [`steady_clock`].
#[must_use]
pub fn steady_ms() -> u64 {
    stoker_os::steady_ms()
}

/// What an engine can do itself; the server does the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Jobs survive the process.
    pub durable: bool,
    /// The longest delay that the engine supports, milliseconds. SQS: 15 minutes.
    pub longest_delay_ms: u64,
    /// A loaded job is handed to other servers unless its lease is renewed within this time; `None` if a
    /// loaded job belongs to this process until the process ends.
    pub lease_ms: Option<u64>,
}

/// The state of a queue when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub queue: QueueNo,
    pub paused: bool,
    /// The overrides that [`StoreRequest::Settings`] stored last; empty for none.
    pub settings: String,
    /// The queue's counts at the time of opening. Later counts are reported as events.
    pub counts: Counts,
}

/// The part of a queue's configuration that the store needs: retention, order, and how many jobs of a lane
/// may be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// The maximum number of jobs of one lane that may be loaded.
    pub window: u32,
    /// The jobs of a key run one at a time, retries included.
    pub ordered: bool,
    /// The maximum number of done and cancelled jobs that are kept.
    pub done: u64,
    /// How long done and cancelled jobs are kept.
    pub done_ms: u64,
    /// The maximum number of failed jobs that are kept.
    pub failed: u64,
    /// How long failed jobs are kept.
    pub failed_ms: u64,
    /// How long the payload of a done job is kept; 0 deletes the payload when the job ends.
    pub payload_ms: u64,
    /// How long a result is kept, unless the push sets another time.
    pub result_ms: u64,
    /// How long a push with the same idempotency key is recognised as a repetition.
    pub idempotency_ms: u64,
}

impl QueuePolicy {
    /// The class in which a job waits. All jobs of an ordered queue wait in one class, so that priorities do
    /// not change their order.
    #[must_use]
    pub fn class_of(&self, class: u8) -> u8 {
        if self.ordered {
            ORDERED_QUEUE_CLASS
        } else {
            class
        }
    }
}

/// The class of all jobs of an ordered queue: the default class of a job without a priority.
const ORDERED_QUEUE_CLASS: u8 = 3;

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
