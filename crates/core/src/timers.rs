//! Timers that wake ids at given times.

use crate::Time;
use crate::heap::Heap;

/// Wakes ids at given times, possibly early but never late. A wake-up that is no longer needed or has moved to a
/// later time is left in place, and the code that is woken checks what is due. The hot path, which moves the
/// same deadline later again and again, therefore does not touch the heap at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(Heap<Time>);

impl Timers {
    /// Wakes `id` at this time or earlier.
    pub(crate) fn wake(&mut self, id: u32, at: Time) {
        if at < Time::NEVER && self.set_for(id).is_none_or(|set| set > at) {
            self.0.set(id, at);
        }
    }

    /// When the next wake-up is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| at)
    }

    /// Removes and returns an id whose wake-up is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let (_, id) = self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.remove(id);
        Some(id)
    }

    /// When an id is woken, if a wake-up is set for it.
    pub(crate) fn set_for(&self, id: u32) -> Option<Time> {
        self.0.get(id)
    }
}
