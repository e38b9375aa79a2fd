//! A count that the simulation may know only as a range, because a run that was cut off may have been counted or not.

/// Between `low` and `high`, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) low: u32,
    pub(crate) high: u32,
}

impl Count {
    pub(crate) fn increment(&mut self) {
        self.low += 1;
        self.high += 1;
    }

    pub(crate) fn maybe_increment(&mut self) {
        self.high += 1;
    }

    /// The number after the highest possible one.
    pub(crate) fn after_highest(self) -> Self {
        let next = self.high + 1;
        Self {
            low: next,
            high: next,
        }
    }

    /// The count may have been set to zero.
    pub(crate) fn maybe_reset(&mut self) {
        self.low = 0;
    }

    /// The server reports the count. Returns whether it was possible. From now on the count is known.
    pub(crate) fn observe(&mut self, seen: u32) -> bool {
        let can_be = (self.low..=self.high).contains(&seen);
        (self.low, self.high) = (seen, seen);
        can_be
    }
}
