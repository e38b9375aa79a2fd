//! The effects of a transaction beyond its rows.

use crate::{JobId, Pushed, QueueNo, State, StoreRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The effects of one transaction beyond its rows. They are applied after the commit, and dropped if it
/// fails.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) now: u64,
    /// The time by the steady clock.
    pub(super) steady: u64,
    /// The transaction also deletes ended jobs that exceed the retention of their queue.
    pub(super) trims_excess: bool,
    /// All work is done and COMMIT has started. If COMMIT fails, the transaction may still be in the file.
    pub(super) is_committing: bool,
    /// One effect for each request, in their order.
    pub(super) effects: Vec<Effect>,
    /// Lanes in which jobs became ready, each with the lowest order number of a job that precedes others.
    pub(super) woken: BTreeMap<(QueueNo, u8, Box<[u8]>), u64>,
    /// Lanes that ready jobs left without having been handed over.
    pub(super) lanes_left: BTreeSet<(QueueNo, u8, Box<[u8]>)>,
    /// The ids of the jobs that ended, as stored in `ages`, by queue and kind.
    pub(super) ended: BTreeMap<(QueueNo, u8), Vec<u8>>,
    /// The earliest due time of the jobs that this transaction delayed.
    pub(super) due: NextDue,
}

/// The earliest due times by the wall clock and by the steady clock.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sqlite) struct NextDue(pub(super) [Option<u64>; 2]);

impl NextDue {
    /// The times are unknown and must be read from the file.
    pub(super) const NOW: Self = Self([Some(0), Some(0)]);

    pub(super) fn add(&mut self, due: u64, is_delay: bool) {
        let first = &mut self.0[usize::from(is_delay)];
        *first = Some(first.map_or(due, |first| first.min(due)));
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (is_delay, due) in [false, true].into_iter().zip(other.0) {
            if let Some(due) = due {
                self.add(due, is_delay);
            }
        }
    }

    /// The time until the first job is due.
    pub(super) fn time_left(self, wall: u64, steady: u64) -> Option<Duration> {
        let left = self.0.into_iter().zip([wall, steady]);
        let left = left.filter_map(|(due, now)| Some(due?.saturating_sub(now)));
        left.min().map(Duration::from_millis)
    }
}

pub(super) enum Effect {
    None,
    Pushed(Pushed),
    Accepted {
        id: JobId,
        state: State,
        /// The job's place in its lane; only meaningful if the job is ready.
        order: u64,
    },
    /// The job is no longer loaded.
    Unloaded,
    /// The job is parked until it is due.
    Parked,
}

/// The value of the column `kind` in `ages` for a job that ended in this state.
pub(super) fn kind(state: State) -> u8 {
    u8::from(state == State::Failed)
}

impl Batch {
    pub(super) fn new(now: u64, steady: u64) -> Self {
        Self {
            now,
            steady,
            ..Self::default()
        }
    }

    /// Records that a job became ready and goes behind all others of its lane.
    pub(super) fn wake(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        self.wake_at(queue, class, key, u64::MAX);
    }

    pub(super) fn wake_at(&mut self, queue: QueueNo, class: u8, key: &[u8], order: u64) {
        let woken = self.woken.entry((queue, class, key.into()));
        let lowest = woken.or_insert(order);
        *lowest = order.min(*lowest);
    }

    pub(super) fn record_lane_left(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        self.lanes_left.insert((queue, class, key.into()));
    }

    pub(super) fn wait_until(&mut self, due: u64, is_delay: bool) {
        self.due.add(due, is_delay);
    }

    /// The current time, by the clock that the job's due time uses.
    pub(super) fn now_of(&self, is_delay: bool) -> u64 {
        if is_delay { self.steady } else { self.now }
    }

    /// Records that a job ended. `eventful`: the job has rows in `history` or `kept`, which are deleted with
    /// it.
    pub(super) fn record_end(&mut self, queue: QueueNo, state: State, job: JobId, eventful: bool) {
        let entry = job.0 | u64::from(eventful) << 63;
        self.ended
            .entry((queue, kind(state)))
            .or_default()
            .extend(entry.to_le_bytes());
    }
}

/// Whether a request must be durable before its events are published. The other requests are hints that a
/// crash may lose, which costs at most a repeated run.
pub(super) fn must_be_durable(request: &StoreRequest) -> bool {
    !matches!(
        request,
        StoreRequest::Running { .. }
            | StoreRequest::Started { .. }
            | StoreRequest::Checkpoint { .. }
            | StoreRequest::Progress { .. }
    )
}
