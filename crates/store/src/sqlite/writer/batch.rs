//! What one transaction does, beyond its rows.

use crate::{JobId, Pushed, QueueNo, State, StoreRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The effects of one transaction beyond its rows: applied once it is committed, dropped if it
/// fails.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) now: u64,
    /// The same by the steady clock.
    pub(super) steady: u64,
    /// What need not be kept is forgotten along with it.
    pub(super) makes_room: bool,
    /// All of it is done, and the commit has begun: if that fails it may be in the file all the same.
    pub(super) is_committing: bool,
    /// One for each request, in their order.
    pub(super) effects: Vec<Effect>,
    /// Lanes in which jobs became ready, each with the lowest place of one that goes before others.
    pub(super) woken: BTreeMap<(QueueNo, u8, Box<[u8]>), u64>,
    /// Lanes that jobs left without having been handed over.
    pub(super) left: BTreeSet<(QueueNo, u8, Box<[u8]>)>,
    /// Jobs that ended, as `ages` keeps them, by queue and kind.
    pub(super) ended: BTreeMap<(QueueNo, u8), Vec<u8>>,
    /// When the first of those is due that wait for their time from now on.
    pub(super) due: NextDue,
}

/// When something is due first: by the wall clock, and by the steady one.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sqlite) struct NextDue(pub(super) [Option<u64>; 2]);

impl NextDue {
    /// It has to be looked up.
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

    /// How long until the first one is due.
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
        /// Its place in its lane, if it is ready.
        order: u64,
    },
    /// The job is no longer loaded.
    Left,
    /// The job is parked until it is due.
    Parked,
}

/// Which of the two orders of ages a job that ended is in.
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

    /// A job became ready, and goes behind all others of its lane.
    pub(super) fn wake(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        self.wake_at(queue, class, key, u64::MAX);
    }

    pub(super) fn wake_at(&mut self, queue: QueueNo, class: u8, key: &[u8], order: u64) {
        let woken = self.woken.entry((queue, class, key.into()));
        let lowest = woken.or_insert(order);
        *lowest = order.min(*lowest);
    }

    pub(super) fn leave(&mut self, queue: QueueNo, class: u8, key: &[u8]) {
        self.left.insert((queue, class, key.into()));
    }

    pub(super) fn wait_until(&mut self, due: u64, is_delay: bool) {
        self.due.add(due, is_delay);
    }

    /// Now, by the clock that a job's due time is of.
    pub(super) fn now_of(&self, is_delay: bool) -> u64 {
        if is_delay { self.steady } else { self.now }
    }

    /// `eventful`: it left something in `history` or `kept`, to be forgotten with it.
    pub(super) fn age(&mut self, queue: QueueNo, state: State, job: JobId, eventful: bool) {
        let entry = job.0 | u64::from(eventful) << 63;
        self.ended
            .entry((queue, kind(state)))
            .or_default()
            .extend(entry.to_le_bytes());
    }
}

/// Whether it must be durable before any event is published. The others are hints that a crash may lose,
/// which costs at most a repeated run.
pub(super) fn must_be_durable(request: &StoreRequest) -> bool {
    !matches!(
        request,
        StoreRequest::Running { .. }
            | StoreRequest::Started { .. }
            | StoreRequest::Checkpoint { .. }
            | StoreRequest::Progress { .. }
    )
}
