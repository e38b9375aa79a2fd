//! The trait of engines that keep jobs.

use crate::{Ask, Counts, Ids, QueueNo, StoreStats, Told};
use std::io;
use std::sync::Arc;
use stoker_os::BorrowedFd;

/// An engine that keeps jobs.
///
/// It is asked without waiting and tells later, in the order in which it did things. Who asks holds a
/// *window* of each lane (queue, priority class, key); the engine hands jobs over only as they are asked for,
/// so the scheduler's fairness does not depend on the engine's order, and nothing is prefetched that another
/// server could have run. What holds for every engine is written as a test in `conformance`.
pub trait Driver: Send {
    /// Opens a queue, new or known, and says what is to be kept of it. Never waits: a queue that is new is
    /// kept with the first commit after this, and what is asked of it from now on comes later than that.
    fn open_queue(&mut self, name: &str, keep: Keep) -> Opened;

    /// The names of all queues that it keeps.
    fn queues(&self) -> Vec<String>;

    /// Never waits. What it can't take now it refuses with [`crate::Trouble::Busy`]; only pushes, looks and
    /// changes are ever refused so.
    fn ask(&mut self, ask: Ask);

    /// Sends off what was asked; once a turn of who asks.
    fn flush(&mut self);

    /// Takes what there is to tell.
    fn hear(&mut self, told: &mut Vec<Told>);

    /// Becomes readable when there is something to tell; `None` if all is told at once.
    fn wake(&self) -> Option<BorrowedFd<'_>>;

    /// When it wants to be looked after (`hear`) at the latest, by the steady clock.
    fn next_due(&self) -> Option<u64>;

    /// Bytes of payloads of unfinished jobs that are in memory.
    fn bytes(&self) -> usize;

    /// What it counts of itself. An engine that has no file counts nothing.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// How many bytes of jobs may be handed over by refills until this is called again. What is asked for
    /// beyond is told as `more`. An engine whose jobs are in memory anyway need not care.
    fn allow(&mut self, _bytes: usize) {}

    fn ids(&self) -> &Ids;

    fn abilities(&self) -> Abilities;

    /// How long until a part of it that works by itself has something to do, if it has.
    #[cfg(feature = "sim")]
    fn time_to_work(&self, _part: Part) -> Option<std::time::Duration> {
        None
    }

    /// Has such a part do a share of that: a thread of its own, where nothing is simulated.
    #[cfg(feature = "sim")]
    fn work(&mut self, _part: Part) {}

    /// Does all that was asked, tells it, and lets go of the store. Held jobs stay as they were before they
    /// were handed over.
    fn close(&mut self, told: &mut Vec<Told>) -> io::Result<()>;
}

/// What of an engine works by itself.
#[cfg(feature = "sim")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Writer,
    Reader,
    /// Moves what was written to where it stays.
    Folder,
}

/// Tells the time, Unix milliseconds. Tests turn it by hand.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The machine's own clock.
#[must_use]
pub fn wall_clock() -> Clock {
    Arc::new(stoker_os::wall_ms)
}

/// The machine's own clock as it was when this was first asked for, and from then on as many milliseconds later as have
/// really passed: whoever sets the clock does not change how long a delay is.
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
    /// A held job is handed to others unless the lease is renewed within so long; `None` where this process
    /// holds for as long as it lives.
    pub lease_ms: Option<u64>,
}

/// How a queue was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub queue: QueueNo,
    pub paused: bool,
    /// As [`Ask::Settings`] left them; empty for none.
    pub settings: String,
    /// How many jobs it had when the store was opened; from then on they are told.
    pub counts: Counts,
}

/// What is kept of a queue, and how much of it is handed over at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Jobs of one lane that are held at once.
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

impl Keep {
    /// The class in which a job waits: an ordered queue has one order, and no priorities.
    #[must_use]
    pub fn class_of(&self, class: u8) -> u8 {
        if self.ordered { ORDERED } else { class }
    }
}

/// The class of all jobs of an ordered queue: that of a job without a priority.
const ORDERED: u8 = 3;

impl Default for Keep {
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
