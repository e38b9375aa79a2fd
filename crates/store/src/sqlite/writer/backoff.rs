//! Delays for repeating failed operations.

use std::time::Duration;
use stoker_os::steady;

/// When to repeat a failed operation: after a short delay first, then after longer and longer ones.
#[derive(Clone, Copy, Debug)]
pub(in crate::sqlite) struct Backoff {
    /// The time of the next attempt, by the steady clock.
    again: Duration,
    wait: Duration,
}

const FIRST: Duration = Duration::from_millis(250);

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            again: steady() + FIRST,
            wait: FIRST,
        }
    }

    /// Makes the next attempt due now, because the cause of the failure may be gone.
    pub(super) fn retry_soon(&mut self) {
        self.again = steady();
    }

    /// The backoff after another failure.
    pub(super) fn slower(self, longest: Duration) -> Self {
        let wait = longest.min(self.wait * 2);
        Self {
            again: steady() + wait,
            wait,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.again <= steady()
    }

    pub(super) fn time_left(&self) -> Duration {
        self.again.saturating_sub(steady())
    }
}
