//! Wakes for ids at times.

use crate::Time;
use crate::heap::Heap;

/// Wakes for ids at times. It may ring early and never rings late: a wake that has become needless or
/// moved to a later time is left where it is, and whoever is woken looks at what is true by then. So the
/// hot path, which moves the same deadline later again and again, does not touch the heap at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(Heap<Time>);

impl Timers {
    /// Has `id` woken at this time or before.
    pub(crate) fn wake(&mut self, id: u32, at: Time) {
        if at < Time::NEVER && self.set_for(id).is_none_or(|set| set > at) {
            self.0.set(id, at);
        }
    }

    /// When the next wake is.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| at)
    }

    /// Takes an id whose wake has come.
    pub(crate) fn ring(&mut self, now: Time) -> Option<u32> {
        let (_, id) = self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.remove(id);
        Some(id)
    }

    /// When an id is woken, if it is.
    pub(crate) fn set_for(&self, id: u32) -> Option<Time> {
        self.0.get(id)
    }
}
